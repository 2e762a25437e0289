package adversarial

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// patience is the time that a server may take to refuse in addition to its read timeout.
const patience = 10 * time.Second

// Run sends every case, several concurrently. It fails t for each case that is not refused as
// required, or after which changed returns a text that describes a change.
func Run(t *testing.T, target Target, changed func() string) {
	t.Helper()
	cases, err := Table(target)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if err := c.check(target); err != nil {
				t.Errorf("%s: %v", c.At, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if what := changed(); what != "" {
				t.Errorf("%s: the case had an effect: %s", c.At, what)
			}
		})
	}
}

// check sends the case and returns what is wrong with the answer.
func (c Case) check(target Target) error {
	began := time.Now()
	answer, body, err := c.Send(target)
	if len(c.Statuses) == 0 {
		if err == nil {
			return fmt.Errorf("answered %d %.200s, want a closed connection", answer.StatusCode, body)
		}
		if took := time.Since(began); took >= target.ReadTimeout+patience {
			return fmt.Errorf("still open after %s", took)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	if answer.Header.Get("Location") != "" {
		return fmt.Errorf("redirected to %q", answer.Header.Get("Location"))
	}
	if c.Item {
		return c.judgeItem(answer, body)
	}
	if !slices.Contains(c.Statuses, answer.StatusCode) {
		return fmt.Errorf("answered %d %.300s, want %v", answer.StatusCode, body, c.Statuses)
	}
	if len(c.Codes) == 0 {
		return nil
	}
	if got := answer.Header.Get("Content-Type"); got != "application/problem+json" {
		return fmt.Errorf("answered with Content-Type %q", got)
	}
	if answer.Header.Get("X-Correlation-Id") == "" {
		return errors.New("answered without X-Correlation-Id")
	}
	if c.Method == "HEAD" {
		return nil
	}
	return c.judge(answer.StatusCode, body)
}

// problem has the checked members of a problem document.
type problem struct {
	Type   string              `json:"type"`
	Title  string              `json:"title"`
	Status int                 `json:"status"`
	Detail string              `json:"detail"`
	Code   budget.Code         `json:"code"`
	Errors []budget.FieldError `json:"errors"`
}

func (c Case) judge(status int, body []byte) error {
	var p problem
	if err := json.Unmarshal(body, &p); err != nil {
		return fmt.Errorf("answered %.200q: %w", body, err)
	}
	switch {
	case !slices.Contains(c.Codes, p.Code):
		return fmt.Errorf("answered code %q, want %v: %.300s", p.Code, c.Codes, body)
	case p.Status != status || p.Type == "" || p.Title == "" || p.Detail == "":
		return fmt.Errorf("the problem is not complete: %.300s", body)
	case len(body) > 64<<10:
		return fmt.Errorf("the problem has %d bytes", len(body))
	case strings.Contains(string(body), "goroutine ") || strings.Contains(string(body), ".go:"):
		return fmt.Errorf("the problem shows a stack: %.300s", body)
	}
	named := func(f budget.FieldError) bool { return f.Field == c.Field && f.Message != "" }
	if c.Field != "" && !slices.ContainsFunc(p.Errors, named) {
		return fmt.Errorf("no error names the field %q: %.300s", c.Field, body)
	}
	return nil
}

// judgeItem checks the first result of a batch.
func (c Case) judgeItem(answer *http.Response, body []byte) error {
	var batch struct {
		Results []jsontext.Value `json:"results"`
	}
	if err := json.Unmarshal(body, &batch); err != nil || answer.StatusCode != 200 ||
		len(batch.Results) == 0 {
		return fmt.Errorf("answered %d %.300s: %w", answer.StatusCode, body, err)
	}
	return c.judge(c.Statuses[0], batch.Results[0])
}

// Send writes the request to a connection of its own and reads the answer.
func (c Case) Send(target Target) (*http.Response, []byte, error) {
	connection, err := net.DialTimeout("tcp", target.Addr, patience)
	if err != nil {
		return nil, nil, err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(target.ReadTimeout + patience)); err != nil {
		return nil, nil, err
	}
	text := c.Raw
	if text == "" {
		text = c.text()
	}
	// The server may answer and close the connection before all is sent, so write concurrently.
	go func() { _, _ = io.WriteString(connection, text) }()
	method := c.Method
	if method == "" {
		method = "POST"
	}
	answer, err := http.ReadResponse(bufio.NewReader(connection), &http.Request{Method: method})
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer, body, err
}

func (c Case) text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", c.Method, c.Path)
	for _, line := range c.Header {
		out.WriteString(line + "\r\n")
	}
	if !c.Untyped && (c.Body != "" || c.Method == "POST" || c.Method == "PATCH") {
		out.WriteString("Content-Type: application/json\r\n")
	}
	if c.Body != "" || c.Method == "POST" || c.Method == "PATCH" {
		fmt.Fprintf(&out, "Content-Length: %d\r\n", len(c.Body))
	}
	out.WriteString("\r\n" + c.Body)
	return out.String()
}
