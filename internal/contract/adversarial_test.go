package contract_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/proof/adversarial"
)

// TestHostileInput checks that every answer to a hostile request is as documented.
func TestHostileInput(t *testing.T) {
	d := theDocument(t)
	n := start(t, "http: {read_timeout: 1s}\n", "auth: loopback\n")
	n.ask(t, "POST", "/v1/budgets", `{"name":"sale","unit":"count","type":"promo","total_quantity":9}`)
	target := adversarial.Target{Addr: n.URL[len("http://"):], Budget: "sale", BodyBytes: 1 << 20,
		BatchBytes: 4 << 20, BatchItems: 1000, ReadTimeout: time.Second}
	cases, err := adversarial.Table(target)
	if err != nil {
		t.Fatal(err)
	}
	judged := 0
	for _, c := range cases {
		if len(c.Codes) == 0 {
			continue // refused before the call is known
		}
		answer, body, err := c.Send(target)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		at, err := url.Parse(c.Path)
		if err != nil || at.Path == "" {
			at = &url.URL{Path: "/"}
		}
		method := c.Method
		if method == "" {
			method = http.MethodPost
		}
		if method == http.MethodHead {
			continue // has no body to judge
		}
		e := &exchange{request: &http.Request{Method: method, URL: at, Host: "localhost",
			Header: http.Header{"Content-Type": {"application/json"}}}, sent: c.Body, answer: answer,
			received: body}
		faults := d.judgeAll(e)
		if c.Item { // the batch is answered with 200, although the document forbids its item
			faults = append(d.judgeAnswer(e), d.judgeProblem(e)...)
		}
		for _, fault := range faults {
			t.Errorf("%s: %s: %.300s", c.Name, fault, body)
		}
		judged++
	}
	if judged < 300 {
		t.Errorf("only %d requests were judged", judged)
	}
}
