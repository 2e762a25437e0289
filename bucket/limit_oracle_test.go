package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/ledger"
)

// event is a deduction that was accepted, as the oracle keeps it.
type event struct {
	id           string
	at           int64
	amount, back int64
	dimensions   map[string]string
}

// brute is a service with limits and the list of all that it accepted.
type brute struct {
	*testing.T
	*storeWorld
	s      *bucket.Service
	ref    bucket.BudgetRef
	random *rand.Rand
	now    atomic.Int64 // ms: the clock of SQL and of the stores
	limits []budget.Limit
	// changed is since when a limit counts what it counts, in ms; missing: since its budget was made.
	changed map[string]int64
	events  []*event
	inStore bool
	n       [kindsOfStep]int
}

const (
	acceptedStep = iota
	refusedStep
	backStep
	changeStep
	loseStep
	resizeStep
	kindsOfStep
)

// TestServiceAgainstNaive compares the answers of a service, in both modes, with sums over the list of all that
// it accepted: every kind of window, clock changes, rollbacks, changes of limits and of the number of buckets,
// and stores that lose their memory, drained or not. No difference is tolerated.
// BUDGETD_LIMIT_SERVICES=260 makes about 200,000 calls.
func TestServiceAgainstNaive(t *testing.T) {
	worlds, calls := 4, 150
	if text := os.Getenv("BUDGETD_LIMIT_SERVICES"); text != "" {
		worlds, _ = strconv.Atoi(text)
		calls = 800
	}
	var total [kindsOfStep]atomic.Int64
	t.Run("worlds", func(t *testing.T) {
		for seed := range worlds {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				b := newBrute(t, uint64(seed))
				for i := range calls {
					b.step(i)
				}
				for kind := range b.n {
					total[kind].Add(int64(b.n[kind]))
				}
			})
		}
	})
	n := func(kind int) int64 { return total[kind].Load() }
	t.Logf("%d accepted, %d refused, %d rollbacks, %d changes of limits, %d lost stores, %d other numbers of buckets",
		n(acceptedStep), n(refusedStep), n(backStep), n(changeStep), n(loseStep), n(resizeStep))
	for kind := range total {
		if n(kind) < int64(worlds)/2 {
			t.Errorf("step %d was made %d times", kind, n(kind))
		}
	}
}

func newBrute(t *testing.T, seed uint64) *brute {
	w := newStoreWorld(t)
	b := &brute{T: t, storeWorld: w, random: rand.New(rand.NewPCG(2, seed)), changed: map[string]int64{},
		inStore: seed%2 == 0}
	starts := []time.Time{time.Date(2025, 3, 8, 20, 0, 0, 0, time.UTC), time.Date(2025, 11, 1, 20, 0, 0, 0, time.UTC),
		time.Date(2025, 4, 5, 10, 0, 0, 0, time.UTC), time.Date(2024, 12, 29, 12, 0, 0, 0, time.UTC)}
	b.now.Store(starts[b.random.IntN(len(starts))].UnixMilli())
	hook := w.model.Hook
	clock := func() time.Time { return time.UnixMilli(b.now.Load()) }
	w.model = memstore.NewSQL(clock)
	w.model.Hook, w.model.Unchecked, w.sql = hook, true, w.model
	for _, server := range w.servers {
		server.Now = clock
	}
	d := promo("people", budget.MaxAmount/2, 2)
	d.RoutingDimension, b.limits = "user", b.drawLimits()
	d.Limits = &budget.Limits{List: b.limits}
	if !b.inStore {
		w.durability = budget.Ledger
	}
	b.s = w.node(storeQuick())
	b.ref = w.create(b.s, d)
	return b
}

func (b *brute) drawLimits() (list []budget.Limit) {
	for i := range 1 + b.random.IntN(3) {
		l := budget.Limit{Name: fmt.Sprint("l", i), Dimension: "user", Max: 1 + b.random.Int64N(8), Enforce: true,
			Measure: budget.MeasureCount}
		if !b.inStore {
			l.Dimension = []string{"user", "user+ad", "ad"}[b.random.IntN(3)]
		}
		if b.random.IntN(2) == 0 {
			l.Measure, l.Max = budget.MeasureAmount, 1+b.random.Int64N(40)
		}
		switch b.random.IntN(6) {
		case 0, 1:
			l.Window = budget.LimitWindow{Kind: budget.WindowSliding,
				Length: []time.Duration{5 * time.Second, 90*time.Minute + time.Millisecond, 30 * time.Hour}[b.random.IntN(3)]}
			l.Window.Slot = l.Window.Length / time.Duration(1+b.random.IntN(9)) / time.Millisecond * time.Millisecond
		case 2:
			l.Window = budget.LimitWindow{Kind: budget.WindowFirstHit,
				Length: []time.Duration{time.Second, 5 * time.Minute, 9 * time.Hour}[b.random.IntN(3)]}
		case 3:
			l.Window, l.Max = budget.LimitWindow{Kind: budget.WindowLifetime}, 30*l.Max
		default:
			l.Window = budget.LimitWindow{Kind: budget.WindowCalendar,
				Every:    []budget.Every{budget.Minute, budget.Hour, budget.Day, budget.Week, budget.Month}[b.random.IntN(5)],
				Timezone: []string{"", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"}[b.random.IntN(4)]}
		}
		list = append(list, l)
	}
	return list
}

func (b *brute) step(i int) {
	if b.random.IntN(3) == 0 {
		b.now.Add([]int64{1, 900, 20_000, 1_000_000, 4_000_000, 30_000_000}[b.random.IntN(6)] * b.random.Int64N(3))
	}
	switch n := b.random.IntN(200); {
	case n < 16 && len(b.events) > 0:
		b.giveBack(i)
	case n < 19:
		b.change()
	case n < 21:
		b.lose()
	case n < 22:
		b.resize()
	default:
		b.deduct(i)
	}
}

// patiently repeats a call until its outcome is certain.
func (b *brute) patiently(do func() error) (err error) {
	b.Helper()
	b.until("answered", func() bool {
		err = do()
		kind := budget.CodeOf(err).Kind()
		return err == nil || kind != budget.NotDone && kind != budget.MayBeDone
	})
	return err
}

func (b *brute) deduct(i int) {
	e := &event{id: fmt.Sprint("id", i), at: b.now.Load(), amount: 1 + b.random.Int64N(9), dimensions: map[string]string{
		"user": fmt.Sprint("u", b.random.IntN(3)), "ad": fmt.Sprint("a", b.random.IntN(2))}}
	want := b.refuses(e)
	var answer bucket.DeductAnswer
	err := b.patiently(func() (err error) {
		answer, err = aloneOrTogether(b.s, i%2 == 0, bucket.DeductRequest{Budget: b.ref, RequestID: e.id,
			Amount: e.amount, Dimensions: e.dimensions})
		return err
	})
	var refusal *budget.Error
	switch {
	case err == nil && want == "":
		b.n[acceptedStep]++
	case errors.As(err, &refusal) && refusal.Limit != nil && refusal.Limit.Limit == want:
		b.n[refusedStep]++
		return
	default:
		b.Fatalf("call %d of %v, %d at %d: %v, the list says %q\n%+v", i, e.dimensions, e.amount, e.at, err, want, b.limits)
	}
	b.events = append(b.events, e)
	for _, state := range answer.Limits {
		for _, l := range b.limits {
			if used := b.used(l, e); l.Name == state.Limit && used != state.Used {
				b.Fatalf("call %d: %s counts %d, the list %d\n%+v", i, l.Name, state.Used, used, l)
			}
		}
	}
}

func (b *brute) giveBack(i int) {
	e := b.events[len(b.events)-1-b.random.IntN(min(20, len(b.events)))]
	left := e.amount - e.back
	if left == 0 {
		return
	}
	units := 1 + b.random.Int64N(left)
	if err := b.patiently(func() error {
		_, err := b.s.Rollback(context.Background(), bucket.RollbackRequest{Budget: b.ref, RequestID: e.id,
			RollbackID: fmt.Sprint("back", i), Amount: units})
		return err
	}); err != nil {
		b.Fatalf("rollback of %d of %+v: %v", units, e, err)
	}
	e.back += units
	b.n[backStep]++
}

func (b *brute) change() {
	before := b.limits
	after := b.drawLimits()
	for i := range after {
		if b.random.IntN(3) == 0 && i < len(before) {
			after[i].Dimension, after[i].Window, after[i].Measure = before[i].Dimension, before[i].Window, before[i].Measure
		}
	}
	if err := b.patiently(func() error {
		_, err := b.s.Change(context.Background(), b.ref, bucket.Change{Limits: &after})
		return err
	}); err != nil {
		b.Fatal(err)
	}
	b.n[changeStep]++
	b.limits = after
	for i, l := range after {
		if i >= len(before) || before[i].Dimension != l.Dimension || before[i].Window != l.Window ||
			before[i].Measure != l.Measure {
			b.changed[l.Name] = b.now.Load()
		}
	}
	for i := len(after); i < len(before); i++ {
		delete(b.changed, before[i].Name) // a later one of that name counts anew
	}
}

// lose wipes all stores. What was accepted and not in the ledger then is gone.
func (b *brute) lose() {
	if b.random.IntN(2) == 0 {
		b.until("drained", func() bool { return !slices.ContainsFunc(b.events, b.lost) })
	}
	last := map[bucket.Lane]int64{}
	for lane, row := range b.model.Tables().Lanes {
		last[lane] = row.Activation
	}
	for _, server := range b.servers {
		server.Lose()
	}
	b.until("recovered", func() bool {
		tables := b.model.Tables()
		for lane, row := range tables.Lanes {
			if row.Activation <= last[lane] {
				return false
			}
		}
		for i := range tables.Budgets[0].Buckets {
			bk := &tables.Budgets[0].Buckets[i]
			if e := bk.Newest(); bk.Bucket.OfflineBy == "" &&
				(e.Status != ledger.Open || e.Activation < tables.Lanes[bk.Bucket.Lane].Activation) {
				return false
			}
		}
		return true
	})
	b.events = slices.DeleteFunc(b.events, b.lost)
	b.n[loseStep]++
	releases := 0
	b.until("released", func() bool {
		units := b.model.Tables().Budgets[0].Quarantined
		if units == 0 {
			return true
		}
		releases++ // nodes release some as well
		_, _ = b.s.Release(context.Background(), bucket.ReleaseRequest{Budget: b.ref, Quantity: units,
			RequestID: fmt.Sprint(b.n[loseStep], "-", releases), Reason: "nobody was told accepted", By: "operator"})
		return false
	})
}

func (b *brute) lost(e *event) bool {
	_, known := b.model.Row(1, e.id)
	return !known
}

func (b *brute) resize() {
	n := 1 + b.random.IntN(4)
	if err := b.patiently(func() error {
		_, err := b.s.Change(context.Background(), b.ref, bucket.Change{BucketQuantity: &n})
		return err
	}); err != nil {
		b.Fatal(err)
	}
	b.n[resizeStep]++
}

// refuses names the first limit that would be exceeded, "" if none is.
func (b *brute) refuses(e *event) string {
	for _, l := range b.limits {
		add := int64(1)
		if l.Measure == budget.MeasureAmount {
			add = e.amount
		}
		if b.used(l, e)+add > l.Max {
			return l.Name
		}
	}
	return ""
}

// used sums up what a limit counts at an event's instant for its values.
func (b *brute) used(l budget.Limit, at *event) (sum int64) {
	length, slot := l.Window.Length.Milliseconds(), l.Window.Slot.Milliseconds()
	began, changed := int64(0), b.changed[l.Name]
	for _, e := range b.events {
		same := true
		for name := range strings.SplitSeq(l.Dimension, "+") {
			same = same && e.dimensions[name] == at.dimensions[name]
		}
		switch {
		case !same:
			continue
		case l.Window.Kind == budget.WindowCalendar && !sameText(l.Window, e.at, at.at):
			continue
		case l.Window.Kind == budget.WindowSliding && e.at/slot*slot+slot-1 <= at.at-length:
			continue
		case l.Window.Kind == budget.WindowFirstHit && changed > 0 && e.at <= changed-length:
			continue
		case l.Window.Kind == budget.WindowFirstHit && (began == 0 || e.at >= began+length):
			began, sum = e.at, 0
		}
		switch left := e.amount - e.back; {
		case l.Measure == budget.MeasureAmount:
			sum += left
		case left > 0:
			sum++
		}
	}
	if l.Window.Kind == budget.WindowFirstHit && at.at >= began+length {
		return 0
	}
	return sum
}

// sameText reports whether two instants are in one window of a calendar, by their local texts.
func sameText(w budget.LimitWindow, x, y int64) bool {
	if apart := x - y; apart > 60*86_400_000 || apart < -60*86_400_000 {
		return false
	}
	zone, err := time.LoadLocation(w.Timezone)
	if err != nil {
		panic(err)
	}
	layout := map[budget.Every]string{budget.Minute: "2006-01-02 15:04 -0700", budget.Hour: "2006-01-02 15 -0700",
		budget.Day: "2006-01-02", budget.Month: "2006-01"}[w.Every]
	text := func(ms int64) string {
		t := time.UnixMilli(ms).In(zone)
		if w.Every == budget.Week {
			return fmt.Sprint(t.ISOWeek())
		}
		return t.Format(layout)
	}
	return text(x) == text(y)
}
