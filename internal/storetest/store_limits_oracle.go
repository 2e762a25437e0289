package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// counted is an event of the oracle: what is left of it, and when it was counted.
type counted struct {
	id, value string
	at, kept  int64
}

// oracle knows every event, and nothing else.
type oracle struct {
	*bench
	random *rand.Rand
	ref    bucket.Ref
	events []counted
	// began is when each value's first_hit window began.
	began map[string]int64
	now   int64
	from  int64
	// version is that of the limits; changed of each limit.
	version int64
	changed [4]int64
	seen    map[bucket.Verdict]int
}

// The limits of the test: no event is near an end of any of their windows.
var oracleWindows = [4]bucket.CountWindow{
	{Kind: budget.WindowCalendar},
	{Kind: budget.WindowSliding, Length: 5 * hour, Slot: hour},
	{Kind: budget.WindowFirstHit, Length: 3*hour + hour/6},
	{Kind: budget.WindowLifetime},
}

var oracleMost = [4]int64{6, 9, 5, 400}

// testLimitOracle compares a store with a list of all events, over rollbacks, changes of the limits, moves and
// epochs, with time going on by 20 minutes a step.
func testLimitOracle(t *testing.T, b *bench) {
	const operations = 6000
	seed := rand.Uint64()
	o := &oracle{bench: b, random: rand.New(rand.NewPCG(seed, 0)), ref: b.filled(t, budget.MaxAmount/2),
		began: map[string]int64{}, from: 1, version: 1, changed: [4]int64{1, 1, 1, 1}, seen: map[bucket.Verdict]int{}}
	o.now = b.now(t)/hour*hour - 1000*hour + 7*60*1000
	for i := range operations {
		switch n := o.random.IntN(1000); {
		case n < 120:
			o.now += hour / 3
		case n < 150:
			o.giveBack(t)
		case n < 154:
			o.change()
		case n < 158:
			o.anew(t)
		default:
			o.deduct(t, i)
		}
		if t.Failed() {
			t.Fatalf("seed %d, operation %d", seed, i)
		}
	}
	for _, v := range []bucket.Verdict{bucket.OK, bucket.OverLimit, bucket.Unloaded} {
		if o.seen[v] < operations/100 {
			t.Errorf("seed %d: %s came up %d times", seed, verdictNames[v], o.seen[v])
		}
	}
}

func (o *oracle) ahead(t *testing.T) int64 { return o.bench.now(t) - o.now }

func (o *oracle) counts(value string, add int64) []bucket.Count {
	var out []bucket.Count
	for i, w := range oracleWindows {
		if w.Kind == budget.WindowCalendar {
			w.Begin = o.now - o.now%(6*hour)
			w.End = w.Begin + 6*hour
		}
		out = append(out, bucket.Count{Limit: string(rune('a' + i)), Changed: o.changed[i], Value: value, Add: add,
			Max: oracleMost[i], Window: w, New: o.from == 1 && o.changed[i] == 1})
	}
	return out
}

// used is what the events say of a limit, and the counter that the ledger would make of them.
func (o *oracle) used(limit int, value string) (used int64, l bucket.Loaded) {
	w := oracleWindows[limit]
	slots := map[int64]int64{}
	for _, e := range o.events {
		if e.value != value || e.kept == 0 {
			continue
		}
		slot := e.at - e.at%hour
		switch {
		// A slot overlaps the last ms of the length if it ends after its first one.
		case limit == 0 && e.at-e.at%(6*hour) == o.now-o.now%(6*hour),
			limit == 1 && slot+w.Slot > o.now-w.Length+1,
			limit == 2 && o.began[value] <= e.at && e.at < o.began[value]+w.Length && o.now < o.began[value]+w.Length,
			limit == 3:
			used += e.kept
			slots[slot] += e.kept
		}
	}
	l = bucket.Loaded{Used: used, Began: o.began[value]}
	for begin, n := range slots {
		l.Slots = append(l.Slots, bucket.CountSlot{Begin: begin, Used: n})
	}
	return used, l
}

func (o *oracle) deduct(t *testing.T, i int) {
	t.Helper()
	value, add := fmt.Sprint("user ", o.random.IntN(12)), 1+o.random.Int64N(3)
	op := Limited(o.ref, fmt.Sprint("id ", i), o.ahead(t), o.counts(value, add)...)
	op.Counting.From, op.LimitsVersion = o.from, o.version
	got := o.limited(t, op)
	o.seen[got.Verdict]++
	if got.Verdict == bucket.Unloaded {
		for n, mark := range got.Counted.Marks {
			if mark >= 0 {
				_, l := o.used(n, value)
				l.Mark = mark
				op.Counting.Counts[n].Loaded = &l
			}
		}
		got = o.limited(t, op)
		o.seen[got.Verdict]++
	}
	over := -1
	var before [4]int64
	for n := range before {
		if before[n], _ = o.used(n, value); over < 0 && before[n]+add > oracleMost[n] {
			over = n
		}
	}
	want := bucket.OK
	if over >= 0 {
		want, add = bucket.OverLimit, 0
	}
	if got.Verdict != want || got.Counted.Over != over {
		t.Fatalf("%s: %s %+v, want %s over %d of %d", value, verdictNames[got.Verdict], got.Counted,
			verdictNames[want], over, before)
	}
	for n := range before {
		if is := got.Counted.Limits[n].Used; is != before[n]+add {
			t.Fatalf("%s, limit %d: %d used, want %d", value, n, is, before[n]+add)
		}
	}
	if want == bucket.OK {
		if o.now >= o.began[value]+oracleWindows[2].Length {
			o.began[value] = got.Counted.Now
		}
		o.began[value] = min(o.began[value], got.Counted.Now)
		o.events = append(o.events, counted{id: op.Request.ID, value: value, at: got.Counted.Now, kept: add})
	}
}

// giveBack takes something back of a recent event, as a rollback does, and says so to the store.
func (o *oracle) giveBack(t *testing.T) {
	t.Helper()
	if len(o.events) == 0 {
		return
	}
	e := &o.events[len(o.events)-1-o.random.IntN(min(20, len(o.events)))]
	e.kept -= min(e.kept, 1+o.random.Int64N(2))
	c := bucket.Counting{From: o.from, Ahead: o.ahead(t), Counts: o.counts(e.value, 1)}
	c.Counts[0].Window.Begin = e.at - e.at%(6*hour)
	c.Counts[0].Window.End = c.Counts[0].Window.Begin + 6*hour
	err := o.Store.(bucket.Counters).Unload(t.Context(), o.Lane, []bucket.Unloading{{Ref: o.ref, Counting: c}})
	if err != nil {
		t.Fatal(err)
	}
}

// change makes a limit count anew, as a change of its window does.
func (o *oracle) change() {
	o.version++
	o.changed[o.random.IntN(4)] = o.version
}

// anew gives the bucket its next epoch, some of them with counters that begin anew.
func (o *oracle) anew(t *testing.T) {
	t.Helper()
	closed, err := o.Store.Close(t.Context(), o.Lane, []bucket.Ref{o.ref})
	if reply := only(t, "close", closed, err); reply.Verdict != bucket.OK {
		t.Fatalf("close: %+v", reply)
	}
	o.forget(t, o.ref)
	o.ref = nextEpoch(o.ref)
	o.open(t, o.ref, bucket.Reply{Verdict: bucket.OK})
	o.grant(t, o.ref, 1, budget.MaxAmount/2, bucket.Reply{Verdict: bucket.OK, Balance: budget.MaxAmount / 2, Seq: 1})
	if o.random.IntN(2) == 0 {
		o.from = o.ref.Epoch
	}
}
