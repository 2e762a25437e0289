package crashpoints

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/ledger"
)

// spoiled is a discrepancy of one unit in one bucket.
type spoiled struct {
	name string
	// store and rows change what is read of the bucket's first epoch; nil: nothing.
	store func(*bucket.Balance)
	rows  func(*ledger.SpanFigures, *ledger.EpochFigures)
	// once changes the store itself.
	once func(*promise, bucket.Lane, *memstore.EpochRow) error
}

var spoils = []spoiled{
	{name: "balance in the store", store: func(b *bucket.Balance) { b.Balance++ }},
	{name: "granted in the store", store: func(b *bucket.Balance) { b.Granted++ }},
	{name: "balance and sum in the store", store: func(b *bucket.Balance) { b.Balance--; b.Deducted++ }},
	{name: "balance and grants in the store", store: func(b *bucket.Balance) { b.Balance++; b.Granted++ }},
	{name: "outstanding", rows: func(s *ledger.SpanFigures, e *ledger.EpochFigures) {
		s.Row.Outstanding++
		e.Row.Outstanding++
	}},
	{name: "used", rows: func(s *ledger.SpanFigures, e *ledger.EpochFigures) {
		s.Row.Used++
		e.Row.Used++
	}},
	{name: "the amount of an old deduction", rows: func(_ *ledger.SpanFigures, e *ledger.EpochFigures) {
		e.Deducted++
	}},
	{name: "what a deduction noted as rolled back", rows: func(_ *ledger.SpanFigures, e *ledger.EpochFigures) {
		e.Noted++
	}},
	{name: "an entry of the log", once: func(p *promise, at bucket.Lane, e *memstore.EpochRow) error {
		const far = 1_000_000
		p.servers[at.Instance].Forge(at.Index, e.Bucket, e.Number, far)
		return nil
	}},
	{name: "a grant that nobody made", once: func(p *promise, at bucket.Lane, e *memstore.EpochRow) error {
		ctx, store := context.Background(), p.servers[at.Instance].Connect()
		who, err := store.Identity(ctx, at)
		if err == nil {
			err = store.Activate(ctx, at, who, e.Activation)
		}
		if err == nil {
			_, err = store.Grant(ctx, at, []bucket.GrantOrder{{Number: e.NextGrant, Amount: 1,
				Ref: bucket.Ref{Bucket: e.Bucket, Epoch: e.Number, Activation: e.Activation}}})
		}
		return err
	}},
}

// spoiler shows a node a bucket's first epoch as it is not, from an instant.
type spoiler struct {
	spoiled
	bucket atomic.Int64
}

func (s *spoiler) of(ref bucket.Ref) bool { return ref.Epoch == 1 && ref.Bucket == s.bucket.Load() }

// spoiledStore and spoiledRows are where a spoiler stands.
type (
	spoiledStore struct {
		bucket.Instance
		*spoiler
	}
	spoiledRows struct {
		bucket.SQL
		*spoiler
	}
)

// Balances reads balances. See bucket.Log.
func (s spoiledStore) Balances(ctx context.Context, at bucket.Lane, refs []bucket.Ref) ([]bucket.Balance, error) {
	out, err := s.Instance.Balances(ctx, at, refs)
	for i := range out {
		if s.store != nil && s.of(refs[i]) {
			s.store(&out[i])
		}
	}
	return out, err
}

// Spans reads what a store is compared with. See bucket.Audits.
func (s spoiledRows) Spans(ctx context.Context, spans []bucket.Span) (map[bucket.Ref]ledger.SpanFigures, error) {
	out, err := s.SQL.Spans(ctx, spans)
	for ref, figures := range out {
		if s.rows != nil && s.of(ref) {
			s.rows(&figures, &ledger.EpochFigures{})
			out[ref] = figures
		}
	}
	return out, err
}

// Recount adds up rows. See bucket.Audits.
func (s spoiledRows) Recount(ctx context.Context, part bucket.Part) (bucket.Recounted, bool, error) {
	out, found, err := s.SQL.Recount(ctx, part)
	if s.rows != nil && s.of(part.Ref) {
		s.rows(&ledger.SpanFigures{}, &out.Figures)
	}
	return out, found, err
}

// fenced lists the buckets of which an epoch is or was fenced, of all budgets.
func (p *promise) fenced() (ids []int64) {
	for _, b := range p.model.Tables().Budgets {
		for _, bk := range b.Buckets {
			if slices.ContainsFunc(bk.Epochs, func(e memstore.EpochRow) bool { return e.Fenced != "" }) {
				ids = append(ids, bk.Bucket.ID)
			}
		}
	}
	return ids
}

// TestOneUnitIsSeenInTime: one unit too many or too few fences its bucket in time, and no other one, of this
// budget or another, while deductions go on.
func TestOneUnitIsSeenInTime(t *testing.T) {
	c := shipped(t)
	longest := map[string]time.Duration{}
	for _, one := range spoils {
		for phase := range phases {
			synctest.Test(t, func(t *testing.T) {
				s := &spoiler{spoiled: one}
				var fencedAt atomic.Int64
				p := shippedWorld(t, &c, func(p *promise, node *bucket.Config) {
					count := p.trace.written
					p.trace.written = func(method string) {
						if method == "Fence" {
							fencedAt.CompareAndSwap(0, time.Now().UnixNano())
						}
						count(method)
					}
					node.SQL = spoiledRows{node.SQL, s}
					for instance := range node.Instances {
						node.Instances[instance] = spoiledStore{node.Instances[instance], s}
					}
				})
				defer p.over(t)
				neighbour := p.definition()
				neighbour.Name = "neighbour"
				if _, _, err := p.node.Create(t.Context(), neighbour); err != nil {
					t.Fatal(err)
				}
				p.used(phase)
				victim := p.row().Buckets[1]
				if got := p.fenced(); len(got) > 0 {
					t.Fatalf("%s: buckets %v are fenced before", one.name, got)
				}
				began := time.Now()
				s.bucket.Store(victim.Bucket.ID)
				if one.once != nil {
					if err := one.once(p, victim.Bucket.Lane, victim.Newest()); err != nil {
						t.Fatal(err)
					}
				}
				const goesOn = 3 * fencedWithin
				for ; time.Since(began) < goesOn; time.Sleep(20 * time.Millisecond) {
					p.asked++
					_, _ = p.deduct(t.Context(), p.node, fmt.Sprint("asked ", p.asked), 1, p.key(p.asked))
				}
				took := time.Unix(0, fencedAt.Load()).Sub(began)
				if got := p.fenced(); took > fencedWithin || !slices.Equal(got, []int64{victim.Bucket.ID}) {
					t.Errorf("%s, phase %d: buckets %v are fenced after %s, want %d alone within %s", one.name, phase, got,
						took, victim.Bucket.ID, fencedWithin)
				}
				longest[one.name] = max(longest[one.name], took)
			})
		}
	}
	t.Logf("fenced at the latest after: %v", longest)
}
