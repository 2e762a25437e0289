package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// buckets is the number of buckets of each budget of a run, spread over all Redis.
const buckets = 4

// run is one chaos test on one world.
type run struct {
	tb         testing.TB
	w          *World
	seed       uint64
	durability budget.Durability
	callers    int
	rnd        *rand.Rand
	counts     *counts
	tally      *tally
	rounds     int
	lost       int64 // units, in store mode
	released   int64 // units, from quarantine
	sold       int64 // units of hot budgets, each sold out to the last unit
	// big, flux and capped live as long as the run.
	big, flux, capped *book
}

func newRun(tb testing.TB, w *World, seed uint64, durability string) *run {
	tb.Helper()
	r := &run{tb: tb, w: w, seed: seed,
		durability: budget.Durability(durability), callers: 10,
		rnd: rand.New(rand.NewPCG(seed, 1)), counts: newCounts(), tally: &tally{codes: map[string]int{}}}
	r.big = r.create("big", 10_000_000, budget.Amount, 5_000)
	r.big.plenty = true
	r.flux = r.create("flux", 20_000, budget.Count, 0)
	r.capped = r.create("capped", 10_000_000, budget.Count, 5_000,
		client.Limit{Name: "per-user", Dimension: "user",
			Max: perMinute, Measure: budget.MeasureAmount,
			Window: client.Window{Kind: budget.WindowCalendar, Every: budget.Minute}})
	r.capped.plenty, r.capped.limited = true, true
	return r
}

// perMinute is how many units of the budget "capped" a user may take in a minute.
const perMinute = 15

// create creates a budget, with retries, and its book. sharding bounds one grant; 0 means no bound.
// Limits are on its routing dimension, user.
func (r *run) create(
	name string, total int64, unit budget.Unit, sharding int64, limits ...client.Limit,
) *book {
	r.tb.Helper()
	routing := ""
	if len(limits) > 0 {
		routing = "user"
	}
	deadline := time.Now().Add(quietLimit)
	for i := 0; ; i++ {
		_, err := r.w.Clients[i%len(r.w.Clients)].Create(context.Background(),
			client.CreateRequest{Name: name,
				Unit: unit, Type: budget.Promo, TotalQuantity: total, BucketQuantity: buckets,
				ShardingQuantity: sharding, Durability: r.durability, Limits: limits,
				RoutingDimension: routing})
		if err == nil {
			b := newBook(name, total)
			b.store = r.durability == "store"
			return b
		}
		if final(err) || time.Now().After(deadline) {
			r.tb.Fatalf("create %s: %v", name, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// strikes runs a schedule in rounds. A round is load, faults with some time to recover between
// them, and a check of the books when everything works again. A strike that disturbed nothing is
// repeated later, up to 25 times. strikes stops at the deadline (zero means none) or after a failed
// check.
func (r *run) strikes(schedule []Strike, perRound int, deadline time.Time) {
	const tries = 25 // a proxy may see no traffic during a fault
	for len(schedule) > 0 && !r.tb.Failed() && (deadline.IsZero() || time.Now().Before(deadline)) {
		round := schedule[:min(perRound, len(schedule))]
		schedule = schedule[len(round):]
		r.round(func() {
			for _, s := range round {
				err := r.strike(s)
				switch {
				case err == nil:
					r.counts.note(s)
				case errors.Is(err, ErrMissed):
					for _, k := range s.Kinds {
						r.counts.missed[k]++
					}
					if s.tries++; s.tries < tries {
						schedule = append(schedule, s)
					}
				default:
					r.tb.Errorf("%s: %v", s, err)
					return
				}
				time.Sleep(100*time.Millisecond + upTo(r.rnd, 500*time.Millisecond)) // it may not have recovered yet
			}
		})
	}
}

// String names the kinds.
func (s Strike) String() string {
	var names []string
	for _, k := range s.Kinds {
		names = append(names, Faults[k].Name)
	}
	return strings.Join(names, " + ")
}

// strike executes the faults of a strike.
func (r *run) strike(s Strike) error {
	var kinds []Fault
	for _, k := range s.Kinds {
		kinds = append(kinds, Faults[k])
	}
	r.log("round %d: %s", r.rounds, s)
	return r.w.Strike(r.rnd, kinds...)
}

// log logs an action with the time, to match it with the processes' logs.
func (r *run) log(format string, args ...any) {
	if testing.Verbose() {
		r.tb.Logf("%s "+format, append([]any{time.Now().UTC().Format("15:04:05.000")}, args...)...)
	}
}

// round runs faults under load on the lasting budgets and on a small hot one, sells the hot one out
// to its last unit, and checks the books.
func (r *run) round(faults func()) {
	r.rounds++
	hot := r.create(fmt.Sprintf("hot-%d", r.rounds), 300+r.rnd.Int64N(300), budget.Count, 40)
	l := &load{w: r.w, tally: r.tally, round: r.rounds, books: []*book{hot, r.big, r.flux, r.capped},
		flux: r.flux}
	l.start(r.seed, r.callers)
	faults()
	l.end()
	r.log("round %d: the load has ended", r.rounds)
	if err := errors.Join(r.w.Restore(), l.settle(r.seed), r.w.AwaitQuiet()); err != nil {
		r.tb.Error(err)
		return
	}
	r.log("round %d: settled and quiet", r.rounds)
	r.check(l.books...)
	if r.tb.Failed() {
		return
	}
	r.sellOut(l, hot)
	r.log("round %d: sold out", r.rounds)
}

func (r *run) check(all ...*book) {
	report, err := r.w.audit()
	if err != nil {
		r.tb.Error(err)
		return
	}
	for _, wrong := range report.Wrong[:min(len(report.Wrong), 20)] {
		r.tb.Errorf("audit: %s", wrong)
	}
	for _, b := range all {
		wrong, lost := r.w.verify(b, report.Budgets[b.name])
		for _, what := range wrong[:min(len(wrong), 20)] {
			r.tb.Error(what)
		}
		r.lost += lost - b.lost
		b.lost = lost
		if b.store && !r.tb.Failed() {
			r.release(b, lost)
		}
	}
}

// release releases the quarantined units that were not lost, as an operator who knows the callers'
// answers can. The next check of the books would detect a unit that is sold twice.
func (r *run) release(b *book, lost int64) {
	ctx, cancel := bounded()
	defer cancel()
	c := r.w.Clients[r.rnd.IntN(len(r.w.Clients))]
	list, err := c.Quarantine(ctx, b.name)
	if err != nil {
		r.tb.Errorf("%s: %v", b.name, err)
		return
	}
	if list.Held < lost {
		r.tb.Errorf("%s: %d are in quarantine, %d were lost", b.name, list.Held, lost)
	}
	if list.Held <= lost {
		return
	}
	b.releases++
	answer, err := c.ReleaseQuarantine(ctx, b.name,
		client.ReleaseRequest{Reason: "the callers' own books",
			RequestID: fmt.Sprintf("release-%d", b.releases), Quantity: list.Held - lost, By: "chaos"})
	if err != nil || answer.Quarantined != lost {
		r.tb.Errorf("%s: release of %d: %+v, %v", b.name, list.Held-lost, answer, err)
		return
	}
	r.released += answer.Released
}

// sellOut sells a budget's remaining units through any node. All of them must be sold, and no more.
func (r *run) sellOut(l *load, b *book) {
	report, err := r.w.audit()
	if err != nil {
		r.tb.Error(err)
		return
	}
	found := report.Budgets[b.name]
	available := found.Total - found.Used - found.Held - found.Quarantined - found.Forfeited
	for i, left := 0, available; left > 0 && !r.tb.Failed(); i++ {
		amount := (left + 1) / 2
		record := b.add(fmt.Sprintf("last-%d", i), amount, "")
		if err := r.sell(l, b, record); err != nil {
			r.tb.Errorf("%s: %d of %d units cannot be deducted: %v", b.name, left, available, err)
			return
		}
		left -= amount
	}
	over := b.add("over", 1, "")
	if err := r.sell(l, b, over); client.CodeOf(err) != budget.BudgetExhausted {
		r.tb.Errorf("%s is sold out, and one more unit: %v", b.name, err)
	}
	if err := r.w.AwaitQuiet(); err != nil {
		r.tb.Error(err)
	}
	r.check(b)
	r.sold += available
}

// sell repeats an id through any node until its outcome is certain.
func (r *run) sell(l *load, b *book, record *record) error {
	deadline := time.Now().Add(quietLimit)
	for {
		err := l.deduct(b, record, r.rnd)
		if final(err) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// finish sells the budgets out that lasted for the run, and logs the table.
func (r *run) finish() {
	if !r.tb.Failed() {
		l := &load{w: r.w, tally: r.tally, round: r.rounds + 1, books: []*book{r.big, r.flux},
			flux: r.flux}
		r.big.plenty = false
		for _, b := range l.books {
			r.sellOut(l, b)
		}
		r.check(r.capped)
	}
	r.tb.Logf("seed %d, durability %s, %d nodes, %d rounds\n%s", r.seed, r.durability, len(r.w.Nodes),
		r.rounds, r.table())
}

// table returns how often each kind of fault took place and each answer was given.
func (r *run) table() string {
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "fault\talone\tpaired\tmissed\t")
	for k, f := range Faults {
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t\n", f.Name, r.counts.alone[k], r.counts.paired[k],
			r.counts.missed[k])
	}
	n := len(Faults)
	fmt.Fprintf(out, "pairs of kinds\t\t%d of %d\t\t\n\t\t\t\t\n", len(r.counts.pairs), n*(n-1)/2)
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	var what []string
	for code := range r.tally.codes {
		what = append(what, code)
	}
	slices.Sort(what)
	for _, code := range what {
		fmt.Fprintf(out, "%s\t%d\t\t\t\n", code, r.tally.codes[code])
	}
	fmt.Fprintf(out, "ids\t%d\t\t\t\nunits lost (store mode)\t%d\t\t\t\nunits released from "+
		"quarantine\t%d\t\t\t\nunits sold last\t%d\t\t\t\n",
		len(r.big.records)+len(r.flux.records)+len(r.capped.records), r.lost, r.released, r.sold)
	_ = out.Flush()
	return text.String()
}
