package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Differential applies the same random operations, in batches of random size, to all stores and
// fails at the first answer, and every few thousand operations at the first balance or log, in
// which they differ. The stores are empty; a store's name in the map is the instance of its lane 0.
// The one called "memory", or else the first by name, steers what is done next.
//
// If all stores keep records, deductions with records and ceilings, repetitions and voids are mixed
// in.
//
// With 100,000 operations every verdict of every verb must come up at least 500 times (in
// proportion for other numbers), and a third of the deductions must be accepted. The counts are
// logged.
//
// On a difference it replays the bucket's history on buckets that nobody has used, shortens it
// while the stores still differ, and prints what is left.
func Differential(t *testing.T, seed uint64, operations int, stores map[string]bucket.Instance) {
	t.Helper()
	d := newDifferential(seed, stores)
	d.activate(t, 1)
	checkEvery := max(operations/20, 1)
	nextCheck, nextActivation := checkEvery, operations/16
	for len(d.history) < operations && !t.Failed() {
		d.batch(t, d.next())
		if len(d.history) >= nextCheck {
			nextCheck += checkEvery
			d.compareAll(t)
		}
		if len(d.history) >= nextActivation {
			nextActivation += operations / 16
			d.activate(t, d.activation+1)
		}
	}
	if !t.Failed() {
		d.compareAll(t)
		d.judge(t, operations)
	}
}

// action is one operation, or an activation, as the differential test remembers it.
type action struct {
	verb string
	ref  bucket.Ref
	// number is a grant's number, a deduction's MinSeq, a cursor's From or the activation.
	number, amount int64
	id             string
	// record and ceiling are a deduction's.
	record  bool
	ceiling int64
	// batch numbers the calls of the run.
	batch int
}

func (a action) String() string {
	where := fmt.Sprintf("bucket %d, epoch %d, activation %d", a.ref.Bucket, a.ref.Epoch,
		a.ref.Activation)
	switch a.verb {
	case "activate":
		return fmt.Sprintf("activate %d", a.number)
	case "grant":
		return fmt.Sprintf("grant     %s: number %d, amount %d", where, a.number, a.amount)
	case "deduct":
		return fmt.Sprintf("deduct    %s: min seq %d, amount %d, id %q, record %t, ceiling %d", where,
			a.number, a.amount, a.id, a.record, a.ceiling)
	case "void":
		return fmt.Sprintf("void      %s: id %q", where, a.id)
	case "read", "trim":
		return fmt.Sprintf("%-9s %s: from %d", a.verb, where, a.number)
	}
	return fmt.Sprintf("%-9s %s", a.verb, where)
}

func (a action) operation() bucket.Operation {
	o := Deduction(a.ref, a.amount, a.id)
	o.MinSeq, o.Record, o.Ceiling = a.number, a.record, a.ceiling
	return o
}

var verdictNames = map[bucket.Verdict]string{bucket.OK: "OK", bucket.Already: "Already",
	bucket.Insufficient: "Insufficient", bucket.EpochClosed: "EpochClosed",
	bucket.EpochGone: "EpochGone", bucket.WrongActivation: "WrongActivation",
	bucket.WentBack: "WentBack", bucket.Gap: "Gap", bucket.Broken: "Broken",
	bucket.Recorded: "Recorded", bucket.Behind: "Behind", bucket.PeriodOver: "PeriodOver",
	bucket.Outdated: "Outdated", bucket.Unloaded: "Unloaded", bucket.OverLimit: "OverLimit"}

// readLimit is how many entries a random read asks for.
const readLimit = 7

// apply does actions of one verb in one call and returns an answer for each, as text.
func apply(ctx context.Context, store bucket.Instance, lane bucket.Lane, actions []action,
	limit int) []string {
	var refs []bucket.Ref
	var orders []bucket.GrantOrder
	var operations []bucket.Operation
	var cursors []bucket.Cursor
	var voids []bucket.VoidOrder
	for _, a := range actions {
		refs = append(refs, a.ref)
		orders = append(orders, bucket.GrantOrder{Ref: a.ref, Number: a.number, Amount: a.amount})
		operations = append(operations, a.operation())
		cursors = append(cursors, bucket.Cursor{Ref: a.ref, From: a.number})
		voids = append(voids, bucket.VoidOrder{Ref: a.ref, RequestID: a.id})
	}
	var replies []bucket.Reply
	var err error
	out := make([]string, len(actions))
	switch actions[0].verb {
	case "open":
		replies, err = store.Open(ctx, lane, refs)
	case "grant":
		replies, err = store.Grant(ctx, lane, orders)
	case "deduct":
		replies, err = store.Deduct(ctx, lane, operations)
	case "void":
		replies, err = store.(bucket.Records).Void(ctx, lane, voids)
	case "close":
		replies, err = store.Close(ctx, lane, refs)
	case "balances":
		var balances []bucket.Balance
		balances, err = store.Balances(ctx, lane, refs)
		for i, b := range balances {
			out[i] = fmt.Sprintf("%s closed=%t seq=%d grant_seq=%d balance=%d granted=%d deducted=%d",
				verdictNames[b.Verdict], b.Closed, b.Seq, b.GrantSeq, b.Balance, b.Granted, b.Deducted)
		}
	case "read":
		var extracts []bucket.Extract
		extracts, err = store.Read(ctx, lane, cursors, limit)
		for i, e := range extracts {
			out[i] = entriesText(e)
		}
	case "trim":
		err = store.Trim(ctx, lane, cursors)
	case "forget":
		err = store.Forget(ctx, lane, refs)
	case "activate":
		var who string
		if who, err = store.Identity(ctx, lane); err == nil {
			err = store.Activate(ctx, lane, who, actions[0].number)
		}
	}
	for i, r := range replies {
		out[i] = fmt.Sprintf("%s balance=%d seq=%d%s", verdictNames[r.Verdict], r.Balance, r.Seq,
			recordText(r))
	}
	if err != nil {
		text := "error " + string(budget.CodeOf(err))
		if errors.Is(err, bucket.ErrMemoryLost) {
			text = "error " + bucket.ErrMemoryLost.Error()
		}
		for i := range out {
			out[i] = text
		}
	}
	return out
}

func entriesText(e bucket.Extract) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d entries", len(e.Entries))
	var mismatch *ledger.Mismatch
	if errors.As(e.Err, &mismatch) {
		out.WriteString(", then a mismatch")
	} else if e.Err != nil {
		fmt.Fprintf(&out, ", then %v", e.Err)
	}
	for _, entry := range e.Entries {
		fmt.Fprintf(&out, "; %d %s %q", entry.Seq, entry.Chain, entry.Line)
	}
	return out.String()
}

// differential is a run: the stores, what was done, and what the steering store said of it.
type differential struct {
	seed   uint64
	random *rand.Rand
	stores map[string]bucket.Instance
	// names are the stores' names, the steering one first.
	names      []string
	activation int64
	history    []action
	buckets    []*track
	// counts are by verb and verdict; spent is how long each store took, in the order of the names.
	counts map[string]int
	spent  []time.Duration
	calls  int
	// records: all stores keep records.
	records bool
	trims   trims
}

const differentialBuckets = 24

func newDifferential(seed uint64, stores map[string]bucket.Instance) *differential {
	d := &differential{seed: seed, random: rand.New(rand.NewPCG(seed, 0)), stores: stores,
		names: slices.Sorted(maps.Keys(stores)), counts: make(map[string]int), trims: trims{}}
	slices.SortStableFunc(d.names, func(a, b string) int {
		switch {
		case a == "memory" && b != "memory":
			return -1
		case b == "memory" && a != "memory":
			return 1
		}
		return 0
	})
	d.spent = make([]time.Duration, len(d.names))
	d.records = true
	for _, store := range stores {
		_, keeps := store.(bucket.Records)
		d.records = d.records && keeps
	}
	for i := range differentialBuckets {
		d.buckets = append(d.buckets, &track{id: int64(i + 1)})
	}
	return d
}

func (d *differential) lane(name string) bucket.Lane { return bucket.Lane{Instance: name} }

func (d *differential) activate(t *testing.T, number int64) {
	t.Helper()
	d.activation = number
	d.batch(t, []action{{verb: "activate", number: number}})
}

// batch does actions of one verb on every store and compares the answers.
func (d *differential) batch(t *testing.T, actions []action) {
	t.Helper()
	first := len(d.history)
	d.remember(actions)
	answers := d.ask(t.Context(), actions, readLimit)
	for i := range actions {
		for n, name := range d.names {
			if answers[n][i] != answers[0][i] {
				d.report(t, first+i, name, answers[0][i], answers[n][i])
				return
			}
		}
	}
	for i, a := range actions {
		answer := answers[0][i]
		if strings.HasPrefix(answer, "error") {
			t.Errorf("seed %d, operation %d: every store answers %q to: %s", d.seed, first+i, answer, a)
			return
		}
		verdict, _, _ := strings.Cut(answer, " ")
		d.counts[a.verb+" "+verdict]++
		d.learn(a, answer)
	}
}

// remember adds a call to the history.
func (d *differential) remember(actions []action) {
	d.calls++
	for _, a := range actions {
		a.batch = d.calls
		d.history = append(d.history, a)
	}
}

// ask does a call on all stores at once and returns their answers in the order of the names.
func (d *differential) ask(ctx context.Context, actions []action, limit int) [][]string {
	return d.trims.ask(len(d.names), actions, func(actions []action) [][]string {
		answers := make([][]string, len(d.names))
		var all sync.WaitGroup
		for n, name := range d.names {
			all.Go(func() {
				begin := time.Now()
				answers[n] = apply(ctx, d.stores[name], d.lane(name), actions, limit)
				d.spent[n] += time.Since(begin)
			})
		}
		all.Wait()
		return answers
	})
}

// trims are the furthest cursors that logs were trimmed to, by bucket. Stores may keep different entries before them:
// see bucket.Log.Trim.
type trims map[int64]bucket.Cursor

// ask does a call on n stores. A read whose answers begin at different entries, where it was trimmed, is done again
// from the last of these.
func (t trims) ask(n int, actions []action, call func([]action) [][]string) [][]string {
	answers := call(actions)
	for i, a := range actions {
		c, trimmed := t[a.ref.Bucket]
		switch {
		case a.verb == "trim" && (!trimmed || a.ref.Epoch > c.Ref.Epoch || a.ref.Epoch == c.Ref.Epoch && a.number > c.From):
			t[a.ref.Bucket] = bucket.Cursor{Ref: a.ref, From: a.number}
		case a.verb == "read" && trimmed:
			from := a.number
			for s := range n {
				from = max(from, firstOf(answers[s][i]))
			}
			if from > a.number && (a.ref.Epoch < c.Ref.Epoch || a.ref.Epoch == c.Ref.Epoch && from <= c.From) {
				again := a
				again.number = from
				for s, answer := range call([]action{again}) {
					answers[s][i] = answer[0]
				}
			}
		}
	}
	return answers
}

// firstOf is the position of the first entry of an entriesText, -1 if there is none.
func firstOf(text string) int64 {
	_, entries, _ := strings.Cut(text, "; ")
	digits, _, _ := strings.Cut(entries, " ")
	seq, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return -1
	}
	return seq
}

// compareAll compares every balance and every log.
func (d *differential) compareAll(t *testing.T) {
	t.Helper()
	if t.Failed() {
		return
	}
	for _, verb := range []string{"balances", "read"} {
		var actions []action
		for _, b := range d.buckets {
			for _, l := range b.lives {
				actions = append(actions, action{verb: verb, ref: l.ref})
			}
		}
		if len(actions) == 0 {
			return
		}
		answers := d.ask(t.Context(), actions, 1_000_000)
		for i := range actions {
			for n, name := range d.names {
				if answers[n][i] != answers[0][i] {
					d.remember(actions[i : i+1])
					d.report(t, len(d.history)-1, name, answers[0][i], answers[n][i])
					return
				}
			}
		}
	}
}

// judge fails unless the run met every verdict often enough.
func (d *differential) judge(t *testing.T, operations int) {
	t.Helper()
	least := operations / 200
	deductions := 0
	wanted := []string{
		"open OK", "open Already", "open EpochClosed", "open EpochGone", "open WrongActivation",
		"grant OK", "grant Already", "grant Gap", "grant Broken", "grant EpochClosed",
		"grant EpochGone", "grant WrongActivation",
		"deduct OK", "deduct Insufficient", "deduct WentBack", "deduct EpochClosed",
		"deduct EpochGone", "deduct WrongActivation",
		"close OK", "close Already", "close EpochGone", "close WrongActivation",
		"balances OK", "balances EpochGone",
	}
	if d.records {
		wanted = append(wanted, recordVerdicts...)
	}
	for _, want := range wanted {
		if d.counts[want] < least {
			t.Errorf("%s came up %d times, want at least %d", want, d.counts[want], least)
		}
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(d.counts)) {
		if strings.HasPrefix(name, "deduct") {
			deductions += d.counts[name]
		}
		if verb, _, _ := strings.Cut(name, " "); verb != "read" {
			fmt.Fprintf(&text, "\n%8d %s", d.counts[name], name)
		}
	}
	if d.counts["deduct OK"]*3 < deductions {
		t.Errorf("%d of %d deductions were accepted, want a third", d.counts["deduct OK"], deductions)
	}
	for n, name := range d.names {
		fmt.Fprintf(&text, "\n%8s %s", d.spent[n].Round(time.Millisecond), name)
	}
	t.Logf("seed %d, %d operations, %d calls:%s", d.seed, len(d.history), d.calls, text.String())
}

// report says where the stores differ and what the shortest history is that shows it: of the bucket
// that was answered differently, or of another one in the same call, which may have failed it.
func (d *differential) report(t *testing.T, at int, name, want, got string) {
	t.Helper()
	bad := d.history[at]
	batch := slices.DeleteFunc(slices.Clone(d.history),
		func(a action) bool { return a.batch != bad.batch })
	t.Errorf("seed %d, operation %d, in a call of %d: the stores differ\n%s\n%-8s %s\n%-8s %s", d.seed,
		at, len(batch), bad, d.names[0], want, name, got)
	r := replayer{ctx: t.Context(), fresh: 1_000_000_000,
		stores: [2]bucket.Instance{d.stores[d.names[0]], d.stores[name]},
		lanes:  [2]bucket.Lane{d.lane(d.names[0]), d.lane(name)}}
	tried := make(map[int64]bool)
	for _, suspect := range append([]action{bad}, batch...) {
		if tried[suspect.ref.Bucket] {
			continue
		}
		tried[suspect.ref.Bucket] = true
		var steps []action
		for _, a := range d.history {
			if a.verb == "activate" || a.ref.Bucket == suspect.ref.Bucket {
				steps = append(steps, a)
			}
		}
		for _, r.together = range []bool{false, true} {
			if r.run(steps) != nil {
				t.Error(r.text(r.shorten(steps), d.names[0], name))
				return
			}
		}
	}
	t.Errorf("no bucket of the call shows it alone")
}
