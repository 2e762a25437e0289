package httpapi_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/internal/proof/adversarial"
	"github.com/go-json-experiment/json"
)

// TestHostileInput checks that no request of the table of hostile input reaches the service.
func TestHostileInput(t *testing.T) {
	service, server, _ := start(t)
	target := adversarial.Target{
		Addr: strings.TrimPrefix(server.URL, "http://"), Budget: "sale", BodyBytes: limits.BodyBytes,
		BatchBytes: limits.BatchBytes, BatchItems: 1000, ReadTimeout: limits.ReadTimeout,
	}
	t.Run("table", func(t *testing.T) {
		adversarial.Run(t, target, func() string { return strings.Join(service.taken(), "; ") })
	})
}

// TestOddIDsArriveAsTheyAre checks that unusual ids are valid in a body and in a query, and that
// those of a body arrive byte for byte.
func TestOddIDsArriveAsTheyAre(t *testing.T) {
	service, server, _ := start(t)
	for _, id := range adversarial.OddIDs() {
		text, err := json.Marshal(map[string]any{"request_id": id, "amount": 1})
		if err != nil {
			t.Fatal(err)
		}
		if answer, body := ask(t, server, "POST", "/v1/budgets/sale/deduct", string(text)); answer.StatusCode != 200 {
			t.Errorf("deduct %q: %d %s", id, answer.StatusCode, body)
		}
		if calls := service.taken(); len(calls) != 1 || !strings.Contains(calls[0], "RequestID:"+id+" Amount") {
			t.Errorf("deduct %q arrived as %q", id, calls)
		}
		answer, body := ask(t, server, "GET", "/v1/budgets/sale/deductions?request_id="+url.QueryEscape(id), "")
		if answer.StatusCode != 200 || len(service.taken()) != 1 {
			t.Errorf("deduction %q: %d %s", id, answer.StatusCode, body)
		}
	}
}
