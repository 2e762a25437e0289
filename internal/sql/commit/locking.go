package commit

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/counters"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/internal/sql/rows"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
	"github.com/budgetd/budgetd/limit"
)

const (
	selectGroups = `SELECT d.budget_id, d.hold_group, d.state FROM group_of_holds d /*by PRIMARY*/
		WHERE `
	inGroupOrder = ` ORDER BY d.budget_id, d.hold_group`
	writePage    = `UPDATE limit_counter SET version = ?, counts = ?, expires_ms = ?
		WHERE budget_id = ? AND dimension = ? AND value = ?`
	// deleteTombstone frees an id for a deduction of a principal for which it is not void.
	deleteTombstone = `DELETE FROM deduction
		WHERE budget_id = ? AND request_id = ? AND bucket_id = 0`
	insertFeed = `INSERT INTO feed (bucket_id, first_entry, entries, units, body, created_at)`
)

// locking is a trial whose rows are loaded under their locks, in one round trip.
type locking struct {
	trial
	// server says that the database is one: it has other writers, and takes lists of several
	// budgets' ids.
	server bool
	// guess assumes that every id is new, which only works without other writers: a row that exists
	// fails the insert.
	guess bool
	// whole are the queries of the budget and of its buckets and epochs, for Bring.
	whole []bookkeeper.Query

	loaded *books.Books
	counts map[counters.Key]*counters.Row
	failed error
}

// lockingForm judges a flight under all of its locks and writes the accepted operations.
func (d *Decider) lockingForm(ctx context.Context, f *flight, guess bool) error {
	l := &locking{trial: trial{flight: f}, server: d.db.TakesPackets(), guess: guess}
	return bookkeeper.DoAnd(ctx, d.db, "commit",
		func(m *engine.Move, b *books.Books) ([]bookkeeper.Query, error) {
			if more, err := l.load(m, b); more != nil || err != nil {
				return more, err
			}
			if err := l.takeEpochs(b); err != nil {
				return nil, err
			}
			l.judgeAll()
			if l.guess && l.accepted < len(f.ops) {
				return nil, errGuessed
			}
			l.takeUnits(b)
			l.remaining()
			return nil, nil
		}, l.write)
}

// errGuessed means that not every operation of a flight was accepted, so their ids must be read.
var errGuessed = &budget.Error{Code: budget.Internal, Message: "an id that may be recorded"}

// load returns the queries of a new attempt, and nil once they are answered. A limit that was
// changed is then counted from the ledger.
func (l *locking) load(m *engine.Move, b *books.Books) ([]bookkeeper.Query, error) {
	if l.loaded != b {
		l.loaded, l.failed = b, nil
		return l.queries(b), nil
	}
	if l.failed != nil {
		return nil, l.failed
	}
	for _, row := range l.counts {
		l.limits.put(row)
	}
	if !l.server {
		b.ClockMS = b.NowMS
	}
	l.nowMS = l.limits.now(l.nowMS)
	stale := l.limits.usage(l.flight, l.nowMS)
	if len(stale) == 0 {
		return nil, nil
	}
	return nil, m.Read(func(r *engine.Reader) error {
		for _, s := range stale {
			if err := counters.Load(r, s.row.Key.Budget, &s.usage.Usage); err != nil {
				return err
			}
		}
		return nil
	})
}

// queries returns what is loaded, in lock order: budget, deductions, groups, limit rows, epochs.
func (l *locking) queries(b *books.Books) (out []bookkeeper.Query) {
	l.trial = trial{flight: l.flight, nowMS: b.NowMS, groups: groupsOf(l.flight)}
	l.limits.open(l.flight)
	clear(l.out)
	if l.whole != nil {
		out = append(out, l.whole[0])
	}
	if !l.guess {
		l.known = map[bucket.ID]ledger.Deduction{}
		out = append(out,
			rows.DeductionsOf(l.ids(all), rows.Locked, l.server, l.known, &l.failed)...)
	}
	out = append(out, l.groupRows()...)
	l.counts = map[counters.Key]*counters.Row{}
	out = append(out, counters.Queries(l.limits.keys(), rows.Locked, l.counts, &l.failed)...)
	out = append(out, counters.Overrides(l.limits.overrides(l.flight), &l.limits.bounds)...)
	if l.whole != nil {
		out = append(out, l.whole[1:]...)
	} else {
		out = append(out, bookkeeper.NewestOf(l.buckets(), l.server)...)
	}
	if l.server {
		out = append(out, bookkeeper.Clock)
	}
	return out
}

// groupRows locks the groups of the operations. A group without a row is open.
func (l *locking) groupRows() (out []bookkeeper.Query) {
	ids := make([]bucket.ID, 0, len(l.groups))
	for key := range l.groups {
		ids = append(ids, bucket.ID{Budget: key.budget, RequestID: key.name})
	}
	slices.SortFunc(ids, rows.CompareIDs)
	for chunk := range rows.Chunks(ids, l.server) {
		out = append(out, func(s *engine.Statement, _ *books.Books) (any, func()) {
			var found []struct {
				Budget int64  `db:"budget_id"`
				Name   string `db:"hold_group"`
				State  string `db:"state"`
			}
			s.SQL(selectGroups)
			s.IDs("d.budget_id, d.hold_group", chunk)
			s.SQL(inGroupOrder + rows.Locked)
			return &found, func() {
				for _, row := range found {
					g := l.groups[groupKey{row.Budget, row.Name}]
					g.exists, g.open = true, row.State == string(ledger.GroupOpen)
				}
			}
		})
	}
	return out
}

// groupsOf returns the groups of a flight's operations as if none had a row.
func groupsOf(f *flight) map[groupKey]*group {
	var out map[groupKey]*group
	for i := range f.ops {
		key, is := groupOf(&f.ops[i])
		if !is {
			continue
		}
		if out == nil {
			out = map[groupKey]*group{}
		}
		out[key] = &group{open: true}
	}
	return out
}

// takeEpochs takes the locked epochs of the flight's buckets. It returns engine.ErrAgain if a
// bucket began another one before this one was locked.
func (l *locking) takeEpochs(b *books.Books) error {
	l.epochs = make(map[int64]*bucketState, len(b.Epochs.All()))
	for _, e := range b.Epochs.All() {
		l.epochs[e.Bucket] = &bucketState{epoch: *e, left: e.Outstanding, nowMS: b.ClockMS}
		if row := b.Buckets.Get(e.Bucket); !e.Live() && row != nil && row.Epoch != e.Number {
			return engine.ErrAgain
		}
	}
	b.Unlimited = map[int64]bool{}
	for i := range l.ops {
		of := l.ops[i].Budget
		if s := l.epochs[l.ops[i].Bucket]; s != nil && of.Unlimited {
			s.unlimited, b.Unlimited[of.ID] = true, true
		}
	}
	return nil
}

// takeUnits moves what the accepted operations take within their epochs.
func (l *locking) takeUnits(b *books.Books) {
	for _, s := range l.taken() {
		e := b.Epochs.Get(s.epoch.Position())
		e.Outstanding = s.left
		e.Used = saturated(e.Used, s.used)
		e.Held = saturated(e.Held, s.held)
		e.NextEntry += s.entries
	}
}

// write writes the accepted operations. All locks are held.
func (l *locking) write(m *engine.Move) error {
	if l.accepted == 0 {
		return nil
	}
	for _, id := range l.freed {
		s := m.Statement()
		s.Fill(deleteTombstone, func(at int) {
			s.Value([]any{id.Budget, []byte(id.RequestID)}[at])
		})
		m.Save(s)
	}
	if err := l.insertRows(m.Inserting); err != nil {
		return err
	}
	var added []groupKey
	for _, key := range l.joinedGroups() {
		if !l.groups[key].exists {
			added = append(added, key)
		}
	}
	if err := l.insertGroups(m.Inserting, added, ""); err != nil {
		return err
	}
	if err := l.writePages(m); err != nil {
		return err
	}
	states := l.taken()
	to := m.Inserting(insertFeed, "", len(states))
	for _, s := range states {
		to.Row()
		to.Number(s.epoch.Bucket)
		to.Number(s.epoch.NextEntry)
		to.Number(s.entries)
		to.Number(s.used + s.held)
		to.Bytes(string(s.body))
		to.Number(l.nowMS)
	}
	return to.End()
}

// writePages writes the limit rows in which something was counted.
func (l *locking) writePages(m *engine.Move) error {
	existing, added := l.limits.close()
	if l.server {
		if err := l.insertLimitRows(m.Inserting, existing, orChanged); err != nil {
			return err
		}
		existing = nil
	}
	for _, p := range existing {
		s := m.Statement()
		s.Fill(writePage, func(at int) {
			s.Value([]any{l.nextVersion(p), []byte(p.packed), p.Counts.ExpiresMS(),
				p.Key.Budget, []byte(p.Key.Dimension), []byte(p.Key.Value)}[at])
		})
		m.Save(s)
	}
	return l.insertLimitRows(m.Inserting, added, "")
}

// saturated adds to S or H. For an unlimited budget both stop at budget.MaxAmount; each term is at
// most what one flight takes.
func saturated(before, more int64) int64 {
	return min(limit.Plus(before, more), budget.MaxAmount)
}
