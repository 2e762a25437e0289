package hold

import (
	"cmp"
	"context"
	"slices"

	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/counters"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
	"github.com/budgetd/budgetd/limit"
)

// movement is a transaction that gives units back. It takes two round trips; one more for the rows
// of limits, and one more if the limits have changed since their last use.
type movement struct {
	ledger  *Ledger
	orders  []ledger.Order // on single deductions
	named   []books.ID     // those that the orders name
	budgets []int64        // of the deductions
	from    bookkeeper.Selection
	first   []bookkeeper.Query // lock the deductions and load what came back of them
	moves   bool               // units: extensions do not
	isGroup bool
	restart func() // makes from and budgets what they are before legs are known
	// lockBudgets means that an earlier attempt found limits that may have changed while a bucket is
	// offline.
	lockBudgets bool

	// Of one attempt:
	books  *books.Books
	sets   map[int64]*limit.Set // of the budgets that have limits; nil until all are known
	legs   bool                 // those of sets are loaded
	asked  bool                 // for limits
	placed bool
	failed error // to read what limits count
}

// ofOrders returns the movement of orders on single deductions, of which there is at least one.
func (l *Ledger) ofOrders(orders []ledger.Order) *movement {
	m := &movement{ledger: l, orders: orders}
	var ids []books.ID
	var earlier []books.BackID
	for i := range orders {
		o := &orders[i]
		ids = append(ids, books.ID{Budget: o.Budget, RequestID: o.RequestID})
		earlier = append(earlier, books.Earlier(o)...)
		m.moves = m.moves || o.Kind != ledger.OrderExtend
	}
	m.named = bookkeeper.SortedIDs(ids)
	m.restart = func() { m.of(m.named) }
	m.restart()
	m.first = append([]bookkeeper.Query{bookkeeper.Deductions(m.named)},
		bookkeeper.Given(m.from, earlier)...)
	return m
}

// of makes the movement one of deductions, which are sorted.
func (m *movement) of(ids []books.ID) {
	m.budgets = nil
	for _, id := range ids {
		m.budgets = append(m.budgets, id.Budget)
	}
	m.budgets = slices.Compact(m.budgets)
	m.from = bookkeeper.ByID(ids)
}

// legsOf returns the queries of the legs of sets whose owners are loaded. Nobody locks a leg
// without its owner, and all lock the owners first.
func (m *movement) legsOf(b *books.Books) ([]bookkeeper.Query, error) {
	if m.legs {
		return nil, nil
	}
	m.legs = true
	ids, err := b.LegsOf()
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	ids = bookkeeper.SortedIDs(ids)
	all := slices.Clone(ids)
	for _, d := range b.Deductions.All() {
		all = append(all, d.ID())
	}
	m.of(bookkeeper.SortedIDs(append(all, m.named...)))
	var earlier []books.BackID
	for i := range m.orders {
		for _, id := range ids {
			if books.IsLegOf(id, &m.orders[i]) {
				o := m.orders[i]
				o.Budget, o.RequestID = id.Budget, id.RequestID
				earlier = append(earlier, books.Earlier(&o)...)
			}
		}
	}
	more := []bookkeeper.Query{bookkeeper.Terms(m.budgets, &m.lockBudgets),
		bookkeeper.Deductions(ids)}
	more = append(more, bookkeeper.Given(bookkeeper.ByID(ids), earlier)...)
	if m.moves {
		places := bookkeeper.Places(m.from.Unlimited(m.budgets).WithExtras())
		more = append(more, places...)
	}
	return more, nil
}

// do loads the rows, decides and saves. decide runs once per attempt, when everything is loaded.
func (m *movement) do(ctx context.Context, op string, decide func(b *books.Books) error) error {
	m.restart()
	load := append([]bookkeeper.Query{bookkeeper.Terms(m.budgets, &m.lockBudgets)}, m.first...)
	if m.moves {
		load = append(load, bookkeeper.Places(m.from.Alone(m.budgets).WithExtras())...)
	}
	err := bookkeeper.Do(ctx, m.ledger.db, op, load,
		func(b *books.Books) ([]bookkeeper.Query, error) {
			if m.books != b {
				m.books, m.sets, m.asked, m.placed, m.failed = b, nil, false, false, nil
				m.legs = false
				m.restart()
			}
			if m.isGroup && !b.AreMembers() {
				return nil, engine.ErrAgain
			}
			if more, err := m.legsOf(b); more != nil || err != nil {
				return more, err
			}
			if m.moves && len(b.Deductions.All()) > 0 {
				if more, err := m.lacks(b); more != nil || err != nil {
					return more, err
				}
			}
			return nil, decide(b)
		})
	if m.ledger.Returned != nil && m.moves && err == nil {
		for _, id := range m.budgets {
			m.ledger.Returned(id)
		}
	}
	return err
}

// lacks returns the queries of the rows that are not loaded yet. Error: engine.ErrAgain if what was
// read without a lock is no longer true.
func (m *movement) lacks(b *books.Books) ([]bookkeeper.Query, error) {
	if more, err := m.limits(b); more != nil || err != nil {
		return more, err
	}
	keys, err := b.CountersToLock(m.orders, m.sets)
	if err = cmp.Or(m.failed, err); err != nil {
		return nil, err
	}
	loaded, still, unsure := b.Places()
	switch {
	case !m.placed && (!loaded || len(keys) > 0):
		m.placed = true
		more := bookkeeper.Counters(keys)
		more = append(more, counters.Overrides(b.OverridesToRead(m.orders, m.sets), &b.Bounds)...)
		return append(more, bookkeeper.Places(m.from.WithExtras())...), nil
	case !loaded:
		return nil, engine.Defect("a budget, bucket, epoch or period of a deduction is gone")
	case len(keys) > 0 && unsure && !m.lockBudgets:
		m.lockBudgets = true
		return nil, engine.ErrAgain
	case !still:
		return nil, engine.ErrAgain
	}
	spans, err := b.LimitsToLoad(m.orders, m.sets)
	return counters.EventsOf(spans, &m.failed), err
}

// limits finds the limits of the budgets that have any, cached or read now. They are those of the
// version that Terms read, or of a later one.
func (m *movement) limits(b *books.Books) ([]bookkeeper.Query, error) {
	if m.sets != nil {
		return nil, nil
	}
	sets := map[int64]*limit.Set{}
	var unknown []int64
	for _, u := range b.Budgets.All() {
		cached, known := m.ledger.sets.Get(u.ID)
		known = known && cached.Version == u.LimitsVersion && cached.overrides == u.OverridesVersion
		switch {
		case u.LimitsVersion == 0:
		case known:
			sets[u.ID] = cached.Set
		case !m.asked:
			unknown = append(unknown, u.ID)
		default:
			set, err := b.LimitsOf(u)
			if err != nil {
				return nil, err
			}
			sets[u.ID] = set
			m.ledger.sets.Add(u.ID, cachedSet{set, u.OverridesVersion})
		}
	}
	if unknown != nil {
		m.asked = true
		return []bookkeeper.Query{bookkeeper.LimitsOf(unknown)}, nil
	}
	m.sets = sets
	return nil, nil
}
