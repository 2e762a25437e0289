package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/budgetd/budgetd/client"
)

func testPlan() *Plan {
	return &Plan{Host: "h:1", Path: "/x", Tenant: "acme", Budgets: []string{"sale"}, IDPrefix: "p", Amount: 7, Batch: 1,
		Dimension: "user"}
}

func testCaller(p *Plan) *caller {
	return newCaller(p, 3, make([]atomic.Int64, len(p.Budgets)), make([]atomic.Bool, len(p.Budgets)))
}

// parsed reads a request as a server does.
func parsed(t *testing.T, text []byte) (r *http.Request, body string) {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	all, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(all)
}

// TestRequests checks that the requests that the bench encodes itself have the paths and bodies
// that the client would send.
func TestRequests(t *testing.T) {
	p := testPlan()
	p.Users = 1000
	w := newWriter(p)
	i := item{caller: 3, number: 12}
	_, request := p.deductionOf(i)
	want, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	r, body := parsed(t, w.deduct(nil, i))
	if r.Method != "POST" || r.Host != "h:1" || r.URL.String() != "/x/v1/budgets/sale/deduct?tenant=acme" ||
		r.Header.Get("Content-Type") != "application/json" || body != string(want) {
		t.Errorf("%s %s %s %s, want %s", r.Method, r.Host, r.URL, body, want)
	}
	if !strings.Contains(body, `"request_id":"p-3-12","amount":7,"dimensions":{"user":"u`) {
		t.Errorf("body %s", body)
	}

	batch := []item{i, {caller: 3, number: 13}}
	items := []client.BatchItem{}
	for _, i := range batch {
		_, request := p.deductionOf(i)
		items = append(items, client.BatchItem{Budget: "sale", DeductRequest: request})
	}
	r, body = parsed(t, w.batch(nil, batch))
	var got struct{ Deductions []map[string]any }
	if err := json.Unmarshal([]byte(body), &got); err != nil || len(got.Deductions) != 2 ||
		got.Deductions[1]["request_id"] != items[1].RequestID || got.Deductions[1]["budget"] != "sale" ||
		r.URL.String() != "/x/v1/deductions:batch?tenant=acme" {
		t.Errorf("%v: %s %s", err, r.URL, body)
	}

	r, body = parsed(t, w.rollback(nil, i))
	if r.URL.String() != "/x/v1/budgets/sale/rollback?tenant=acme" || body != `{"request_id":"p-3-12"}` {
		t.Errorf("%s %s", r.URL, body)
	}
}

// TestDrawIsEven checks that budgets and users are drawn about equally often, and that a repeat
// draws the same ones.
func TestDrawIsEven(t *testing.T) {
	p := testPlan()
	p.Budgets, p.Users = make([]string, 10), 10
	budgets, users := make([]int, 10), make([]int, 10)
	for n := range uint32(10_000) {
		at, user := p.draw(item{caller: n % 64, number: n})
		if at2, user2 := p.draw(item{caller: n % 64, number: n, repeat: true}); at2 != at || user2 != user {
			t.Fatal("a repeat has another payload")
		}
		budgets[at]++
		users[user]++
	}
	for i := range 10 {
		if budgets[i] < 800 || budgets[i] > 1200 || users[i] < 800 || users[i] > 1200 {
			t.Errorf("number %d: %d of 10,000 for the budget, %d for the user", i, budgets[i], users[i])
		}
	}
}

// accepts returns the answer that accepts item i.
func accepts(p *Plan, i item, replayed string) []byte {
	return []byte(`{"request_id":"` + string(p.appendID(nil, i)) + `","outcome":"accepted","replayed":` + replayed + `}`)
}

// TestBook checks how each answer changes the book and the unsettled items, and which answers count
// as wrong.
func TestBook(t *testing.T) {
	fresh, repeat := item{caller: 3, number: 1}, item{caller: 3, number: 1, repeat: true}
	problem := func(code string) []byte { return []byte(`{"code":"` + code + `"}`) }
	p := testPlan()
	tests := []struct {
		name       string
		kind       int
		item       item
		status     int // 0: lost after it was sent, -1: never sent
		answer     []byte
		book       int64
		unsettled  int
		wrong      int64
		deductions int64
		answers    string
	}{
		{"accepted", deducts, fresh, 200, accepts(p, fresh, "false"), 7, 0, 0, 1, "accepted"},
		{"fresh, replayed", deducts, fresh, 200, accepts(p, fresh, "true"), 7, 0, 1, 1, "replayed"},
		{"repeat, replayed", deducts, repeat, 200, accepts(p, fresh, "true"), 0, 0, 0, 1, "replayed"},
		{"repeat, accepted again", deducts, repeat, 200, accepts(p, fresh, "false"), 0, 0, 1, 1, "accepted"},
		{"of another id", deducts, fresh, 200, accepts(p, item{caller: 3, number: 2}, "false"), 0, 1, 0, 0, "unreadable"},
		{"refused", deducts, fresh, 409, problem("budget_exhausted"), 0, 0, 0, 1, "budget_exhausted"},
		{"repeat, refused", deducts, repeat, 409, problem("budget_exhausted"), 0, 0, 1, 1, "budget_exhausted"},
		{"repeat, conflict", deducts, repeat, 409, problem("request_conflict"), 0, 0, 1, 1, "request_conflict"},
		{"unavailable", deducts, fresh, 503, problem("unavailable"), 0, 0, 0, 0, "unavailable"},
		{"repeat, unavailable", deducts, repeat, 503, problem("unavailable"), 0, 0, 0, 0, "unavailable"},
		{"unknown", deducts, fresh, 504, problem("outcome_unknown"), 0, 1, 0, 0, "outcome_unknown"},
		{"repeat, unknown", deducts, repeat, 504, problem("outcome_unknown"), 0, 0, 0, 0, "outcome_unknown"},
		{"internal", deducts, fresh, 500, problem("internal"), 0, 1, 0, 0, "internal"},
		{"a code of tomorrow", deducts, fresh, 409, problem("of_tomorrow"), 0, 1, 0, 0, "of_tomorrow"},
		{"a proxy", deducts, fresh, 502, []byte("<html>"), 0, 1, 0, 0, "unreadable"},
		{"lost", deducts, fresh, 0, nil, 0, 1, 0, 0, "no_answer"},
		{"repeat, lost", deducts, repeat, 0, nil, 0, 0, 0, 0, "no_answer"},
		{"never sent", deducts, fresh, -1, nil, 0, 0, 0, 0, "unreachable"},
		{"rolled back", rollbacks, fresh, 200, []byte("{}"), -7, 0, 0, 0, "rolled_back"},
		{"rollback refused", rollbacks, fresh, 404, problem("deduction_not_found"), 0, 1, 0, 0, "rollback: deduction_not_found"},
		{"rollback lost", rollbacks, fresh, 0, nil, 0, 1, 0, 0, "no_answer"},
		{"rollback never sent", rollbacks, fresh, -1, nil, 0, 1, 0, 0, "unreachable"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := testCaller(p)
			c.kind, c.items = test.kind, []item{test.item}
			if test.status > 0 {
				c.Answer(test.status, test.answer)
			} else {
				c.Lost(test.status == 0, nil)
			}
			counts := c.tally.counts
			if c.books[0].Load() != test.book || c.tally.wrong != test.wrong || counts.deductions != test.deductions ||
				len(c.unsettled.deducts)+len(c.unsettled.rollbacks) != test.unsettled {
				t.Errorf("book %d, wrong %d, %d with an outcome, unsettled %+v", c.books[0].Load(), c.tally.wrong,
					counts.deductions, c.unsettled)
			}
			if got := counts.answers.byCode(); len(got) != 1 || got[test.answers] != 1 {
				t.Errorf("answers %v, want %s", got, test.answers)
			}
		})
	}
}

// TestBatchBook checks that each item of a batch is booked on its own. The items that a short or
// lost answer leaves open are unsettled, and those of a refused batch are not.
func TestBatchBook(t *testing.T) {
	p := testPlan()
	p.Batch = 3
	ask := func() *caller {
		c := testCaller(p)
		c.Request(nil)
		return c
	}
	c := ask()
	answer := []byte(`{"results":[` + string(accepts(p, c.items[0], "false")) + `,{"code":"limit_exceeded"},` +
		string(accepts(p, c.items[2], "false")) + `]}`)
	c.Answer(200, answer)
	if c.books[0].Load() != 14 || c.tally.counts.deductions != 3 || len(c.unsettled.deducts) != 0 || c.tally.wrong != 0 {
		t.Errorf("book %d, %d with an outcome, unsettled %v", c.books[0].Load(), c.tally.counts.deductions, c.unsettled)
	}

	c = ask()
	c.Answer(200, []byte(`{"results":[`+string(accepts(p, c.items[0], "false"))+`]}`))
	if c.books[0].Load() != 7 || len(c.unsettled.deducts) != 2 || c.tally.wrong != 1 {
		t.Errorf("too few results: book %d, unsettled %v, wrong %d", c.books[0].Load(), c.unsettled, c.tally.wrong)
	}

	c = ask()
	c.Answer(503, []byte(`{"code":"unavailable"}`))
	if len(c.unsettled.deducts) != 0 || c.tally.counts.answers.byCode()["unavailable"] != 3 {
		t.Errorf("refused as a whole: unsettled %v, answers %v", c.unsettled, c.tally.counts.answers)
	}

	c = ask()
	c.Lost(true, nil)
	if len(c.unsettled.deducts) != 3 {
		t.Errorf("lost: unsettled %v", c.unsettled)
	}
}

// TestMix checks that repeats and rollbacks have the shares of the plan, and that only accepted
// deductions are repeated or rolled back.
func TestMix(t *testing.T) {
	p := testPlan()
	p.RollbackShare, p.RepeatShare = 0.2, 0.3
	c := testCaller(p)
	known := map[item]bool{}
	var given, again int
	const calls = 20_000
	for range calls {
		_, kind := c.Request(nil)
		i := c.items[0]
		id := item{caller: i.caller, number: i.number}
		switch {
		case kind == rollbacks:
			if given++; !known[id] {
				t.Fatal("a deduction that was not accepted is rolled back")
			}
			c.Answer(200, []byte("{}"))
		case i.repeat:
			if again++; !known[id] {
				t.Fatal("a deduction that was not accepted is repeated")
			}
			c.Answer(200, accepts(p, i, "true"))
		case i.number%2 == 0:
			c.Answer(409, []byte(`{"code":"limit_exceeded"}`))
		default:
			known[id] = true
			c.Answer(200, accepts(p, i, "false"))
		}
	}
	counts := c.tally.counts
	if share := float64(given) / float64(counts.accepted); share < 0.17 || share > 0.23 {
		t.Errorf("%.3f of the accepted deductions were rolled back", share)
	}
	if share := float64(again) / float64(counts.deductions); share < 0.27 || share > 0.33 {
		t.Errorf("%.3f of the deductions were repeats", share)
	}
	if want := (counts.accepted - counts.rolledBack) * 7; c.books[0].Load() != want || c.tally.wrong != 0 {
		t.Errorf("book %d, want %d; wrong %d", c.books[0].Load(), want, c.tally.wrong)
	}
}

// TestNothingIsAllocated checks that the path of the load allocates nothing once its buffers have
// grown.
func TestNothingIsAllocated(t *testing.T) {
	for _, batch := range []int{1, 10} {
		p := testPlan()
		p.Batch, p.Users, p.RepeatShare = batch, 100, 0.1
		c := testCaller(p)
		var buf, answer []byte
		call := func() {
			buf, _ = c.Request(buf[:0])
			answer = append(answer[:0], `{"results":[`...)
			for n, i := range c.items {
				if n > 0 {
					answer = append(answer, ',')
				}
				answer = append(answer, `{"request_id":"`...)
				answer = p.appendID(answer, i)
				answer = append(answer, `","outcome":"accepted","replayed":`...)
				if i.repeat {
					answer = append(answer, `true}`...)
				} else {
					answer = append(answer, `false}`...)
				}
			}
			answer = append(answer, "]}"...)
			c.Answer(200, answer)
		}
		for range 2 * remembered {
			call()
		}
		if n := testing.AllocsPerRun(1000, call); n != 0 || c.tally.wrong != 0 {
			t.Errorf("batch %d: %g allocations a call; wrong %d", batch, n, c.tally.wrong)
		}
	}
}
