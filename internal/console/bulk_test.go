package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// counted clicks like a person, and counts that.
type counted struct {
	*tab
	clicks int
}

func (c *counted) click(role, name string) {
	c.t.Helper()
	c.tab.clicks(role, name)
	c.clicks++
}

// TestBulk pauses the 400 budgets of a tenant in at most five clicks, resumes two of them, and
// appends to those that a search finds. Those of another tenant stay as they are.
func TestBulk(t *testing.T) {
	const n = 400
	s := serve(t, "")
	s.must("POST", "/v1/budgets", `{"name":"own","tenant":"other","unit":"count","type":"promo","total_quantity":5}`)
	for i := range n {
		s.must("POST", "/v1/budgets", fmt.Sprintf(`{"name":"b-%03d","tenant":"shop","unit":"count","type":"promo",
			"total_quantity":100,"bucket_quantity":1}`, i))
	}
	total := func(query string) int {
		return int(s.must("GET", "/v1/budgets?tenant=*&skip=0&page_size=1"+query, "")["total"].(float64))
	}
	for total("") != n+1 {
		time.Sleep(50 * time.Millisecond)
	}
	page := &counted{tab: open(t, s.url+"/#/budgets")}
	page.sees("401 found")
	page.chooses("Tenant", "shop")
	page.clicks++
	page.sees("400 found")
	page.click("button", "Select all 400")
	page.click("button", "Pause 400")
	page.sees("All that match of tenant shop.", "Every deduction from them is refused with budget_paused", "Say why.")
	page.types("Reason", "a wrong price")
	page.types("How many budgets? Type 400", "40")
	page.sees("Type 400 to confirm")
	page.types("How many budgets? Type 400", "400")
	began := time.Now()
	page.click("button", "Pause 400 budgets")
	page.sees("400 paused.")
	t.Logf("%d budgets were paused by %d clicks, in %s", n, page.clicks, time.Since(began).Round(time.Millisecond))
	if page.clicks > 5 {
		t.Errorf("%d clicks, at most 5", page.clicks)
	}
	page.click("button", "Close")
	status := func(name, tenant string) any {
		return s.must("GET", "/v1/budgets/"+name+"?tenant="+tenant, "")["status"]
	}
	for i := range n {
		if got := status(fmt.Sprintf("b-%03d", i), "shop"); got != "paused" {
			t.Fatalf("b-%03d is %s", i, got)
		}
	}
	if got := status("own", "other"); got != "effective" {
		t.Errorf("the budget of the other tenant is %s", got)
	}
	log := s.must("GET", "/v1/audit-log?op=bulk", "")["entries"].([]any)
	if text := fmt.Sprint(log); len(log) != 1 || !strings.Contains(text, "a wrong price") {
		t.Errorf("audit log: %s", text)
	}

	page.click("checkbox", "Select b-001")
	page.click("checkbox", "Select b-003")
	page.click("button", "Resume 2")
	page.sees("shop/b-001, shop/b-003.")
	page.types("Reason", "right again")
	page.types("How many budgets? Type 2", "2")
	page.click("button", "Resume 2 budgets")
	page.sees("2 resumed.")
	page.click("button", "Close")
	if got := []any{status("b-001", "shop"), status("b-002", "shop"), status("b-003", "shop")}; fmt.Sprint(got) != "[effective paused effective]" {
		t.Errorf("after the resume: %v", got)
	}

	page.types("Search", "b-00")
	page.sees("10 found")
	page.click("button", "Select these 10")
	page.click("button", "Append to 10")
	page.types("Quantity for each, in minor units", "7")
	page.types("Reason", "more")
	page.types("How many budgets? Type 10", "10")
	page.click("button", "Append to 10 budgets")
	page.sees("10 appended to.")
	for i := range 11 {
		want := 107.0
		if i == 10 {
			want = 100
		}
		if got := s.must("GET", fmt.Sprintf("/v1/budgets/b-%03d?tenant=shop", i), "")["total_quantity"]; got != want {
			t.Errorf("b-%03d has %v units, want %v", i, got, want)
		}
	}
	if said := page.complaints(); said != "" {
		t.Errorf("the browser complains:\n%s", said)
	}
}
