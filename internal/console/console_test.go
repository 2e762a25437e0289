package console_test

import (
	"testing"
)

// The first page lists the budgets with their figures, and breaks no policy.
func TestBudgets(t *testing.T) {
	s := serve(t)
	s.must("POST", "/v1/budgets", `{"name":"spring-sale","unit":"count","type":"promo",
		"total_quantity":1000000}`)
	s.must("POST", "/v1/budgets/spring-sale/deduct", `{"request_id":"o1","amount":250000}`)
	page := open(t, s.url+"/#/budgets")
	page.sees("spring-sale", "effective", "750,000", "250,000", "1,000,000", "25%")
	if got := page.rows("Budgets"); len(got) != 1 {
		t.Errorf("rows: %q", got)
	}
	if said := page.complaints(); said != "" {
		t.Errorf("the browser complains:\n%s", said)
	}
}
