package manage

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/internal/sql/rows"
	"github.com/budgetd/budgetd/ledger/books"
)

const (
	// GaugesEvery is the interval, with jitter, of Gauges.RunOnce: figures are at most a second old
	// plus the time of their read.
	GaugesEvery = 600 * time.Millisecond
	// gaugesAsked is for how long a name that was asked for is read again.
	gaugesAsked = 10 * time.Second
	// gaugesOld is the age beyond which a figure is not known any more: the database does not answer.
	gaugesOld = 3 * time.Second
	// mostGauges bounds the names that a node reads, mostOfTenant those of one tenant. Names beyond
	// that stay unknown until others have not been asked for ten seconds.
	mostGauges, mostOfTenant = 10_000, 2_500
)

// Gauges has what budgets have left, for pages that list many. A call reads nothing: names that
// were asked for in the last ten seconds are read together, about twice in a second. Call
// NewGauges. It is safe for concurrent use.
type Gauges struct {
	// Unreachable lists the partitions whose stores do not answer. It may be nil.
	Unreachable func() []bucket.Partition

	ledger *Ledger
	mu     sync.RWMutex
	known  map[string]map[string]*gauge // by tenant and name
	names  int
}

// gauge is a name that was asked for. read is nil while it is not known, and for a name without a
// budget.
type gauge struct {
	askedMS atomic.Int64
	read    atomic.Pointer[bucket.Gauge]
}

// NewGauges returns gauges that know no name yet.
func NewGauges(l *Ledger) *Gauges {
	return &Gauges{ledger: l, known: map[string]map[string]*gauge{}}
}

// Gauges appends what budgets of a tenant have left, in the order of their names. An element is nil
// if that is not known yet, and if there is no such budget. It never waits and has no errors.
func (g *Gauges) Gauges(to []*bucket.Gauge, tenant string, names []string) []*bucket.Gauge {
	now := g.ledger.db.Now()
	nowMS, unknown := now.UnixMilli(), []string(nil)
	g.mu.RLock()
	of := g.known[tenant]
	for _, name := range names {
		var read *bucket.Gauge
		if known := of[name]; known == nil {
			unknown = append(unknown, name)
		} else {
			known.askedMS.Store(nowMS)
			if read = known.read.Load(); read != nil && now.Sub(read.AsOf) > gaugesOld {
				read = nil
			}
		}
		to = append(to, read)
	}
	g.mu.RUnlock()
	if len(unknown) > 0 {
		g.note(tenant, unknown, nowMS)
	}
	return to
}

// note remembers names that were asked for, as far as there is room.
func (g *Gauges) note(tenant string, names []string, nowMS int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.known[tenant]
	if of == nil {
		of = map[string]*gauge{}
		g.known[tenant] = of
	}
	for _, name := range names {
		if of[name] != nil || g.names >= mostGauges || len(of) >= mostOfTenant {
			continue
		}
		one := new(gauge)
		one.askedMS.Store(nowMS)
		of[strings.Clone(name)] = one
		g.names++
	}
}

// asked returns the names that were asked for lately, and forgets the others.
func (g *Gauges) asked() map[bucket.BudgetRef]*gauge {
	since := g.ledger.db.Now().Add(-gaugesAsked).UnixMilli()
	out := map[bucket.BudgetRef]*gauge{}
	g.mu.Lock()
	defer g.mu.Unlock()
	for tenant, of := range g.known {
		for name, known := range of {
			if known.askedMS.Load() < since {
				delete(of, name)
				g.names--
				continue
			}
			out[bucket.BudgetRef{Tenant: tenant, Name: name}] = known
		}
		if len(of) == 0 {
			delete(g.known, tenant)
		}
	}
	return out
}

// RunOnce reads all names that were asked for lately. Error: Unavailable.
func (g *Gauges) RunOnce(ctx context.Context) error {
	asked := g.asked()
	if len(asked) == 0 {
		return nil
	}
	var unreachable []bucket.Partition
	if g.Unreachable != nil {
		unreachable = g.Unreachable()
	}
	read, err := g.ledger.gauges(ctx, asked, unreachable)
	if err != nil {
		return err
	}
	for ref, known := range asked {
		known.read.Store(read[ref])
	}
	return nil
}

const selectNamed = `SELECT ` + rows.BudgetColumns + ` FROM budget_management_bucket WHERE `

// gauges reads budgets by name, all in one snapshot. Names without a budget are omitted.
func (l *Ledger) gauges(ctx context.Context, asked map[bucket.BudgetRef]*gauge,
	unreachable []bucket.Partition) (map[bucket.BudgetRef]*bucket.Gauge, error) {
	names := make([][]any, 0, len(asked))
	for ref := range asked {
		names = append(names, []any{[]byte(ref.Tenant), []byte(ref.Name)})
	}
	out := make(map[bucket.BudgetRef]*bucket.Gauge, len(asked))
	err := l.db.Read(ctx, "gauges", func(r *engine.Reader) error {
		now := l.db.Now()
		for chunk := range slices.Chunk(names, engine.ListChunk) {
			var read []books.Budget
			s := r.Statement()
			s.SQL(selectNamed)
			s.Tuples([]string{"tenant", "name"}, chunk)
			if err := r.RowsOf(&read, s); err != nil {
				return err
			}
			ids := make([]int64, len(read))
			for i := range read {
				ids[i] = read[i].ID
			}
			figures, err := figuresByID(r, ids)
			if err != nil {
				return err
			}
			away := map[int64]bucket.Away{}
			if len(unreachable) > 0 && len(ids) > 0 {
				if err := addAway(r, away, ids, unreachable); err != nil {
					return err
				}
			}
			for i := range read {
				d := read[i].Definition()
				v := viewOf(d, figures[d.ID])
				if d.Durability == budget.Store {
					v.Away = away[d.ID]
				}
				v.At(now)
				out[bucket.BudgetRef{Tenant: d.Tenant, Name: d.Name}] = v.Gauge(now)
			}
		}
		return nil
	})
	return out, err
}
