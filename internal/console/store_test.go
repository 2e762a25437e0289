package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestQuarantine follows an operator after a Redis in store mode lost its memory. The page shows
// which Redis it was, since when, and what is in quarantine. The operator decides that some of the
// units were sold and the others were not.
func TestQuarantine(t *testing.T) {
	stores := []*testservers.RedisServer{testservers.Redis(t), testservers.Redis(t)}
	s := serve(t, fmt.Sprintf("instances:\n- {name: redis-a, driver: redis, addrs: [%q]}\n"+
		"- {name: redis-b, driver: redis, addrs: [%q]}\n", stores[0].Addr(), stores[1].Addr()))
	s.must("POST", "/v1/budgets", `{"name":"tickets","unit":"count","type":"promo","total_quantity":1000,
		"bucket_quantity":2,"durability":"store"}`)
	for n := range 10 {
		s.must("POST", "/v1/budgets/tickets/deduct", fmt.Sprintf(`{"request_id":"o%d","amount":10}`, n))
	}
	page := open(t, s.url+"/#/budgets/default/tickets")
	page.sees("store mode", "every unit is accounted for", "No store lost units of this budget.")
	page.until("what was sold arrives", `[...document.querySelectorAll('dt')].some(
		e => e.innerText === 'Used' && e.nextSibling.innerText === '100 10%')`)

	if err := stores[1].Kill(); err != nil {
		t.Fatal(err)
	}
	s.outage(page)
	if err := stores[1].Restart(); err != nil {
		t.Fatal(err)
	}
	page.sees("How many of them were sold is not known.", "the memory of incarnation 1 of redis-b/0 was lost")
	page.clicks("link", "Overview")
	page.sees("Units in quarantine", "Decide on them", "units of 1 budgets")
	page.do(chromedp.Navigate(s.url + "/#/instances"))
	page.sees("redis-b")
	page.until("what is at risk", `[...document.querySelectorAll('td[data-label="At risk"]')].map(
		e => e.innerText).join() === '450,0' && document.body.innerText.includes('450 units at risk')`)
	a, b := page.rows("Partitions of redis-a")[0], page.rows("Partitions of redis-b")[0]
	if a[3] != "master" || !strings.Contains(a[5], "incarnation 1: first contact") || !strings.Contains(a[5], "UTC") {
		t.Errorf("the partition of redis-a: %q", a)
	}
	if b[3] != "master" || b[4] != "0" || !strings.Contains(b[5], "incarnation 2: another memory") {
		t.Errorf("the partition of redis-b: %q", b)
	}
	page.picture("instances-replaced")
	page.do(chromedp.Navigate(s.url + "/#/budgets/default/tickets"))
	page.sees("How many of them were sold is not known.")
	lost := int(s.must("GET", "/v1/budgets/tickets", "")["quarantined"].(float64))
	if got := page.rows("Quarantine"); lost < 100 || len(got) != 1 || got[0][1] != fmt.Sprintf("%d of %d", lost, lost) {
		t.Fatalf("%d are lost; quarantine: %q", lost, got)
	}
	page.picture("quarantine")
	page.clicks("button", "Decide")
	page.sees("leaves the quarantine for good", "Choose whether they were sold.")
	page.chooses("These units", "sold")
	page.types("Quantity, in units", "5000")
	page.sees(fmt.Sprintf("That is more than is in quarantine: %d.", lost))
	page.types("Quantity, in units", "30")
	page.types("Reason", "the door counted 30")
	page.types("Who decides", "night shift")
	page.sees(fmt.Sprint(lost - 30))
	before := s.must("GET", "/v1/budgets/tickets", "")
	if before["quarantined"] != float64(lost) {
		t.Errorf("it was done before it was confirmed: %v", before)
	}
	page.picture("release")
	page.clicks("button", "Release")
	page.sees(fmt.Sprintf("30 count as used; %d are still in quarantine.", lost-30))
	page.clicks("button", "Close")
	page.clicks("button", "Decide")
	page.chooses("These units", "unsold")
	page.types("Quantity, in units", fmt.Sprint(lost-30))
	page.types("Reason", "nobody has them")
	page.types("Who decides", "night shift")
	page.clicks("button", "Release")
	page.sees(fmt.Sprintf("%d went back to the budget; 0 are still in quarantine.", lost-30))
	page.clicks("button", "Close")
	after := s.must("GET", "/v1/budgets/tickets", "")
	if after["used"] != 130.0 || after["quarantined"] != 0.0 {
		t.Errorf("after the release: %v", after)
	}
	page.clicks("button", "Audit now")
	page.until("the audit", `[...document.querySelectorAll('.legend li')].some(
		e => /S\s*used\s*130/.test(e.innerText))`)
	page.sees("every unit is accounted for")
	if got := page.rows("Quarantine"); len(got) != 1 || got[0][2] != fmt.Sprint(lost) {
		t.Errorf("quarantine afterwards: %q", got)
	}
	if said := page.complaints(); said != "" {
		t.Errorf("the browser complains:\n%s", said)
	}
}

// outage checks what the page of tickets and the list say while redis-b, which has half of the 900
// units that are left, does not answer.
func (s *server) outage(page *tab) {
	s.t.Helper()
	page.sees("serves partly", "redis-b does not answer: 1 of 2 online buckets with 450 units are out of reach, "+
		"and with them about 50% of the calls.", "1 out of reach")
	refused := 0
	for n := range 20 {
		if status, _ := s.ask("POST", "/v1/budgets/tickets/deduct",
			fmt.Sprintf(`{"request_id":"down%d","amount":1000}`, n)); status == 503 {
			refused++
		}
	}
	if refused == 0 {
		s.t.Fatal("no call was refused")
	}
	page.sees("serves partly, refuses ", "of its calls for a cause that is not the caller’s")
	page.until("a square that is out of reach", `!!document.querySelector('.square.unreachable[aria-label*="out of reach"]')`)
	page.clicks("button", "Audit now")
	page.sees("accounted for, except 1 buckets that were not reached")
	if text := page.text(); strings.Contains(text, "every unit is accounted for") {
		s.t.Errorf("the page says that all is well:\n%s", text)
	}
	page.clicks("link", "Overview")
	page.until("what is broken, for whom", `[...document.querySelectorAll('caption')].some(c =>
		c.innerText === 'Needs a person' && c.parentElement.innerText.includes('redis-b does not answer'))`)
	work := page.rows("Needs a person")
	if len(work) != 1 || work[0][1] != "1 1 buckets" || work[0][4] != "tickets default" {
		s.t.Errorf("what needs a person: %q", work)
	}
	page.clicks("link", "See the budgets that it hurts")
	page.sees("Only budgets with one trouble: store down:redis-b.", "1 found")
	page.clicks("link", "tickets")
	page.sees("store mode")
	b := s.must("GET", "/v1/budgets/tickets", "")
	if b["serving"] != "partly" || b["remaining"] != 450.0 || b["out_of_reach"] != 450.0 {
		s.t.Errorf("the budget: %v", b)
	}
}

// TestWhyRefusedInStoreMode checks that the page shows the key and the bucket by which store mode
// routes a refused request, and finds the record of its id by that key or by a key that was typed.
func TestWhyRefusedInStoreMode(t *testing.T) {
	s := serve(t, fmt.Sprintf("instances: [{name: redis-a, driver: redis, addrs: [%q]}]\n",
		testservers.Redis(t).Addr()))
	s.must("POST", "/v1/budgets", `{"name":"tickets","unit":"count","type":"promo","total_quantity":1000,
		"bucket_quantity":16,"durability":"store","routing_dimension":"user"}`)
	deduct := func(id string, amount int, user, key string) (int, map[string]any) {
		return s.ask("POST", "/v1/budgets/tickets/deduct", fmt.Sprintf(
			`{"request_id":%q,"amount":%d,"key":%q,"dimensions":{"city":"rome","user":%q}}`, id, amount, key, user))
	}
	if status, _ := deduct("order-1", 2000, "u-1", "k-1"); status != 409 {
		t.Fatalf("the first attempt: %d", status)
	}
	page := open(t, s.url+"/#/refusals")
	page.types("Request id", "order-1")
	page.types("In the budget", "tickets")
	page.clicks("button", "Look")
	page.sees("has no record of request \"order-1\"", "budget_exhausted")
	_, done := deduct("order-1", 2, "u-1", "k-1")
	deduct("order-2", 3, "u-2", "k-2")
	page.do(chromedp.Reload())
	page.sees("order-1 is used: 2.", fmt.Sprintf("key u-1 → %v → redis-a/0", done["bucket"]))
	page.types("Request id", "order-2")
	page.clicks("button", "Look")
	page.sees("must be the deduction's value of user")
	page.types("Key of the record", "u-2")
	page.clicks("button", "Look")
	page.sees("order-2 is used: 3.", "This node remembers no such refusal.")
}
