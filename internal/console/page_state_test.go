package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestOddAddress checks that an address with a broken escape shows a page that says what is wrong.
func TestOddAddress(t *testing.T) {
	s := serve(t, "")
	for _, address := range []string{"/#/budgets/shop/100%", "/#/budgets/shop/%E0%A4%A", "/#/%", "/#/alerts/%zz"} {
		page := open(t, s.url+address)
		page.sees("Budgets", "Audit log")
		page.until("the page", `!!document.querySelector('.failure, .empty')`)
		if said := page.complaints(); strings.Contains(said, "exception") {
			t.Errorf("%s: the browser complains:\n%s", address, said)
		}
		page.clicks("link", "Overview")
		page.sees("all is well")
	}
}

// TestBrokenView checks that a view that fails says so, and leaves the rest of the page as it is.
func TestBrokenView(t *testing.T) {
	s := serve(t, "")
	page := open(t, s.url+"/")
	page.sees("all is well")
	page.js(`const real = window.fetch;
		window.fetch = async (to, ...more) => String(to).includes('v1/keys') && !window.mended
			? new Response('{"keys": [null]}') : real(to, ...more)`)
	page.clicks("link", "Keys")
	page.sees("The page failed", "Overview", "Audit log")
	page.js(`window.mended = true`)
	page.clicks("button", "Try again")
	page.sees("There is no key.")
	page.clicks("link", "Budgets")
	page.sees("There is no budget yet.")
}

// TestManyTabs checks that ten tabs of one person are live one after the other, although a browser
// opens at most six connections to a server and each page follows a stream. A tab that is looked at
// again has what happened meanwhile.
func TestManyTabs(t *testing.T) {
	s := serve(t, "")
	s.must("POST", "/v1/budgets", `{"name":"sale","unit":"count","type":"promo","total_quantity":1000}`)
	first := open(t, s.url+"/#/budgets/default/sale")
	first.sees("live", "1,000")
	pages := []*tab{first}
	for range 9 {
		pages[len(pages)-1].hides(true)
		page := &tab{t: t}
		ctx, cancel := chromedp.NewContext(first.ctx)
		t.Cleanup(cancel)
		page.ctx = ctx
		page.do(chromedp.Navigate(s.url + "/#/budgets/default/sale"))
		t.Log(len(pages), value[string](page, `document.visibilityState + ' ' + document.readyState`), value[string](first, `document.visibilityState`))
		page.sees("live", "1,000", "every unit is accounted for")
		pages = append(pages, page)
	}
	s.must("POST", "/v1/budgets/sale/deduct", `{"request_id":"meanwhile","amount":1}`)
	pages[9].sees("meanwhile", "999")
	if text := first.text(); strings.Contains(text, "meanwhile") || strings.Contains(text, "Not connected") {
		t.Errorf("a page that nobody sees:\n%s", text)
	}
	first.hides(false)
	first.sees("live", "meanwhile", "999")
}

// hides has the browser say that nobody sees the page, or that somebody does again. Without a screen
// all tabs are visible.
func (p *tab) hides(hidden bool) {
	p.t.Helper()
	state := map[bool]string{true: "true", false: "false"}[hidden]
	p.js(`Object.defineProperty(document, 'hidden', {get: () => ` + state + `, configurable: true});
		document.dispatchEvent(new Event('visibilitychange'))`)
}

// TestLastHourMoves checks that "the last hour" is the hour before now, however long the page is open.
func TestLastHourMoves(t *testing.T) {
	s := serve(t, "")
	s.must("POST", "/v1/budgets", `{"name":"sale","unit":"count","type":"promo","total_quantity":1000}`)
	page := open(t, s.url+"/#/budgets/default/sale")
	const from = `performance.getEntriesByType('resource').filter(e => e.name.includes('/series'))
		.map(e => Date.parse(new URL(e.name).searchParams.get('from')))`
	page.until("the curve", from+`.length > 0`)
	page.js(`const real = Date.now; Date.now = () => real() + 2 * 3600e3`)
	page.until("the hour before now", `(all => all.at(-1) - all[0] >= 2 * 3600e3)(`+from+`)`)
}
