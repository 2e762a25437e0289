package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Differential applies the same random operations, in batches of random size, to all stores and
// fails at the first answer, and every few thousand operations at the first balance or log, in
// which they differ. The stores are empty; a store's name in the map is the instance of its lane 0.
// The one called "memory", or else the first by name, steers what is done next.
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
		return fmt.Sprintf("deduct    %s: min seq %d, amount %d, id %q", where, a.number, a.amount, a.id)
	case "read", "trim":
		return fmt.Sprintf("%-9s %s: from %d", a.verb, where, a.number)
	}
	return fmt.Sprintf("%-9s %s", a.verb, where)
}

func (a action) operation() bucket.Operation {
	o := Deduction(a.ref, a.amount, a.id)
	o.MinSeq = a.number
	return o
}

var verdictNames = map[bucket.Verdict]string{bucket.OK: "OK", bucket.Already: "Already",
	bucket.Insufficient: "Insufficient", bucket.EpochClosed: "EpochClosed",
	bucket.EpochGone: "EpochGone", bucket.WrongActivation: "WrongActivation",
	bucket.WentBack: "WentBack", bucket.Gap: "Gap", bucket.Broken: "Broken"}

// readLimit is how many entries a random read asks for.
const readLimit = 7

// apply does actions of one verb in one call and returns an answer for each, as text.
func apply(ctx context.Context, store bucket.Instance, lane bucket.Lane, actions []action,
	limit int) []string {
	var refs []bucket.Ref
	var orders []bucket.GrantOrder
	var operations []bucket.Operation
	var cursors []bucket.Cursor
	for _, a := range actions {
		refs = append(refs, a.ref)
		orders = append(orders, bucket.GrantOrder{Ref: a.ref, Number: a.number, Amount: a.amount})
		operations = append(operations, a.operation())
		cursors = append(cursors, bucket.Cursor{Ref: a.ref, From: a.number})
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
		out[i] = fmt.Sprintf("%s balance=%d seq=%d", verdictNames[r.Verdict], r.Balance, r.Seq)
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
	// counts are by verb and verdict.
	counts map[string]int
}

// track is what the run knows of a bucket.
type track struct {
	id    int64
	lives []*life
}

// life is an epoch of a bucket as the steering store last answered.
type life struct {
	ref                    bucket.Ref
	closed, gone           bool
	balance, seq, grantSeq int64
	// planned is the last grant that the batch being made asks for.
	planned int64
}

const differentialBuckets = 24

func newDifferential(seed uint64, stores map[string]bucket.Instance) *differential {
	d := &differential{seed: seed, random: rand.New(rand.NewPCG(seed, 0)), stores: stores,
		names: slices.Sorted(maps.Keys(stores)), counts: make(map[string]int)}
	slices.SortStableFunc(d.names, func(a, b string) int {
		switch {
		case a == "memory" && b != "memory":
			return -1
		case b == "memory" && a != "memory":
			return 1
		}
		return 0
	})
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
	d.history = append(d.history, actions...)
	answers := make(map[string][]string)
	for _, name := range d.names {
		answers[name] = apply(t.Context(), d.stores[name], d.lane(name), actions, readLimit)
	}
	for i := range actions {
		for _, name := range d.names[1:] {
			if answers[name][i] != answers[d.names[0]][i] {
				d.report(t, first+i, len(actions), name, answers[d.names[0]][i], answers[name][i])
				return
			}
		}
	}
	for i, a := range actions {
		answer := answers[d.names[0]][i]
		if strings.HasPrefix(answer, "error") {
			t.Errorf("seed %d, operation %d: every store answers %q to: %s", d.seed, first+i, answer, a)
			return
		}
		verdict, _, _ := strings.Cut(answer, " ")
		d.counts[a.verb+" "+verdict]++
		d.learn(a, answer)
	}
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
		want := apply(t.Context(), d.stores[d.names[0]], d.lane(d.names[0]), actions, 1_000_000)
		for _, name := range d.names[1:] {
			got := apply(t.Context(), d.stores[name], d.lane(name), actions, 1_000_000)
			for i := range actions {
				if got[i] != want[i] {
					d.history = append(d.history, actions[i])
					d.report(t, len(d.history)-1, 1, name, want[i], got[i])
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
	for _, want := range []string{
		"open OK", "open Already", "open EpochClosed", "open EpochGone", "open WrongActivation",
		"grant OK", "grant Already", "grant Gap", "grant Broken", "grant EpochClosed",
		"grant EpochGone", "grant WrongActivation",
		"deduct OK", "deduct Insufficient", "deduct WentBack", "deduct EpochClosed",
		"deduct EpochGone", "deduct WrongActivation",
		"close OK", "close Already", "close EpochGone", "close WrongActivation",
		"balances OK", "balances EpochGone",
	} {
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
	t.Logf("seed %d, %d operations on %s:%s", d.seed, len(d.history), strings.Join(d.names, ", "),
		text.String())
}

// report says where the stores differ and what the shortest history is that shows it.
func (d *differential) report(t *testing.T, at, batch int, name, want, got string) {
	t.Helper()
	bad := d.history[at]
	t.Errorf("seed %d, operation %d, in a batch of %d: the stores differ\n%s\n%-8s %s\n%-8s %s", d.seed,
		at, batch, bad, d.names[0], want, name, got)
	var steps []action
	for _, a := range d.history[:at+1] {
		if a.verb == "activate" || a.ref.Bucket == bad.ref.Bucket {
			steps = append(steps, a)
		}
	}
	r := replayer{ctx: t.Context(), fresh: 1_000_000_000,
		stores: [2]bucket.Instance{d.stores[d.names[0]], d.stores[name]},
		lanes:  [2]bucket.Lane{d.lane(d.names[0]), d.lane(name)}}
	if index, _, _ := r.run(steps); index < 0 {
		t.Errorf("its %d operations one by one, on another bucket, do not show it", len(steps))
		return
	}
	steps = r.shorten(steps)
	index, one, other := r.run(steps)
	var text strings.Builder
	for i, a := range steps[:index+1] {
		fmt.Fprintf(&text, "%3d %s\n", i, a)
	}
	t.Errorf("shortest history found, one call each:\n%s%-8s %s\n%-8s %s", text.String(), d.names[0], one,
		name, other)
}

// replayer repeats a bucket's history on two stores, each time on a bucket of its own.
type replayer struct {
	ctx    context.Context
	stores [2]bucket.Instance
	lanes  [2]bucket.Lane
	fresh  int64
}

// replayBound bounds how many histories are tried while shortening one.
const replayBound = 400

// run returns the index of the first action that the stores answer differently, with the answers;
// -1 if there is none.
func (r *replayer) run(steps []action) (index int, one, other string) {
	r.fresh++
	for i, a := range steps {
		if a.verb != "activate" {
			a.ref.Bucket = r.fresh
		}
		limit := readLimit
		if i == len(steps)-1 {
			limit = 1_000_000
		}
		one := apply(r.ctx, r.stores[0], r.lanes[0], []action{a}, limit)[0]
		other := apply(r.ctx, r.stores[1], r.lanes[1], []action{a}, limit)[0]
		if one != other {
			return i, one, other
		}
	}
	return -1, "", ""
}

// shorten leaves out pieces of a history, smaller and smaller ones, as long as it still shows a
// difference.
func (r *replayer) shorten(steps []action) []action {
	tried := 0
	for size := len(steps) / 2; size > 0; {
		shorter := false
		for from := 0; from < len(steps) && tried < replayBound; {
			candidate := slices.Delete(slices.Clone(steps), from, min(from+size, len(steps)))
			tried++
			if index, _, _ := r.run(candidate); index >= 0 {
				steps, shorter = candidate[:index+1], true
			} else {
				from += size
			}
		}
		if !shorter || size > 1 {
			size /= 2
		}
	}
	return steps
}
