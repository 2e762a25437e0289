package bucket

import (
	"context"
	"math"
	"time"

	"github.com/budgetd/budgetd/internal/safeguard"
)

// judgeAsk is an id to look for, and the amount that I3's sum is compared with.
type judgeAsk struct {
	id     string
	amount int64
}

// judged is what a look says of an ask: one statement, begun after the ask was made.
type judged struct {
	Judgement
	// short: the id is not recorded, and I3's sum was below the amount in this statement and in one before it, begun
	// after the ask was made too. With neither the id recorded nor short, the sum covers the amount.
	short bool
}

// judge looks at the id and at I3's sum in one statement. done: the id is recorded, or the budget
// cannot cover the amount, or SQL cannot be asked.
func (a *attempt) judge(ctx context.Context, b *Budget) (DeductAnswer, bool, error) {
	j, err := a.s.judges.do(ctx, b.ID, judgeAsk{a.id, a.amount})
	if err != nil {
		return DeductAnswer{}, true, a.unresolved(ctx, err)
	}
	if safeguard.Off(safeguard.SoldOutSnapshot) && a.entry.soldOut.Load() != 0 &&
		a.amount >= a.entry.soldOut.Load() {
		j = judged{Judgement: Judgement{Period: j.Period}, short: true}
	}
	if d, ok := j.Recorded[a.id]; ok {
		answer, err := a.answerRecorded(ctx, d)
		return answer, true, err
	}
	now := a.s.sql.Now()
	if j.Period.OverAt(now) || j.Period.Number != b.Period.Number {
		a.reread(ctx) // the next round sees the period that is open, or opens it
		return DeductAnswer{}, false, nil
	}
	if !j.short {
		a.entry.soldOut.Store(0)
		return DeductAnswer{}, false, nil
	}
	a.entry.noteSoldOut(a.amount)
	if err := a.settled(ctx); err != nil {
		return DeductAnswer{}, true, err
	}
	return DeductAnswer{}, true, b.exhausted(j.Cover, a.amount, now)
}

// judgeAll judges asks of one budget. What is short takes two statements, the second begun after the first has ended:
//
// A server may show a commit without one that was made before it. MariaDB collects the transactions that a statement does
// not see one by one (trx_sys_t::snapshot_ids), so one that is still there when its turn comes, and commits then, is not
// seen, while another one that goes on with the rows of the first, and commits before its own turn comes, is. Units that
// the first moved are then in neither place: a sweep takes them from an epoch to the total and is not seen, and a
// commit that writes the epoch's row after it is. A statement that begins after that has ended shows both, so a
// sum that is short twice was short at least once, unless it is torn twice in a row.
//
// Of the two only the last one has to look for the ids: a recorded id stays recorded, so one that is not there in the last
// statement was not when the sum was short in the first. A sell-out that is remembered therefore begins with the sum
// alone, which is most of its refusals; else the ids of what is short go into a second look.
func (s *Service) judgeAll(budgetID int64, asks []judgeAsk) []result[judged] {
	ctx, cancel := s.bounded(context.Background())
	defer cancel()
	w := judging{s: s, ctx: ctx, budget: budgetID, asks: asks, out: make([]result[judged], len(asks)), least: math.MaxInt64}
	if err := w.run(); err != nil {
		s.failed("sql", err)
		for _, i := range w.open {
			w.out[i].err = unavailable("look up", err)
		}
	}
	return w.out
}

// Where a look was for manyAsks or more, the next one waits until as many ask again, for askPatience after it at most.
const (
	manyAsks    = 8
	askPatience = 3 * time.Millisecond
)

// gatherAsks makes looks at a budget large rather than many, since what a look costs hardly depends on its ids: with 64
// callers, who ask again as soon as they are refused, 62 instead of 32 are in one.
func (s *Service) gatherAsks(budgetID int64) *gather {
	entry, ok := s.budgets.byID.Peek(budgetID)
	if !ok {
		return nil
	}
	return &gather{many: manyAsks, most: s.set.BatchSize, patience: askPatience, now: s.now, sleep: s.clock.Sleep,
		last: &entry.judged}
}

// judging is one call of judgeAll.
type judging struct {
	s      *Service
	ctx    context.Context
	budget int64
	asks   []judgeAsk
	out    []result[judged]
	open   []int // which asks are not decided
	// least is the least sum that a statement has shown.
	least int64
}

func (w *judging) run() error {
	w.open = make([]int, len(w.asks))
	for i := range w.open {
		w.open[i] = i
	}
	if w.soldOut() {
		if _, err := w.look(nil); err != nil {
			return err
		}
	}
	for len(w.open) > 0 { // twice at most: what one look shows too little for, the next one decides
		ids := make([]string, len(w.open))
		for n, i := range w.open {
			ids[n] = w.asks[i].id
		}
		before := w.least
		j, err := w.look(ids)
		if err != nil {
			return err
		}
		w.decide(j, before)
	}
	return nil
}

// soldOut reports whether one of the asks is known to be refused.
func (w *judging) soldOut() bool {
	entry, ok := w.s.budgets.byID.Peek(w.budget)
	if !ok {
		return false
	}
	sold := entry.soldOut.Load()
	for i := range w.asks {
		if sold != 0 && w.asks[i].amount >= sold {
			return true
		}
	}
	return false
}

// look makes one statement.
func (w *judging) look(ids []string) (Judgement, error) {
	asked := w.s.now()
	j, err := w.s.sql.Judge(w.ctx, w.budget, ids)
	if err != nil {
		return Judgement{}, err
	}
	w.least = min(w.least, j.Cover.Sum())
	if entry, ok := w.s.budgets.byID.Peek(w.budget); ok {
		entry.noteCover(coverRead{j.Cover, asked})
	}
	return j, nil
}

// decide answers the open asks by a statement that looked for their ids; before is the least sum that one before it showed.
func (w *judging) decide(j Judgement, before int64) {
	open := w.open[:0]
	for _, i := range w.open {
		ask, sum := w.asks[i], j.Cover.Sum()
		_, recorded := j.Recorded[ask.id]
		short := !recorded && sum < ask.amount
		if short && before >= ask.amount && !safeguard.Off(safeguard.SecondLook) {
			open = append(open, i)
			continue
		}
		w.out[i].answer = judged{j, short}
	}
	w.open = open
}
