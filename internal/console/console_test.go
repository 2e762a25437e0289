package console_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// views are the addresses of all views.
var views = map[string]string{"overview": "/#/overview", "budgets": "/#/budgets?sort=exhausted_at",
	"budget": "/#/budgets/default/spring-sale", "refusals": "/#/refusals?request_id=order-9",
	"alerts": "/#/alerts", "instances": "/#/instances", "audit-log": "/#/audit-log", "keys": "/#/keys"}

// shop is a server with two Redis and some budgets, each with its story.
func shop(t *testing.T) (*server, []*testservers.RedisServer) {
	t.Helper()
	stores := []*testservers.RedisServer{testservers.Redis(t), testservers.Redis(t)}
	s := serve(t, fmt.Sprintf("instances:\n- {name: redis-a, driver: redis, addrs: [%q]}\n"+
		"- {name: redis-b, driver: redis, addrs: [%q]}\n", stores[0].Addr(), stores[1].Addr()))
	s.must("POST", "/v1/budgets", `{"name":"spring-sale","unit":"count","type":"promo",
		"total_quantity":1000000,"bucket_quantity":24,"end_at":"2031-01-01T00:00:00Z"}`)
	s.must("POST", "/v1/budgets", `{"name":"vouchers","unit":"amount","type":"promo",
		"total_quantity":5000000,"bucket_quantity":4,"routing_dimension":"user","limits":[{"name":"per-user",
		"dimension":"user","window":{"kind":"calendar","every":"day"},"max":4000,"measure":"amount"}]}`)
	s.must("POST", "/v1/budgets", `{"name":"daily-coupons","unit":"count","type":"daily",
		"total_quantity":365000,"timezone":"Europe/Berlin","end_at":"2031-01-01T00:00:00Z",
		"type_rule":{"kind":"calendar","every":"day","quantity":1000,"unused":"next"}}`)
	for n := range 40 {
		s.must("POST", "/v1/budgets", fmt.Sprintf(`{"name":"campaign-%02d","unit":"count",
			"type":"promo","total_quantity":1000,"bucket_quantity":1}`, n))
	}
	for n := range 8 {
		s.must("POST", "/v1/budgets/spring-sale/deduct",
			fmt.Sprintf(`{"request_id":"order-%d","amount":30000}`, n))
	}
	s.must("POST", "/v1/budgets/spring-sale/deduct",
		`{"request_id":"held-1","amount":1200,"hold_ttl":"30m"}`)
	s.must("POST", "/v1/budgets/daily-coupons/deduct", `{"request_id":"c1","amount":140}`)
	s.must("POST", "/v1/budgets/spring-sale/recycle", "")
	return s, stores
}

// spend uses two budgets at two rates, and waits until the overview projects both. That takes a
// minute: nothing is projected from less.
func (s *server) spend(page *tab) {
	s.t.Helper()
	for n := range 12 {
		s.must("POST", "/v1/budgets/campaign-17/deduct",
			fmt.Sprintf(`{"request_id":"fast-%d","amount":40}`, n))
		s.must("POST", "/v1/budgets/campaign-05/deduct",
			fmt.Sprintf(`{"request_id":"slow-%d","amount":2}`, n))
	}
	page.until("projections", `['campaign-17', 'campaign-05'].every(name =>
		document.querySelector('tbody a[href$="' + name + '"]'))`)
}

// ahead matches an instant with its zone, which lies ahead.
var ahead = regexp.MustCompile(`^in \d+ (s|min|h|d)[^,]*\n\d\d \w+ \d{4}, \d\d:\d\d:\d\d \S+$`)

// TestOverview follows an operator. The operator sees that all is well, which of many budgets runs
// out first, what was refused, and which Redis died.
func TestOverview(t *testing.T) {
	s, stores := shop(t)
	page := open(t, s.url+"/")
	page.sees("Overview", "all is well", "every unit is accounted for", "redis-a", "redis-b",
		"2 up", "43 effective", "live")
	s.spend(page)
	next := page.rows("What runs out next")
	if next[0][0] != "campaign-17" || !ahead.MatchString(next[0][1]) {
		t.Errorf("what runs out next: %q", next)
	}
	for n := range 3 {
		s.ask("POST", "/v1/budgets/campaign-30/deduct",
			fmt.Sprintf(`{"request_id":"big-%d","amount":5000}`, n))
	}
	page.until("the refusals", `document.body.innerText.includes('budget_exhausted 3')`)
	if got := page.rows("Refused most lately"); got[0][0] != "campaign-30" || got[0][1] != "3" {
		t.Errorf("refused most: %q", got)
	}
	page.picture("overview")
	page.clicks("link", "All, in this order")
	page.sees("The order is as of")
	if got := page.rows("Budgets"); len(got) != 43 || got[0][0] != "campaign-17" {
		t.Errorf("%d budgets, first: %q", len(got), got)
	}
	for _, row := range page.rows("Budgets") {
		used := row[0] == "campaign-17" || row[0] == "campaign-05"
		if used && !ahead.MatchString(row[7]) || row[0] == "campaign-30" && row[7] != "–" {
			t.Errorf("when it runs out: %q", row)
		}
	}
	page.picture("budgets")
	page.chooses("Order", "-refusals")
	page.until("the other order", `document.querySelector('tbody a')?.innerText === 'campaign-30'`)
	if got := page.rows("Budgets"); got[0][len(got[0])-1] != "3" || got[1][len(got[1])-1] != "0" {
		t.Errorf("what was refused most: %q", got[:2])
	}
	page.clicks("link", "Overview")

	if err := stores[1].Kill(); err != nil {
		t.Fatal(err)
	}
	page.sees("1 of 2 down", "look here", "instance redis-b/0 does not answer")
	page.clicks("link", "Instances")
	page.sees("Drain redis-a")
	partitions := page.rows("Partitions of redis-b")
	if len(partitions) != 1 || partitions[0][1] != "no" || partitions[0][6] == "–" {
		t.Errorf("partitions of the dead instance: %q", partitions)
	}
	if partitions := page.rows("Partitions of redis-a"); partitions[0][1] != "yes" {
		t.Errorf("partitions of the other one: %q", partitions)
	}
	page.picture("instances")
	if said := page.complaints(); said != "" {
		t.Errorf("the browser complains:\n%s", said)
	}
}

// TestBudgets checks that the server searches, sorts and filters the list, and that the page shows
// how many budgets it found.
func TestBudgets(t *testing.T) {
	s, _ := shop(t)
	page := open(t, s.url+"/#/budgets")
	page.sees("43 found")
	page.types("Search", "campaign-1")
	page.sees("10 found")
	if got := page.rows("Budgets"); len(got) != 10 || got[0][0] != "campaign-10" {
		t.Errorf("search: %q", got)
	}
	page.clicks("link", "Budgets")
	page.sees("43 found")
	if got := value[string](page, named("textbox", "Search")+`.value`); got != "" {
		t.Errorf("the search is gone, and its box shows %q", got)
	}
	page.types("Search", "campaign-2")
	page.sees("10 found")
	page.types("Search", kb.Backspace)
	page.sees("43 found")
	page.clicks("button", "Remaining")
	page.until("the least remaining first", `document.querySelector('tbody a')?.innerText === 'daily-coupons'`)
	page.clicks("button", "Remaining ▲")
	page.until("the most remaining first", `document.querySelector('tbody a')?.innerText === 'vouchers'`)
	got := page.rows("Budgets")
	if got[1][0] != "spring-sale" || got[1][2] != "758,800" || got[1][3] != "1,200" ||
		got[1][4] != "240,000" || got[1][5] != "1,000,000" {
		t.Errorf("by what remains: %q", got[1])
	}
	page.chooses("Type", "daily")
	page.sees("1 found", "daily-coupons")
	page.clicks("link", "daily-coupons")
	page.sees("140 of 1,000 used", "CET", "serves")
	s.must("POST", "/v1/budgets/daily-coupons/deduct", `{"request_id":"c2","amount":860}`)
	page.sees("period used up", "This period is used up, and every call is refused until")
	page.until("what is out of reach", `[...document.querySelectorAll('dt')].some(e => e.innerText === 'Out of reach'
		&& /^364,000 until/.test(e.nextSibling.innerText))`)
	if green := value[int](page, `document.querySelectorAll('.head .mark.good').length`); green != 0 {
		t.Error("a budget that serves nothing is green")
	}
	page.do(chromedp.Navigate(s.url + "/#/budgets?sort=serving"))
	page.until("what hurts first", `document.querySelector('tbody a')?.innerText === 'daily-coupons'`)
	if got := page.rows("Budgets"); got[0][1] != "period used up" || got[1][1] != "serves partly" {
		t.Errorf("by what hurts: %q", got[:2])
	}
	if said := page.complaints(); said != "" {
		t.Errorf("the browser complains:\n%s", said)
	}
}

// TestBudget checks that the page of a budget shows its figures, buckets, holds and last entries,
// and follows their changes.
func TestBudget(t *testing.T) {
	s, _ := shop(t)
	page := open(t, s.url+views["budget"])
	page.sees("758,800", "240,000", "every unit is accounted for", " online", "held-1", "order-7")
	page.until("a square per bucket", `document.querySelectorAll('.square').length === 24`)
	page.js(`document.querySelector('.square').focus()`)
	page.sees("spring-sale:bucket-", "epoch ")
	page.presses(kb.ArrowRight)
	page.until("the focus on the second square, the only stop", `(all => document.activeElement === all[1] &&
		all.every((e, i) => (e.tabIndex === 0) === (i === 1)))([...document.querySelectorAll('.square')])`)
	page.until("the curve", `!!document.querySelector('.chart canvas')`)
	page.picture("budget")

	s.must("POST", "/v1/budgets/spring-sale/deduct", `{"request_id":"just-now","amount":8800}`)
	page.sees("750,000", "just-now")
	page.clicks("button", "Release")
	page.sees("Release the hold held-1", "1,200")
	page.clicks("button", "Release it")
	page.sees("1,200 were released.")
	page.clicks("button", "Close")
	page.sees("Nothing is held.", "751,200")
	if said := page.complaints(); said != "" {
		t.Errorf("the browser complains:\n%s", said)
	}
}

// TestChange checks that a change is shown before it is confirmed, made only then, and reported.
// The first change uses the keyboard alone.
func TestChange(t *testing.T) {
	s, _ := shop(t)
	page := open(t, s.url+views["budget"])
	page.js(page.finds("button", "Append") + `.focus()`)
	page.presses(kb.Enter)
	page.sees("Append to spring-sale", "Type a quantity")
	page.presses("0")
	page.sees("Type a quantity")
	page.presses(kb.Backspace, "500,000")
	page.sees("1,500,000", "1,258,800")
	if got := page.rows("What this changes"); len(got) != 3 || got[0][1] != "1,000,000" {
		t.Errorf("the diff: %q", got)
	}
	page.picture("change")
	if v := s.must("GET", "/v1/budgets/spring-sale", ""); v["total_quantity"] != 1000000.0 {
		t.Errorf("it was done before it was confirmed: %v", v)
	}
	page.presses(kb.Enter)
	page.sees("The total of spring-sale is 1,500,000")
	if v := s.must("GET", "/v1/budgets/spring-sale", ""); v["total_quantity"] != 1500000.0 {
		t.Errorf("%v", v)
	}
	page.presses(kb.Escape)
	page.until("the dialog closes", `!document.querySelector('dialog')`)

	page.clicks("button", "Shrink")
	page.types("Quantity, in units", "2000000")
	page.sees("That is more than is neither used nor held")
	page.presses(kb.Escape)
	page.clicks("button", "Pause")
	page.sees("What is held stays held.", "Accepted in the last minute")
	page.clicks("button", "Pause it")
	page.sees("spring-sale is paused.")
	page.clicks("button", "Close")
	page.until("who changed it", `[...document.querySelectorAll('caption')].some(c => c.innerText === 'Changes' &&
		c.parentElement.innerText.includes('1,000,000 → 1,500,000'))`)
	if got := page.rows("Changes"); got[0][1] != "anonymous" || got[0][2] != "change" || got[1][2] != "append" {
		t.Errorf("changes of the budget, the newest first: %q", got)
	}
	page.clicks("link", "All of them")
	page.until("only those of the budget", `location.hash.includes('target=spring-sale') &&
		document.querySelectorAll('tbody tr').length > 0`)
	for _, row := range page.rows("Audit log") {
		if row[4] != "default/spring-sale" {
			t.Errorf("the log of spring-sale has %q", row)
		}
	}
	page.clicks("link", "Audit log")
	page.sees("append", "change")
	page.until("the whole log", `document.querySelectorAll('tbody tr').length > 10`)
	rows := page.rows("Audit log")
	if rows[0][3] != "change" || rows[1][3] != "append" || rows[1][4] != "default/spring-sale" ||
		!strings.HasPrefix(rows[1][5], "done") {
		t.Errorf("audit log, the newest first: %q", rows[:2])
	}
	page.picture("audit-log")
	for range 60 {
		s.must("POST", "/v1/budgets/campaign-00/recycle", "")
	}
	page.types("Call", "append")
	page.until("one append", `document.querySelectorAll('tbody tr').length === 1`)
	page.types("Call", "recycle")
	page.until("a page of recycles", `document.querySelectorAll('tbody tr').length === 50`)
	newest := page.rows("Audit log")
	page.clicks("button", "Older")
	page.until("the page before", fmt.Sprintf(`(e => !!e && e.innerText !== %q)(
		document.querySelector('tbody td.num'))`, newest[0][0]))
	older := page.rows("Audit log")
	if last := newest[49]; number(t, older[0][0]) >= number(t, last[0]) || older[0][3] != "recycle" {
		t.Errorf("after %q comes %q", last, older[0])
	}
	page.clicks("button", "Newest")
	page.until("the newest", fmt.Sprintf(`document.querySelector('tbody td.num')?.innerText === %q`,
		newest[0][0]))
}

// number reads a number as the page groups it.
func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.ReplaceAll(text, ",", ""))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestWhyRefused checks that a refusal is found by its request id or by a value, and that the page
// shows the limit, its figures and when to try again.
func TestWhyRefused(t *testing.T) {
	s, _ := shop(t)
	for n := range 4 {
		s.ask("POST", "/v1/budgets/vouchers/deduct", fmt.Sprintf(
			`{"request_id":"order-%d","amount":1500,"dimensions":{"user":"u-4711"}}`, n+6))
	}
	s.ask("POST", "/v1/budgets/campaign-01/deduct", `{"request_id":"too-big","amount":1001}`)
	page := open(t, s.url+"/#/refusals")
	page.sees("too-big")
	page.types("Request id", "order-9")
	page.clicks("button", "Look")
	page.sees("A limit would be exceeded", "limit_exceeded", "user = u-4711", "vouchers:bucket-",
		"Try again at")
	got := page.rows("Limits that refused it")
	if len(got) != 1 || got[0][0] != "per-user" || !strings.HasPrefix(got[0][2], "3,000") ||
		got[0][3] != "4,000" || got[0][4] != "1,500" || !strings.Contains(got[0][5], "00:00:00") {
		t.Errorf("limits: %q", got)
	}
	if text := page.text(); strings.Contains(text, "too-big") {
		t.Error("another request is shown")
	}
	page.picture("refusals")
	page.types("Request id", kb.Backspace)
	page.types("Or a value", "u-4711")
	page.clicks("button", "Look")
	page.sees("order-9")
	page.types("Or a value", kb.Backspace)
	page.types("Request id", "too-big")
	page.clicks("button", "Look")
	page.sees("The budget had", "1,000 left", "It can never be accepted as things are")
	page.types("Request id", "nobody")
	page.clicks("button", "Look")
	page.sees("This node remembers no such refusal.")
	if said := page.complaints(); said != "" {
		t.Errorf("the browser complains:\n%s", said)
	}
	page.types("In the budget", "vouchers")
	page.clicks("button", "Look")
	page.sees("Nothing now: request \"nobody\" is not in the ledger of budget vouchers.")
}

// gap is how far the bars of the list of budgets are from their shares, at most; 0 without a list.
const gap = `Math.max(0, ...[...document.querySelectorAll('td[data-label="Used share"]')].map(td => {
	const text = document.createRange();
	text.selectNode(td.firstChild);
	return td.lastElementChild.getBoundingClientRect().left - text.getBoundingClientRect().right;
}))`

// TestPhone checks that no view is wider than a phone, and that the colours can be dark.
func TestPhone(t *testing.T) {
	s, _ := shop(t)
	page := open(t, s.url+"/", phone(), prefers("dark"))
	page.sees("Overview", "all is well")
	if background := value[string](page, `getComputedStyle(document.body).backgroundColor`); background !=
		"rgb(17, 21, 27)" {
		t.Errorf("background in the dark: %s", background)
	}
	for name, address := range views {
		page.do(chromedp.Navigate(s.url + address))
		page.until("the view "+name, `!!document.querySelector('h1') &&
			!document.querySelector('.loading')`)
		if wide := value[float64](page, `document.documentElement.scrollWidth`); wide > 375 {
			t.Errorf("%s is %v pixels wide", name, wide)
		}
		page.until("the whole name of the view "+name, `(() => {
			const at = document.querySelector('nav [aria-current]').getBoundingClientRect();
			return at.left >= 0 && at.right <= innerWidth;
		})()`)
		if gap := value[float64](page, gap); gap > 20 {
			t.Errorf("%s: a share and its bar are %v pixels apart", name, gap)
		}
		if name == "budgets" || name == "budget" {
			page.picture("phone-" + name)
		}
	}
}

// TestKeyboard checks that the page can be used without a mouse. The first Tab reaches a link that
// skips to the content, and links show their focus.
func TestKeyboard(t *testing.T) {
	s := serve(t, "")
	page := open(t, s.url+"/")
	page.sees("all is well")
	page.presses(kb.Tab)
	if got := page.focused(); got != "Skip to the content" {
		t.Errorf("first: %q", got)
	}
	page.presses(kb.Tab, kb.Tab, kb.Tab)
	if got := page.focused(); got != "Budgets" {
		t.Errorf("then: %q", got)
	}
	if outline := value[string](page, `getComputedStyle(document.activeElement).outlineStyle`); outline !=
		"solid" {
		t.Errorf("the focus is not shown: %q", outline)
	}
	page.presses(kb.Enter)
	page.sees("There is no budget yet.")
	page.until("the focus is in the view", `document.activeElement.id === 'main'`)
}
