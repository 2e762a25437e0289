package crashpoints

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/auditor"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/limit"
)

var all = flag.Bool("crashpoints.all", false, "inject every fault at every step, not one fault at some steps")

// units is the total of each budget. A budget has three buckets.
const units = 99

// mostSteps bounds the steps of a verb.
const mostSteps = 400

// servers are the servers of a test, with the test's own database.
type servers struct {
	dsn, mariadb, redis string
	partitions          []bucket.Partition
	rows                *sql.DB
}

// verb is a call or a loop of a node.
type verb struct {
	name string
	// define changes the definition of the budgets for the verb.
	define func(d *budget.Definition)
	// before prepares a new budget through the other node.
	before func(w *world)
	// call executes the verb and returns the answer as a text. replayed is nil if the verb has no id.
	call func(ctx context.Context, n *node, b *bucket.Budget) (told string, replayed *bool, err error)
	// returns says that the verb gives units back.
	returns bool
	// used and held are the final S and H.
	used, held int64
	// rest says that the rest of the budget can be deducted afterwards.
	rest bool
	// check, if not nil, checks the rest of what the verb shall have done.
	check func(w *world)
}

// world is a budget on which a verb is executed.
type world struct {
	*testing.T
	s     *servers
	other *node // the node that survives
	b     *bucket.Budget
	d     budget.Durability
}

// crash executes each verb with a fault at each step.
func crash(t *testing.T, d budget.Durability, verbs []verb) {
	server, redis := testservers.SharedMariaDB(t), testservers.SharedRedis(t)
	for _, v := range verbs {
		t.Run(v.name, func(t *testing.T) {
			s := &servers{dsn: server.NewDatabase(t), mariadb: server.Addr(), redis: redis.Addr()}
			for _, name := range instances {
				s.partitions = append(s.partitions, bucket.Partition{Instance: name})
			}
			var err error
			if s.rows, err = sql.Open("mysql", s.dsn); err != nil {
				t.Fatal(err)
			}
			defer s.rows.Close()
			w := &world{T: t, s: s, d: d, other: newNode(t, s, nil)}
			w.ok(w.other.loop(t.Context(), "store sync")) // verifies the partitions
			w.everyStep(&v)
		})
	}
}

// everyStep executes a verb with a fault at step 1, 2, … until the verb has fewer steps.
func (w *world) everyStep(v *verb) {
	node := newNode(w.T, w.s, &gate{})
	w.ok(node.loop(w.Context(), "store sync"))
	for step := 1; step < mostSteps; step++ {
		if !*all && (step > 8 && step%3 != 0 || step > 30 && step%4 != 0) {
			continue // the short form
		}
		reached := false
		for i, f := range faults {
			if !*all && i != step%len(faults) {
				continue
			}
			hit := w.try(v, node, step, f)
			reached = reached || hit
			if hit && f != replyLost {
				node = newNode(w.T, w.s, &gate{})
				w.ok(node.loop(w.Context(), "store sync"))
			}
			if w.Failed() {
				w.Fatalf("%s at step %d", f, step)
			}
		}
		if !reached {
			w.Logf("fewer than %d steps", step)
			return
		}
	}
	w.Fatalf("more than %d steps", mostSteps)
}

// try executes the verb with a fault at a step, repeats it through the other node, and checks the
// result. hit is false if the verb has fewer steps.
func (w *world) try(v *verb, n *node, step int, f fault) (hit bool) {
	w.create(fmt.Sprintf("step-%d-%s", step, strings.ReplaceAll(string(f), " ", "-")), v)
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	n.gate.arm(step, f, cancel)
	told, replayed, err := v.call(ctx, n, w.b)
	hit = n.gate.disarm()
	kind := budget.CodeOf(err).Kind()
	died := hit && f != replyLost
	switch {
	case err == nil && replayed != nil && *replayed && !(hit && w.d == budget.Store && v.returns):
		// In store mode a rollback that repeats itself after a lost reply is answered as a replay.
		w.Errorf("the first call is answered as a replay: %s", told)
	case err != nil && !hit, err != nil && !died && kind != budget.NotDone && kind != budget.MayBeDone:
		w.Errorf("answered by %v", err)
	}
	w.repeat(v, told, err, died)
	w.settle(v)
	return hit
}

// repeat repeats a call through the other node until it is answered, and then once more. It
// compares the answers.
func (w *world) repeat(v *verb, told string, first error, died bool) {
	for round := range 2 {
		again, replayed, err := w.answered(v)
		switch {
		case err != nil:
			w.Errorf("repeated: %v", err)
		case replayed == nil:
		case first == nil && again != told:
			w.Errorf("told %s, and then %s", told, again)
		case (first == nil || round > 0) && !*replayed:
			w.Errorf("told %s, and the repeat is no replay", told)
		case round == 0 && *replayed && !died && budget.CodeOf(first).Kind() == budget.NotDone:
			w.Errorf("told that nothing was done (%v), and then %s", first, again)
		}
		if first == nil && told == "" || replayed == nil {
			return
		}
		first, told = nil, again
	}
}

// answered calls the verb through the other node until it has an answer.
func (w *world) answered(v *verb) (told string, replayed *bool, err error) {
	for range 100 {
		told, replayed, err = v.call(w.Context(), w.other, w.b)
		kind := budget.CodeOf(err).Kind()
		if err == nil || kind != budget.NotDone && kind != budget.MayBeDone {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return told, replayed, err
}

// settle runs the loops until no work is half done, and checks the books.
func (w *world) settle(v *verb) {
	w.quiet()
	b := w.audit()
	if b.Used != v.used || b.Held != v.held {
		w.Errorf("S is %d and H %d, want %d and %d", b.Used, b.Held, v.used, v.held)
	}
	if v.check != nil {
		v.check(w)
	}
	if !v.rest {
		return
	}
	left := b.Total - b.Used - b.Held - b.Quarantined - b.Forfeited
	request := bucket.DeductRequest{Budget: w.ref(), RequestID: "the rest", Amount: left}
	if a, err := w.other.Deduct(w.Context(), request); err != nil || a.Amount != left {
		w.Errorf("the rest, %d units, cannot be deducted: %v", left, err)
	}
	request.RequestID, request.Amount = "one more", 1
	if _, err := w.other.Deduct(w.Context(), request); !budget.Is(err, budget.BudgetExhausted) &&
		!budget.Is(err, budget.LegRefused) {
		w.Errorf("one more unit: %v", err)
	}
	w.quiet()
	w.audit()
}

// loops are the loops that finish half-done work.
var loops = []string{"store rollover", "store sync", "store epochs", "store shrinks", "shrinks",
	"rollover", "sweep", "settle", "holds", "recycle"}

// quiet runs the loops until no work is half done.
func (w *world) quiet() {
	var half []string
	var failed error
	for range 50 {
		failed = nil
		for _, name := range loops {
			if err := w.other.loop(w.Context(), name); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
			}
		}
		var err error
		half, err = auditor.HalfDone(w.Context(), w.s.rows)
		w.ok(err)
		if len(half) == 0 && failed == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.Errorf("work stays half done: %v, %v", half, failed)
}

// audit audits the database and the stores, and returns the books of the budget.
func (w *world) audit() *auditor.Budget {
	report, err := auditor.Audit(w.Context(), w.s.rows, map[string]auditor.Redis{
		"m": auditor.Server(w.s.redis), "n": auditor.Server(w.s.redis)})
	w.ok(err)
	for _, wrong := range report.Wrong {
		w.Error(wrong)
	}
	b := report.Budgets[w.b.Name]
	if b == nil {
		w.Fatalf("there is no budget %s", w.b.Name)
	}
	return b
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) ref() bucket.BudgetRef { return bucket.BudgetRef{ID: w.b.ID} }

// create creates the budget and prepares it.
func (w *world) create(name string, v *verb) {
	d := budget.Definition{Tenant: "default", Name: name, Unit: budget.Count, Type: budget.Promo,
		Durability: w.d, TotalQuantity: units, BucketQuantity: 3}
	if v.define != nil {
		v.define(&d)
	}
	made, _, err := w.other.Create(w.Context(), d)
	w.ok(err)
	w.b = w.reload(made.Definition.ID)
	if v.before != nil {
		v.before(w)
		w.b = w.reload(w.b.ID)
	}
}

func (w *world) reload(id int64) *bucket.Budget {
	b, err := w.other.budgets.Reload(w.Context(), id)
	w.ok(err)
	return b
}

// exec executes a statement on the database.
func (w *world) exec(query string, args ...any) {
	_, err := w.s.rows.ExecContext(w.Context(), query, args...)
	w.ok(err)
}

// limited gives each user 50 units a year.
func limited(d *budget.Definition) {
	d.RoutingDimension = "user"
	d.Limits = limit.Begin([]budget.Limit{{Name: "l", Dimension: "user", Max: 50, Enforce: true,
		Measure: budget.MeasureAmount, Window: budget.LimitWindow{Kind: budget.WindowCalendar,
			Every: budget.Year}}}, time.Now())
}
