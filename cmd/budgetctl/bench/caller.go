package bench

import (
	"math/rand/v2"
	"net/http"
	"sync/atomic"

	"github.com/budgetd/budgetd/budget"
)

// Kinds of calls.
const (
	deducts = iota
	rollbacks
	kinds
)

// remembered is how many accepted deductions a caller keeps for repeats: the latest ones.
const remembered = 4096

// caller makes the calls of one connection and records the answers.
type caller struct {
	plan   *Plan
	number uint32
	chance *rand.Rand
	writer writer
	// books are the units that all callers' answers say are deducted, by budget.
	books []atomic.Int64
	// soldOut marks the budgets of which an answer said that they are used up.
	soldOut []atomic.Bool
	next    uint32 // number of the next fresh deduction

	accepted []item // a ring of up to remembered items; at is the oldest once it is full
	at       int
	giveBack []item // accepted, to be rolled back

	// The current call.
	kind  int
	items []item
	id    []byte

	tally     tally
	unsettled unsettled
}

// Names of outcomes for which the service has no code.
var (
	replayed    = []byte("replayed")
	rolledBack  = []byte("rolled_back")
	unreachable = []byte("unreachable")
	noAnswer    = []byte("no_answer")
	unreadable  = []byte("unreadable")
)

// tally counts answers. After the warm-up counts starts again at zero.
type tally struct {
	counts counts
	// wrong counts answers that no correct service gives. wrongWords describes the first few.
	wrong      int64
	wrongWords []string
}

// counts are the counts of the measured time, which the report has.
type counts struct {
	deductions int64 // with an outcome, repeats included
	accepted   int64 // for the first time
	replayed   int64
	rolledBack int64
	answers    answers
}

// answers counts by code. There are few codes, and a slice finds them without allocating.
type answers []struct {
	code  string
	times int64
}

func (a *answers) add(code []byte, times int64) {
	for i := range *a {
		if (*a)[i].code == string(code) {
			(*a)[i].times += times
			return
		}
	}
	*a = append(*a, struct {
		code  string
		times int64
	}{string(code), times})
}

// byCode returns the counts in the form of the report.
func (a answers) byCode() map[string]int64 {
	m := make(map[string]int64, len(a))
	for _, one := range a {
		m[one.code] = one.times
	}
	return m
}

// unsettled are the calls whose outcome is not known.
type unsettled struct {
	deducts, rollbacks []item
}

func newCaller(p *Plan, number int, books []atomic.Int64, soldOut []atomic.Bool) *caller {
	return &caller{plan: p, number: uint32(number), writer: newWriter(p), books: books,
		soldOut: soldOut,
		chance:  rand.New(rand.NewPCG(uint64(number), rand.Uint64()))}
}

// Request draws the next call.
func (c *caller) Request(buf []byte) ([]byte, int) {
	c.items = c.items[:0]
	if n := len(c.giveBack); n > 0 {
		c.kind = rollbacks
		c.items = append(c.items, c.giveBack[n-1])
		c.giveBack = c.giveBack[:n-1]
		return c.writer.rollback(buf, c.items[0]), rollbacks
	}
	c.kind = deducts
	for range c.plan.Batch {
		c.items = append(c.items, c.draw())
	}
	if c.plan.Batch == 1 {
		return c.writer.deduct(buf, c.items[0]), deducts
	}
	return c.writer.batch(buf, c.items), deducts
}

// draw returns a fresh deduction, or an accepted one to repeat.
func (c *caller) draw() item {
	if share := c.plan.RepeatShare; share > 0 && len(c.accepted) > 0 && c.chance.Float64() < share {
		again := c.accepted[c.chance.IntN(len(c.accepted))]
		again.repeat = true
		return again
	}
	c.next++
	return item{caller: c.number, number: c.next}
}

// Answer records the answer to the last call.
func (c *caller) Answer(status int, body []byte) {
	switch {
	case c.kind == rollbacks:
		c.rolledBack(status, body)
	case c.plan.Batch == 1:
		c.one(c.items[0], body)
	case status != http.StatusOK:
		t := read(body, nil)
		for _, i := range c.items {
			c.outcome(i, t)
		}
	default:
		c.results(resultsOf(body))
	}
}

// results records the results of a batch. A deduction without a result has no outcome.
func (c *caller) results(list resultList) {
	readable := list != nil
	for _, i := range c.items {
		var t told
		if readable {
			c.id = c.plan.appendID(c.id[:0], i)
			t, readable = list.next(c.id)
		}
		c.outcome(i, t)
	}
	if !readable || !list.over() {
		c.complain("a batch of deductions has another number of results")
	}
}

func (c *caller) one(i item, answer []byte) {
	c.id = c.plan.appendID(c.id[:0], i)
	t, length := acceptance(answer, c.id)
	if length == 0 {
		t = read(answer, c.id)
	}
	c.outcome(i, t)
}

// Lost records that the last call got no answer.
func (c *caller) Lost(sent bool, _ error) {
	code := unreachable
	if sent {
		code = noAnswer
	}
	for _, i := range c.items {
		c.tally.counts.answers.add(code, 1)
		switch {
		case c.kind == rollbacks:
			c.unsettled.rollbacks = append(c.unsettled.rollbacks, i)
		case sent && !i.repeat:
			c.unsettled.deducts = append(c.unsettled.deducts, i)
		}
	}
}

// outcome records what an answer says about one deduction.
func (c *caller) outcome(i item, t told) {
	if len(t.code) == 0 {
		c.tally.counts.answers.add(unreadable, 1)
		if !i.repeat {
			c.unsettled.deducts = append(c.unsettled.deducts, i)
		}
		return
	}
	c.count(t)
	kind := budget.Code(t.code).Kind() // meaningless for "accepted", and not used then
	switch yes := string(t.code) == "accepted"; {
	case yes && i.repeat != t.replayed && i.repeat:
		c.complain("an accepted request id was accepted once more, not as a replay")
	case yes && i.repeat != t.replayed:
		c.complain("a fresh request id was answered as a replay")
		c.take(i)
	case yes && !i.repeat:
		c.take(i)
	case yes:
		c.tally.counts.replayed++
	case kind == budget.MayBeDone && !i.repeat:
		c.unsettled.deducts = append(c.unsettled.deducts, i)
		return
	case i.repeat && (kind == budget.Refused || kind == budget.Conflict):
		c.complain("an accepted request id was refused: " + string(t.code))
	}
	if string(t.code) == string(budget.BudgetExhausted) {
		at, _ := c.plan.draw(i)
		c.soldOut[at].Store(true)
	}
	if kind == budget.Refused || kind == budget.Conflict || string(t.code) == "accepted" {
		c.tally.counts.deductions++
	}
}

func (c *caller) count(t told) {
	if t.replayed {
		t.code = replayed
	}
	c.tally.counts.answers.add(t.code, 1)
}

// take records an accepted deduction. One that is to be given back is not repeated later: the
// answer to its repetition is already_rolled_back, once its rollback has taken effect.
func (c *caller) take(i item) {
	c.tally.counts.accepted++
	at, _ := c.plan.draw(i)
	c.books[at].Add(c.plan.Amount)
	share := c.plan.RollbackShare
	switch {
	case share > 0 && c.chance.Float64() < share:
		c.giveBack = append(c.giveBack, i)
	case c.plan.RepeatShare == 0:
	case len(c.accepted) < remembered:
		c.accepted = append(c.accepted, i)
	default:
		c.accepted[c.at] = i
		c.at = (c.at + 1) % remembered
	}
}

// rolledBack records the answer to a rollback. Any status but 200 leaves its outcome unknown.
func (c *caller) rolledBack(status int, body []byte) {
	i := c.items[0]
	if status == http.StatusOK {
		c.tally.counts.rolledBack++
		c.tally.counts.answers.add(rolledBack, 1)
		at, _ := c.plan.draw(i)
		c.books[at].Add(-c.plan.Amount)
		return
	}
	code := read(body, nil).code
	if len(code) == 0 {
		code = unreadable
	}
	c.tally.counts.answers.add(append([]byte("rollback: "), code...), 1)
	c.unsettled.rollbacks = append(c.unsettled.rollbacks, i)
}

// complain records an answer that no correct service gives.
func (c *caller) complain(words string) {
	const kept = 3
	c.tally.wrong++
	if len(c.tally.wrongWords) < kept {
		c.tally.wrongWords = append(c.tally.wrongWords, words)
	}
}
