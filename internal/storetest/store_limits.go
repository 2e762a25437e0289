package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// hour is the unit of the limits' tests, in ms: what passes while one runs makes no difference to them.
const hour = int64(60 * 60 * 1000)

// testLimits is the conformance suite of limits in store mode. The tests move time by Counting.Ahead.
func testLimits(t *testing.T, b *bench) {
	if _, counts := b.Store.(bucket.Counters); !counts {
		return
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T, *bench)
	}{
		{"one limit", testOneLimit},
		{"all or nothing", testLimitsAllOrNothing},
		{"order of the verdicts", testLimitOrder},
		{"calendar windows", testLimitCalendar},
		{"what has to be loaded", testLimitLoaded},
		{"unloaded", testLimitUnload},
		{"newer limits", testLimitVersions},
		{"newer limits for one that counts nothing", testLimitVersionsUncounted},
		{"counters outlive epochs", testLimitEpochs},
		{"many values", testLimitValues},
		{"hostile values", testLimitHostile},
		{"large numbers", testLimitLarge},
		{"in one call", testLimitOneCall},
		{"the entry says when", testLimitEntry},
		{"64 callers on one value", testLimitConcurrent},
		{"malformed", testLimitMalformed},
		{"against every event", testLimitOracle},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, b) })
	}
}

// Limited makes a recorded deduction of one unit that counts for limits, by a clock that is that far ahead.
func Limited(ref bucket.Ref, id string, ahead int64, counts ...bucket.Count) bucket.Operation {
	o := Recorded(ref, 1, id)
	o.LimitsVersion, o.Counting = 1, &bucket.Counting{From: 1, Ahead: ahead, Counts: counts}
	return o
}

// everCount is a count of one for a value, for as long as the budget lives.
func everCount(value string, most int64) bucket.Count {
	return bucket.Count{Limit: "per-user", Changed: 1, Value: value, Add: 1, Max: most, New: true,
		Window: bucket.CountWindow{Kind: budget.WindowLifetime}}
}

func (b *bench) limited(t *testing.T, o bucket.Operation) bucket.Reply {
	t.Helper()
	got, err := b.Store.Deduct(t.Context(), b.Lane, []bucket.Operation{o})
	return only(t, "deduct", got, err)
}

// wantLimited fails unless an operation gets that verdict and, of each limit, that number used.
func (b *bench) wantLimited(t *testing.T, o bucket.Operation, verdict bucket.Verdict, used ...int64) *bucket.Counted {
	t.Helper()
	got := b.limited(t, o)
	if got.Verdict != verdict {
		t.Fatalf("%s: %s, want %s (%+v, %+v)", o.Request.ID, verdictNames[got.Verdict], verdictNames[verdict],
			got, got.Counted)
	}
	if (got.Counted != nil) != (verdict == bucket.OK || verdict >= bucket.Outdated) {
		t.Fatalf("%s: %s with %+v", o.Request.ID, verdictNames[got.Verdict], got.Counted)
	}
	if got.Counted == nil {
		return &bucket.Counted{}
	}
	var is []int64
	for _, state := range got.Counted.Limits {
		is = append(is, state.Used)
	}
	if !slices.Equal(is, used) {
		t.Fatalf("%s: used %d, want %d", o.Request.ID, is, used)
	}
	return got.Counted
}

func testOneLimit(t *testing.T, b *bench) {
	ref := b.filled(t, 100)
	for i := range int64(3) {
		got := b.wantLimited(t, Limited(ref, fmt.Sprint("a", i), 0, everCount("ann", 3)), bucket.OK, i+1)
		if got.Over != -1 || got.Limits[0].Reset != 0 {
			t.Errorf("told %+v", got)
		}
	}
	got := b.wantLimited(t, Limited(ref, "a3", 0, everCount("ann", 3)), bucket.OverLimit, 3)
	if got.Over != 0 {
		t.Errorf("told %+v", got)
	}
	b.wantLimited(t, Limited(ref, "a3", 0, everCount("bob", 3)), bucket.OK, 1)
	// A repetition is answered before limits are looked at.
	b.wantLimited(t, Limited(ref, "a0", 0, everCount("ann", 3)), bucket.Recorded)
	b.wantLimited(t, Limited(ref, "a4", 0, everCount("ann", bucket.NoMax)), bucket.OK, 4)
	b.wantLimited(t, Limited(ref, "a5", 0, everCount("ann", 0)), bucket.OverLimit, 4)
	b.wantSeqs(t, ref, 0, 10, "0 1 2 3 4 5 6")
}

// testLimitsAllOrNothing: a refusal counts nothing anywhere (I6).
func testLimitsAllOrNothing(t *testing.T, b *bench) {
	ref := b.filled(t, 4)
	first, second := everCount("ann", 5), everCount("phone", 2)
	second.Limit = "per-phone"
	b.wantLimited(t, Limited(ref, "a", 0, first, second), bucket.OK, 1, 1)
	b.wantLimited(t, Limited(ref, "b", 0, first, second), bucket.OK, 2, 2)
	if got := b.wantLimited(t, Limited(ref, "c", 0, first, second), bucket.OverLimit, 2, 2); got.Over != 1 {
		t.Errorf("told %+v", got)
	}
	b.wantLimited(t, Limited(ref, "d", 0, first), bucket.OK, 3)
	much := Limited(ref, "e", 0, first)
	much.Amount = 2
	b.wantLimited(t, much, bucket.Insufficient)
	b.wantLimited(t, Limited(ref, "f", 0, first), bucket.OK, 4)
	b.balance(t, ref, bucket.Balance{Verdict: bucket.OK, Seq: 5, GrantSeq: 1, Granted: 4, Deducted: 4})
}

// testLimitOrder: see testRecordOrder.
func testLimitOrder(t *testing.T, b *bench) {
	ref := b.filled(t, 10)
	b.wantLimited(t, Limited(ref, "first", 0, everCount("ann", 1)), bucket.OK, 1)
	next := Limited(ref, "next", 0, everCount("bob", 1))
	next.Amount, next.Ceiling = 5, 2
	b.wantLimited(t, next, bucket.Behind)
	next.Amount = 50
	b.wantLimited(t, next, bucket.Insufficient)
	next.Counting.Counts[0].Value = "ann"
	b.wantLimited(t, next, bucket.OverLimit, 1)
	late := everCount("ann", 1)
	late.Limit, late.New = "late", false
	next.Counting.Counts = append(next.Counting.Counts, late)
	b.wantLimited(t, next, bucket.Unloaded)
	next.Counting.Counts[1].Window = bucket.CountWindow{Kind: budget.WindowCalendar, Begin: 1, End: 2}
	b.wantLimited(t, next, bucket.Outdated)
	next.MinSeq = 50
	b.wantLimited(t, next, bucket.WentBack)
	next.Until = 1
	b.wantLimited(t, next, bucket.PeriodOver)
	b.close(t, ref, bucket.Reply{Verdict: bucket.OK, Seq: 3})
	b.wantLimited(t, next, bucket.EpochClosed)
}

// testLimitCalendar: each window counts for itself, by the store's own clock.
func testLimitCalendar(t *testing.T, b *bench) {
	ref, now := b.filled(t, 100), b.now(t)
	day := everCount("ann", 2)
	day.Window = bucket.CountWindow{Kind: budget.WindowCalendar, Begin: now - hour, End: now + hour}
	b.wantLimited(t, Limited(ref, "a", 0, day), bucket.OK, 1)
	if got := b.wantLimited(t, Limited(ref, "b", 0, day), bucket.OK, 2); got.Limits[0].Reset != now+hour {
		t.Errorf("told %+v", got)
	}
	b.wantLimited(t, Limited(ref, "c", 0, day), bucket.OverLimit, 2)
	b.wantLimited(t, Limited(ref, "c", 2*hour, day), bucket.Outdated)
	if got := b.wantLimited(t, Limited(ref, "c", -2*hour, day), bucket.Outdated); got.Now < now+2*hour ||
		got.Now > now+3*hour {
		t.Errorf("it is %d by a clock that was at %d", got.Now, now)
	}
	next := day
	next.Window.Begin, next.Window.End = now+hour, now+3*hour
	b.wantLimited(t, Limited(ref, "c", -2*hour, next), bucket.OK, 1)
	b.wantLimited(t, Limited(ref, "d", 0, day), bucket.OverLimit, 2)
}

// testLimitLoaded: what a store may not know whole is asked of the ledger, and never taken for 0.
func testLimitLoaded(t *testing.T, b *bench) {
	ref, now := b.filled(t, 100), b.now(t)
	old := everCount("ann", 5)
	old.New = false
	if got := b.wantLimited(t, Limited(ref, "a", 0, old), bucket.Unloaded); !slices.Equal(got.Marks, []int64{0}) {
		t.Errorf("told %+v", got)
	}
	old.Loaded = &bucket.Loaded{Mark: 7, Used: 1}
	b.wantLimited(t, Limited(ref, "a", 0, old), bucket.Unloaded)
	old.Loaded.Mark, old.Loaded.Used = 0, 4
	b.wantLimited(t, Limited(ref, "a", 0, old), bucket.OK, 5)
	b.wantLimited(t, Limited(ref, "b", 0, old), bucket.OverLimit, 5) // loaded once
	old.Loaded = nil
	b.wantLimited(t, Limited(ref, "b", 0, old), bucket.OverLimit, 5)

	// A window that began after the store heard of the limit is known whole.
	day := everCount("ann", 5)
	day.Limit, day.New = "per-day", false
	day.Window = bucket.CountWindow{Kind: budget.WindowCalendar, Begin: now - hour, End: now + hour}
	b.wantLimited(t, Limited(ref, "c", 0, day), bucket.Unloaded)
	day.Window.Begin, day.Window.End = now+hour, now+3*hour
	b.wantLimited(t, Limited(ref, "c", -2*hour, day), bucket.OK, 1)
	both := Limited(ref, "d", -2*hour, day, everCount("dan", 1))
	both.Counting.Counts[1].Limit, both.Counting.Counts[1].New = "per-user", false
	if got := b.wantLimited(t, both, bucket.Unloaded); !slices.Equal(got.Marks, []int64{-1, 0}) {
		t.Errorf("told %+v", got)
	}
}

// testLimitUnload: what the ledger gave back is read from there, by whoever was told to.
func testLimitUnload(t *testing.T, b *bench) {
	ref := b.filled(t, 100)
	count := everCount("ann", 3)
	o := Limited(ref, "a", 0, count)
	unload := func() {
		t.Helper()
		err := b.Store.(bucket.Counters).Unload(t.Context(), b.Lane,
			[]bucket.Unloading{{Ref: ref, Counting: *o.Counting}})
		if err != nil {
			t.Fatal(err)
		}
	}
	unload() // nothing is there
	b.wantLimited(t, o, bucket.OK, 1)
	o.Request.ID = "b"
	unload()
	first := b.wantLimited(t, o, bucket.Unloaded).Marks[0]
	unload()
	second := b.wantLimited(t, o, bucket.Unloaded).Marks[0]
	if first < 1 || second <= first {
		t.Errorf("marks %d and %d", first, second)
	}
	o.Counting.Counts[0].Loaded = &bucket.Loaded{Mark: first, Used: 0}
	b.wantLimited(t, o, bucket.Unloaded) // what was read before the second one
	o.Counting.Counts[0].Loaded = &bucket.Loaded{Mark: second, Used: 2}
	b.wantLimited(t, o, bucket.OK, 3)
	o.Request.ID = "c"
	b.wantLimited(t, o, bucket.OverLimit, 3)
	b.wantLimited(t, Limited(ref, "d", 0, everCount("bob", 3)), bucket.OK, 1)
}

// testLimitVersions: whoever knows older limits than the store is told so.
func testLimitVersions(t *testing.T, b *bench) {
	ref := b.filled(t, 100)
	b.wantLimited(t, Limited(ref, "a", 0, everCount("ann", 3)), bucket.OK, 1)
	newer := Limited(ref, "b", 0, everCount("ann", 3))
	newer.LimitsVersion = 2
	b.wantLimited(t, newer, bucket.OK, 2)
	b.wantLimited(t, Limited(ref, "c", 0, everCount("ann", 3)), bucket.Outdated)
	changed := everCount("ann", 3)
	changed.Changed, changed.New = 3, false
	o := Limited(ref, "c", 0, changed)
	o.LimitsVersion = 3
	b.wantLimited(t, o, bucket.Unloaded)
	b.wantLimited(t, newer, bucket.Recorded)
	newer.Request.ID = "d"
	b.wantLimited(t, newer, bucket.Outdated) // though nothing was counted by the newer ones yet
	o.Counting.Counts[0].Loaded = &bucket.Loaded{Used: 2}
	b.wantLimited(t, o, bucket.OK, 3)
}

// testLimitVersionsUncounted: also a deduction that counts nothing, as far as its sender knows, tells its version, and
// is told of a newer one. A repetition is not, nor one without a record.
func testLimitVersionsUncounted(t *testing.T, b *bench) {
	ref := b.filled(t, 100)
	knowing := func(id string, version int64) bucket.Operation {
		o := Recorded(ref, 1, id)
		o.LimitsVersion = version
		return o
	}
	want := func(o bucket.Operation, verdict bucket.Verdict) {
		t.Helper()
		if got := b.limited(t, o); got.Verdict != verdict || (got.Counted != nil) != (o.Counting != nil) {
			t.Fatalf("%s, version %d: %+v, want %s", o.Request.ID, o.LimitsVersion, got, verdictNames[verdict])
		}
	}
	want(knowing("a", 0), bucket.OK)
	late := everCount("ann", 3)
	late.Changed, late.New = 2, false
	o := Limited(ref, "b", 0, late)
	o.LimitsVersion = 2
	want(o, bucket.Unloaded) // from here on somebody may count what the ledger does not have
	want(knowing("c", 0), bucket.Outdated)
	want(knowing("c", 1), bucket.Outdated)
	want(knowing("a", 0), bucket.Recorded)
	want(Deduction(ref, 1, "d"), bucket.OK)
	want(knowing("c", 2), bucket.OK)
	o.Counting.Counts[0].Loaded = &bucket.Loaded{Used: 1}
	b.wantLimited(t, o, bucket.OK, 2)
	want(knowing("e", 3), bucket.OK)
	o.Request.ID = "f"
	want(o, bucket.Outdated)
	b.close(t, ref, bucket.Reply{Verdict: bucket.OK, Seq: 7})
	want(knowing("g", 2), bucket.EpochClosed)
	b.forget(t, ref)
}

// testLimitEpochs: the next epoch goes on counting; where the counters begin anew nothing is taken over.
func testLimitEpochs(t *testing.T, b *bench) {
	ref := b.filled(t, 100)
	b.wantLimited(t, Limited(ref, "a", 0, everCount("ann", 2)), bucket.OK, 1)
	b.close(t, ref, bucket.Reply{Verdict: bucket.OK, Seq: 3})
	b.forget(t, ref)
	next := nextEpoch(ref)
	b.open(t, next, bucket.Reply{Verdict: bucket.OK})
	b.grant(t, next, 1, 10, bucket.Reply{Verdict: bucket.OK, Balance: 10, Seq: 1})
	b.wantLimited(t, Limited(next, "b", 0, everCount("ann", 2)), bucket.OK, 2)
	b.wantLimited(t, Limited(next, "c", 0, everCount("ann", 2)), bucket.OverLimit, 2)
	count := everCount("ann", 2)
	count.New = false
	anew := Limited(next, "c", 0, count)
	anew.Counting.From = 2
	b.wantLimited(t, anew, bucket.Unloaded)

	// Leaving takes counters up to that epoch with it.
	if err := b.Store.Leave(t.Context(), b.Lane, []bucket.Ref{ref}); err != nil {
		t.Fatal(err)
	}
	b.wantLimited(t, Limited(next, "d", 0, everCount("ann", 2)), bucket.OK, 1)
	anew.Counting.Counts[0].Loaded = &bucket.Loaded{Used: 0}
	b.wantLimited(t, anew, bucket.OK, 1)
	anew.Request.ID = "e"
	b.wantLimited(t, anew, bucket.OK, 2)
}

// testLimitValues: more values than a page takes, and than its children do.
func testLimitValues(t *testing.T, b *bench) {
	const values, calls = 3000, 500
	ref := b.filled(t, budget.MaxAmount)
	for round := range int64(2) {
		for from := 0; from < values; from += calls {
			operations := make([]bucket.Operation, calls)
			for i := range operations {
				operations[i] = Limited(ref, fmt.Sprint(round, " ", from+i), 0, everCount(fmt.Sprint("user-", from+i), 2))
			}
			got, err := b.Store.Deduct(t.Context(), b.Lane, operations)
			if err != nil {
				t.Fatal(err)
			}
			for i, reply := range got {
				if reply.Verdict != bucket.OK || reply.Counted.Limits[0].Used != round+1 {
					t.Fatalf("round %d, value %d: %+v, %+v", round, from+i, reply, reply.Counted)
				}
			}
		}
	}
	for _, value := range []int{0, 127, 128, 2999} {
		b.wantLimited(t, Limited(ref, "last", 0, everCount(fmt.Sprint("user-", value), 2)), bucket.OverLimit, 2)
	}
}

// testLimitHostile: values are bytes; each is its own.
func testLimitHostile(t *testing.T, b *bench) {
	values := append([]string{"", "=", "#", "u1", "\x00", "a b", strings.Repeat("x", 48), strings.Repeat("x", 49),
		strings.Repeat("y", 49), strings.Repeat("\xff", 300), "=" + strings.Repeat("x", 48)}, HostileTexts...)
	slices.Sort(values)
	values = slices.Compact(values)
	ref := b.filled(t, 1_000_000)
	for round := range int64(2) {
		for i, value := range values {
			b.wantLimited(t, Limited(ref, fmt.Sprint(round, i), 0, everCount(value, 2)), bucket.OK, round+1)
		}
	}
}

// testLimitLarge: nothing is rounded, and nothing wraps.
func testLimitLarge(t *testing.T, b *bench) {
	ref := b.filled(t, 100)
	count := everCount("ann", budget.MaxAmount)
	count.Add = budget.MaxAmount - 1
	b.wantLimited(t, Limited(ref, "a", 0, count), bucket.OK, budget.MaxAmount-1)
	count.Add = 2
	b.wantLimited(t, Limited(ref, "b", 0, count), bucket.OverLimit, budget.MaxAmount-1)
	count.Add = 1
	b.wantLimited(t, Limited(ref, "b", 0, count), bucket.OK, budget.MaxAmount)
	b.wantLimited(t, Limited(ref, "c", 0, count), bucket.OverLimit, budget.MaxAmount)
	count.Add, count.Max = budget.MaxAmount, bucket.NoMax
	b.wantLimited(t, Limited(ref, "c", 0, count), bucket.OK, budget.MaxAmount)
}

// testLimitOneCall: a call is its operations one by one, with and without limits.
func testLimitOneCall(t *testing.T, b *bench) {
	ref, other := b.filled(t, 100), b.filled(t, 100)
	plain := Recorded(ref, 1, "p")
	plain.Ceiling, plain.LimitsVersion = 50, 1
	operations := []bucket.Operation{Limited(ref, "a", 0, everCount("ann", 2)), plain,
		Limited(ref, "b", 0, everCount("ann", 2)), Limited(ref, "c", 0, everCount("ann", 2)),
		Limited(ref, "a", 0, everCount("ann", 2)), Deduction(other, 1, "q"), Recorded(other, 1, "r"),
		Limited(ref, "c", 0, everCount("bob", 2), secondCount("bob", 1)), Deduction(ref, 1, "s")}
	got, err := b.Store.Deduct(t.Context(), b.Lane, operations)
	if err != nil {
		t.Fatal(err)
	}
	want := []bucket.Verdict{bucket.OK, bucket.OK, bucket.OK, bucket.OverLimit, bucket.Recorded, bucket.OK, bucket.OK,
		bucket.OK, bucket.OK}
	for i, reply := range got {
		counted := operations[i].Counting != nil && reply.Verdict != bucket.Recorded
		if reply.Verdict != want[i] || (reply.Counted != nil) != counted {
			t.Errorf("operation %d: %+v, want %s", i, reply, verdictNames[want[i]])
		}
	}
	b.wantSeqs(t, ref, 0, 10, "0 1 2 3 4 5 6")
}

func secondCount(value string, most int64) bucket.Count {
	count := everCount(value, most)
	count.Limit = "second"
	return count
}

// testLimitEntry: what was counted can be found in its window by the ledger, too.
func testLimitEntry(t *testing.T, b *bench) {
	ref := b.filled(t, 100)
	o := Limited(ref, "a", 5*hour, everCount("ann", 2))
	o.Request.Dimensions, o.Request.Group = `{"user":"ann"}`, "g"
	told := b.wantLimited(t, o, bucket.OK, 1)
	entries := b.read(t, ref, 2, 1)
	want := o.Request
	want.At = told.Now
	if len(entries) != 1 || entries[0].Request != want {
		t.Errorf("the log has %+v, want %+v", entries, want)
	}
	if now := b.now(t) - 5*hour; told.Now > now || told.Now < now-hour {
		t.Errorf("counted at %d, it is %d", told.Now, now)
	}
}

// testLimitConcurrent: nobody gets more than the maximum, and nobody less.
func testLimitConcurrent(t *testing.T, b *bench) {
	const callers, each, most = 64, 6, 100
	ref := b.filled(t, budget.MaxAmount)
	var mu sync.Mutex
	verdicts := map[bucket.Verdict]int{}
	seen := map[int64]bool{}
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range each {
				got, err := b.Store.Deduct(t.Context(), b.Lane, []bucket.Operation{
					Limited(ref, fmt.Sprint(caller, " ", i), 0, everCount("ann", most))})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				verdicts[got[0].Verdict]++
				if used := got[0].Counted.Limits[0].Used; got[0].Verdict == bucket.OK && seen[used] {
					t.Errorf("%d was counted twice", used)
				} else if got[0].Verdict == bucket.OK {
					seen[used] = true
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if verdicts[bucket.OK] != most || verdicts[bucket.OverLimit] != callers*each-most {
		t.Errorf("the verdicts are %v", verdicts)
	}
}

// testLimitMalformed: nothing is sent of what is none.
func testLimitMalformed(t *testing.T, b *bench) {
	ref := b.filled(t, 10)
	for name, change := range map[string]func(*bucket.Operation){
		"no record":                  func(o *bucket.Operation) { o.Record = false },
		"a version without a record": func(o *bucket.Operation) { o.Record, o.Counting = false, nil },
		"a negative version":         func(o *bucket.Operation) { o.LimitsVersion, o.Counting = -1, nil },
		"no limits":                  func(o *bucket.Operation) { o.Counting.Counts = nil },
		"too many":                   func(o *bucket.Operation) { o.Counting.Counts = make([]bucket.Count, bucket.MostCounts+1) },
		"no version":                 func(o *bucket.Operation) { o.LimitsVersion = 0 },
		"a later epoch":              func(o *bucket.Operation) { o.Counting.From = 2 },
		"of later limits":            func(o *bucket.Operation) { o.Counting.Counts[0].Changed = 2 },
		"a name":                     func(o *bucket.Operation) { o.Counting.Counts[0].Limit = "a:b" },
		"a negative":                 func(o *bucket.Operation) { o.Counting.Counts[0].Add = -1 },
		"too much":                   func(o *bucket.Operation) { o.Counting.Counts[0].Max = budget.MaxAmount + 1 },
		"no window":                  func(o *bucket.Operation) { o.Counting.Counts[0].Window.Kind = "" },
		"no length":                  func(o *bucket.Operation) { o.Counting.Counts[0].Window.Kind = budget.WindowFirstHit },
		"no slot": func(o *bucket.Operation) {
			o.Counting.Counts[0].Window = bucket.CountWindow{Kind: "sliding", Length: 1}
		},
		"an empty month": func(o *bucket.Operation) { o.Counting.Counts[0].Window = bucket.CountWindow{Kind: "calendar"} },
	} {
		o := Limited(ref, "a", 0, everCount("ann", 2))
		change(&o)
		_, err := b.Store.Deduct(t.Context(), b.Lane, []bucket.Operation{o})
		wantError(t, name, err, budget.Invalid)
	}
	b.untouched(t, ref, 10)
}
