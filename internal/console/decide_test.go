package console_test

import (
	"fmt"
	"testing"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestDecideOnMany loses the memory of a Redis with units of 92 budgets, and decides on all of them
// from the overview, in at most six clicks. All that was lost must count as used, and no unit more.
func TestDecideOnMany(t *testing.T) {
	const n, total, sold = 92, 100, 3
	store := testservers.Redis(t)
	s := serve(t, fmt.Sprintf("instances:\n- {name: redis-a, driver: redis, addrs: [%q]}\n", store.Addr()))
	nameOf := func(i int) string { return fmt.Sprintf("tickets-%02d", i) }
	for i := range n {
		s.must("POST", "/v1/budgets", fmt.Sprintf(`{"name":%q,"unit":"count","type":"promo","total_quantity":%d,
			"bucket_quantity":1,"durability":"store"}`, nameOf(i), total))
		s.must("POST", "/v1/budgets/"+nameOf(i)+"/deduct", fmt.Sprintf(`{"request_id":"o1","amount":%d}`, sold))
	}
	if err := store.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := store.Restart(); err != nil {
		t.Fatal(err)
	}
	page := &counted{tab: open(t, s.url+"/#/overview")}
	page.until("92 budgets in quarantine", `[...document.querySelectorAll('tr')].some(
		e => /Units in quarantine\s+92/.test(e.innerText))`)
	lost := make([]float64, n)
	for i := range n {
		b := s.must("GET", "/v1/budgets/"+nameOf(i), "")
		lost[i] = b["quarantined"].(float64)
		if lost[i] < 1 || b["used"].(float64)+lost[i] > total {
			t.Fatalf("%s: %v", nameOf(i), b)
		}
	}
	page.click("link", "Decide on them")
	page.sees("92 found", "Quarantined")
	page.click("button", "Select all 92")
	page.click("button", "Decide on 92")
	page.sees("All that is in quarantine of them leaves it for good.", "Choose whether they were sold.")
	page.chooses("These units", "sold")
	page.clicks++
	page.sees("Type a reason.")
	page.types("Reason", "the shop's own books")
	page.types("Who decides", "night shift")
	page.click("button", "Release those of 92 budgets")
	page.sees("92 of 92 budgets are decided: their units count as used.")
	t.Logf("%d clicks", page.clicks)
	if page.clicks > 6 {
		t.Errorf("%d clicks, at most 6", page.clicks)
	}
	page.click("button", "Close")
	for i := range n {
		b := s.must("GET", "/v1/budgets/"+nameOf(i), "")
		if b["quarantined"] != 0.0 || b["used"].(float64) < lost[i] || b["total_quantity"] != float64(total) ||
			b["used"].(float64)+b["remaining"].(float64) != total {
			t.Errorf("%s, which had lost %v: %v", nameOf(i), lost[i], b)
		}
	}
	list := s.must("GET", "/v1/budgets/"+nameOf(7)+"/quarantine", "")["quarantines"].([]any)
	decision := list[0].(map[string]any)["releases"].([]any)[0].(map[string]any)
	if decision["reason"] != "the shop's own books" || decision["by"] != "night shift" || decision["used"] != true {
		t.Errorf("decision: %v", decision)
	}
	page.sees("No budget has this trouble now.")
	if said := page.complaints(); said != "" {
		t.Errorf("the browser complains:\n%s", said)
	}
}
