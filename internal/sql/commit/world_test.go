package commit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/internal/sql/commit"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// world is a database with a decider under test and one budget.
type world struct {
	*fixture.World
	decider *commit.Decider
	b       *bucket.Budget
	set     *limit.Set
}

// each runs a test on every engine with a budget whose total lies in its buckets in equal parts.
func each(t *testing.T, total int64, buckets int, limits []budget.Limit, run func(w *world)) {
	fixture.OnEveryEngine(t, func(f *fixture.World) {
		w := &world{World: f, decider: commit.New(f.DB)}
		w.b = w.budget("b", total, buckets, limits)
		run(w)
	})
}

// budget makes a budget.
func (w *world) budget(name string, total int64, buckets int, limits []budget.Limit) *bucket.Budget {
	w.Helper()
	made := w.Create(name, total, buckets)
	b := &bucket.Budget{Definition: budget.Definition{ID: made.ID, Name: name, Version: 1,
		BucketQuantity: buckets}}
	for _, id := range made.Buckets {
		b.Buckets = append(b.Buckets, bucket.Bucket{ID: id, Epoch: ledger.Epoch{Number: 1}})
	}
	b.Limits = limit.Begin(limits, w.DB.Now())
	set, err := limit.Compile(b.Limits)
	w.OK(err)
	w.set = set
	return b
}

// asks makes an operation on a bucket of the world's budget; each option changes it.
func (w *world) asks(at int, id string, amount int64, options ...func(*bucket.Operation)) bucket.Operation {
	op := bucket.Operation{Budget: w.b, Bucket: w.b.Buckets[at].ID, Request: ledger.Request{ID: id,
		Amount: amount, Nonce: "nonce-" + id[:1] + "."}}
	for _, option := range options {
		option(&op)
	}
	r := &op.Request
	r.Fingerprint = ledger.RequestFingerprint(amount, "", *r)
	if w.set != nil {
		op.Charges, _ = w.set.Charges(amount, ledger.ReadDimensions(r.Dimensions), nil)
	}
	return op
}

// of gives an operation dimensions.
func of(dimensions map[string]string) func(*bucket.Operation) {
	return func(op *bucket.Operation) { op.Request.Dimensions = ledger.Dimensions(dimensions) }
}

func user(name string) func(*bucket.Operation) { return of(map[string]string{"user": name}) }

// hold makes a hold of an operation, in a group unless that is "".
func hold(ttl time.Duration, group string) func(*bucket.Operation) {
	return func(op *bucket.Operation) {
		op.Request.HoldTTL, op.Request.Group = ttl.Milliseconds(), group
	}
}

func (w *world) commit(ops ...bucket.Operation) []bucket.Outcome {
	w.Helper()
	out, err := w.decider.Commit(w.Ctx, ops)
	w.OK(err)
	return out
}

// want commits operations and compares their verdicts.
func (w *world) want(want []bucket.Verdict, ops ...bucket.Operation) []bucket.Outcome {
	w.Helper()
	out := w.commit(ops...)
	w.verdicts(out, want...)
	return out
}

func (w *world) verdicts(out []bucket.Outcome, want ...bucket.Verdict) {
	w.Helper()
	got := make([]bucket.Verdict, len(out))
	for i := range out {
		got[i] = out[i].Verdict
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Fatalf("verdicts %v, want %v", got, want)
	}
}

// one is a list of one verdict.
func one(v bucket.Verdict) []bucket.Verdict { return []bucket.Verdict{v} }

// figure reads one number.
func (w *world) figure(query string, args ...any) (n int64) {
	w.Helper()
	w.OK(w.DB.Read(w.Ctx, "figure", func(r *engine.Reader) error {
		_, err := r.Get(&n, query, args...)
		return err
	}))
	return n
}

// perUser limits each user.
func perUser(name string, most int64, measure budget.Measure) budget.Limit {
	return budget.Limit{Name: name, Dimension: "user", Max: most, Measure: measure, Enforce: true,
		Optional: true, Window: budget.LimitWindow{Kind: budget.WindowCalendar, Every: budget.Year}}
}

// fixture names the world's budget as package fixture does.
func (w *world) fixture() fixture.Budget {
	out := fixture.Budget{ID: w.b.ID}
	for i := range w.b.Buckets {
		out.Buckets = append(out.Buckets, w.b.Buckets[i].ID)
	}
	return out
}

// readText reads one text.
func readText(w *world, to *string, query string, args ...any) error {
	return w.DB.Read(w.Ctx, "text", func(r *engine.Reader) error {
		found, err := r.Get(to, query, args...)
		if err == nil && !found {
			err = fmt.Errorf("nothing found")
		}
		return err
	})
}
