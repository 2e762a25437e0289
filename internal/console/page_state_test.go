package console_test

import (
	"fmt"
	"strings"
	"testing"
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

// TestAddressKeepsTheView checks that what a person chose on a page is in its address, so that the page
// is the same after it was loaded again, and that what is chosen without asking is not in it.
func TestAddressKeepsTheView(t *testing.T) {
	s := serve(t, "")
	s.must("POST", "/v1/budgets", `{"name":"sale","unit":"count","type":"promo","total_quantity":1000}`)
	page := open(t, s.url+"/#/budgets/default/sale")
	page.chooses("over", "24h")
	page.chooses("Kind", "deduct")
	page.types("Contains", "order-9")
	page.until("squares", `!!document.querySelector('.square')`)
	page.js(`document.querySelector('.square').click()`)
	page.until("the choices in the address", `['over=24h', 'kind=deduct', 'contains=order-9', 'bucket=sale%3A']
		.every(choice => location.hash.includes(choice))`)

	page.js(`location.reload()`)
	const shown = `JSON.stringify([...document.querySelectorAll('.grid select, .grid .tools input')]
		.map(e => e.value))`
	page.until("the same choices", shown+` === '["24h","deduct","order-9"]'`)
	page.until("the same bucket", `document.querySelector('.square')?.ariaPressed === 'true'`)
	page.chooses("over", "1h")
	page.until("no span in the address", `!location.hash.includes('over') && location.hash.includes('kind')`)

	page.clicks("link", "Audit log")
	page.types("Call", "create")
	page.until("the filter in the address", `location.hash === '#/audit-log?op=create'`)
	page.js(`location.hash = '#/audit-log'`)
	page.until("no filter", named("textbox", "Call")+`?.value === ''`)
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

// TestHiddenTabs checks that a page that nobody sees follows no stream: a browser opens at most six
// connections to a server, and the seventh tab would hang. A tab that is looked at again has what
// happened meanwhile.
func TestHiddenTabs(t *testing.T) {
	s := serve(t, "")
	s.must("POST", "/v1/budgets", `{"name":"sale","unit":"count","type":"promo","total_quantity":1000}`)
	page := open(t, s.url+"/#/refusals")
	page.sees("Why was this refused?")
	page.js(`const real = window.fetch; window.streams = 0;
		window.fetch = (to, how) => {
			if (String(to).includes('/events')) {
				window.streams++;
				how.signal.addEventListener('abort', () => { window.streams-- });
			}
			return real(to, how);
		};
		location.hash = '#/budgets/default/sale'`)
	page.sees("live", "1,000")
	page.until("one stream", `window.streams === 1`)
	page.hides(true)
	page.until("no stream", `window.streams === 0`)
	s.must("POST", "/v1/budgets/sale/deduct", `{"request_id":"meanwhile","amount":1}`)
	if text := page.text(); strings.Contains(text, "meanwhile") || strings.Contains(text, "Not connected") {
		t.Errorf("a page that nobody sees:\n%s", text)
	}
	page.hides(false)
	page.sees("live", "meanwhile", "999")
	page.until("one stream", `window.streams === 1`)
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

// The values nearest the maximum of a limit are read when somebody asks for them.
func TestNearest(t *testing.T) {
	s, _ := shop(t)
	for n, user := range []string{"u-1", "u-2", "u-2"} {
		s.must("POST", "/v1/budgets/vouchers/deduct", fmt.Sprintf(
			`{"request_id":"near-%d","amount":1,"dimensions":{"user":%q}}`, n, user))
	}
	page := open(t, s.url+"/#/budgets/default/vouchers")
	page.sees("per-user")
	page.clicks("button", "Values nearest the maximum of per-user")
	page.sees("2 values were read: all that have counts.")
	const calls = `performance.getEntriesByType('resource').filter(e => e.name.includes('/nearest')).length`
	if n := value[int](page, calls); n != 1 {
		t.Errorf("the values were read %d times, but somebody asked once", n)
	}
	got := page.rows("Nearest the maximum of per-user")
	if len(got) != 2 || got[0][0] != "u-2" || got[0][1] != "2" || got[0][2] != "4,000" || got[1][0] != "u-1" {
		t.Errorf("values: %q", got)
	}
}
