package transfer

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/fragment"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/moves"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
)

const selectPeriodUnits = `SELECT funded_quantity + carried_quantity FROM budget_period
	WHERE budget_id = ? AND number = ?`

// Layout returns where a budget's units are. See transfer.Recycles.
func (p *Part) Layout(ctx context.Context, budgetID int64) (out transfer.Layout, err error) {
	err = p.db.Read(ctx, "layout", func(r *engine.Reader) error {
		b, err := rows.ReadBudget(r, "layout", budgetID)
		if err != nil {
			return err
		}
		l, err := readLayout(r, b, p.db.Now())
		if err != nil {
			return err
		}
		out = transfer.Layout{Status: b.Definition().StatusAt(p.db.Now()), Units: b.Undistributed,
			Least: l.least}
		for _, row := range l.fit {
			out.Holdings = append(out.Holdings, holding(row, l.used[row.Epoch.Bucket], p.db.Now()))
		}
		for i := range l.list {
			if l.list[i].Status == string(ledger.Open) {
				out.Units += l.list[i].Outstanding
			}
		}
		return nil
	})
	if err != nil {
		return transfer.Layout{}, err
	}
	return out, nil
}

// layout is where the units of a budget are, as of a read.
type layout struct {
	list  []rows.Bucket
	used  map[int64]bucket.Used
	least int64
	// fit are the buckets that a recycle may use, by ordinal; skipped counts the stopped ones.
	fit     []*rows.Bucket
	skipped int
}

// readLayout reads the buckets of a budget, and what they used recently.
func readLayout(r *engine.Reader, b *rows.Budget, now time.Time) (*layout, error) {
	l := &layout{}
	var err error
	if l.list, err = rows.Buckets(r, b.ID); err != nil {
		return nil, err
	}
	if l.used, err = demand(r, l.list); err != nil {
		return nil, err
	}
	var units int64 // of what the open period got: that is all that buckets share
	if _, err := r.Get(&units, selectPeriodUnits, b.ID, b.Period); err != nil {
		return nil, err
	}
	l.least = fragment.Least(units, b.Buckets, largest(l.used))
	l.choose(b)
	return l, nil
}

// choose selects the buckets that a recycle may use: those with an open epoch of the open period,
// and those that the service took offline.
func (l *layout) choose(b *rows.Budget) {
	l.fit, l.skipped = nil, 0
	for i := range l.list {
		row := &l.list[i]
		switch {
		case row.Live() && row.Halted != "":
			l.skipped++
		case row.MayTake(b), idle(row):
			l.fit = append(l.fit, row)
		}
	}
}

// shares returns what each fit bucket is to hold.
func (l *layout) shares(b *rows.Budget, now time.Time) []int64 {
	holdings := make([]fragment.Holding, len(l.fit))
	for i, row := range l.fit {
		holdings[i] = holding(row, l.used[row.Epoch.Bucket], now)
	}
	return fragment.Shares(b.Releasable(now)+fragment.Sum(holdings), holdings, l.least)
}

// StepRecycle recycles the next buckets of a run. See transfer.Recycles.
//
// A budget with at most transfer.MaxEpochs buckets takes one step, in which each bucket gives what
// is above its share and gets what is below it. Otherwise the run passes over the buckets twice:
// they give first, and get afterwards. next_ordinal counts through both passes.
func (p *Part) StepRecycle(ctx context.Context, budgetID, number int64) (
	out bucket.Recycle, err error) {
	err = p.db.Write(ctx, "recycle", func(t *engine.Tx) error {
		b, err := rows.LockBudget(t, "recycle", budgetID)
		if err != nil {
			return err
		}
		run, err := oneRun(t, selectRun, budgetID, number)
		if err != nil {
			return err
		}
		if run == nil {
			return budget.Refuse(budget.Internal, "recycle", "budget %d has no recycle %d",
				budgetID, number)
		}
		if run.IsOpen != nil {
			s := recycling{t: t, b: b, run: run}
			if err := s.step(); err != nil {
				return err
			}
		}
		out = run.recycle()
		return nil
	})
	if err != nil {
		return bucket.Recycle{}, err
	}
	return out, nil
}

// recycling is one step of a recycle. The budget is locked.
type recycling struct {
	t   *engine.Tx
	b   *rows.Budget
	run *runRow
	l   *layout
}

// step recycles the next buckets, and ends the run after the last.
func (s *recycling) step() (err error) {
	if s.b.IsOver == 0 && s.b.PeriodNow().OverAt(s.t.Now) {
		return budget.Refuse(budget.Unavailable, "recycle",
			"the period of budget %s is over: its rollover is next", s.b.Name)
	}
	if s.l, err = readLayout(&s.t.Reader, s.b, s.t.Now); err != nil {
		return err
	}
	n := len(s.l.fit)
	if s.b.IsOver == 1 || n == 0 {
		return s.end()
	}
	if n <= transfer.MaxEpochs {
		if err := rows.LockNewest(s.t, s.l.fit); err != nil {
			return err
		}
		if err := s.exchange(0, n, true, true); err != nil {
			return err
		}
		s.run.Buckets, s.run.Skipped = n, s.l.skipped
		return s.end()
	}
	return s.pass(n)
}

// pass takes or gives for the next transfer.MaxEpochs of more buckets.
func (s *recycling) pass(n int) error {
	giving := s.run.Next >= n
	from := s.run.Next % n
	to := min(from+transfer.MaxEpochs, n)
	if err := rows.LockNewest(s.t, s.l.fit[from:to]); err != nil {
		return err
	}
	if err := s.exchange(from, to, !giving, giving); err != nil {
		return err
	}
	s.run.Next += to - from
	if giving {
		s.run.Buckets += to - from
	}
	if s.run.Next >= 2*n {
		s.run.Skipped = s.l.skipped
		return s.end()
	}
	return s.note()
}

// exchange brings buckets from..to to their shares: take lowers those above, give raises those
// below. A bucket without a share goes offline unless it is the last one.
func (s *recycling) exchange(from, to int, take, give bool) error {
	shares := s.l.shares(s.b, s.t.Now)
	var surplus, short []moves.Portion
	var ended []*rows.Bucket
	for i, row := range s.l.fit[from:to] {
		share := shares[from+i]
		switch over := row.Outstanding - share; {
		case share == 0 && take && s.mayContract(row):
			if err := s.contract(row); err != nil {
				return err
			}
		case over > 0 && take:
			surplus = append(surplus, moves.Portion{Row: row, Units: over})
		case over < 0 && give:
			short = append(short, moves.Portion{Row: row, Units: -over})
			if !row.Live() {
				ended = append(ended, row)
			}
		}
	}
	if take {
		if err := s.take(surplus); err != nil {
			return err
		}
	}
	if !give {
		return nil
	}
	if err := moves.RestartCounts(s.t, s.l.fit[from:to]...); err != nil {
		return err
	}
	return s.give(short, ended)
}

// mayContract reports whether an empty bucket may go offline: it is online, and not the only one.
func (s *recycling) mayContract(row *rows.Bucket) bool {
	return row.ListStatus == rows.Online && row.Live() &&
		!moves.IsLast(s.t, s.b, s.l.list, row.Epoch.Bucket) && s.b.Unlimited == 0
}

// contract takes a bucket offline and returns its units to U.
func (s *recycling) contract(row *rows.Bucket) error {
	s.run.Moved += row.Outstanding
	return takeOffline(s.t, s.b, row, bucket.ByService)
}

// take moves what buckets have above their shares into U.
func (s *recycling) take(surplus []moves.Portion) error {
	if err := moves.Draw(s.t, surplus...); err != nil {
		return err
	}
	back := make([]moves.Coming, len(surplus))
	for i, p := range surplus {
		back[i] = moves.Coming{Row: &p.Row.Epoch, Never: p.Units}
		s.run.Moved += p.Units
	}
	return moves.ComeBack(s.t, s.b, back...)
}

// give moves units from U to buckets that have less than their shares, as far as U allows.
func (s *recycling) give(short []moves.Portion, ended []*rows.Bucket) error {
	left := s.b.Releasable(s.t.Now)
	var portions []moves.Portion
	sum := int64(0)
	for _, p := range short {
		if p.Units = min(p.Units, left-sum); p.Units <= 0 {
			continue
		}
		portions, sum = append(portions, p), sum+p.Units
	}
	if err := moves.Begin(s.t, "recycle", s.b, ended...); err != nil {
		return err
	}
	if err := moves.Give(s.t, s.b, moves.Again, portions...); err != nil {
		return err
	}
	return moves.Units(s.t, s.b, allocation.Movement{Undistributed: -sum})
}

// note writes the progress of the run.
func (s *recycling) note() error {
	r := s.run
	r.TouchedMS = max(engine.ToMS(s.t.Now), r.TouchedMS+1)
	return s.t.Hit(1, advanceRun, r.Next, r.Buckets, r.Skipped, r.Moved, r.TouchedMS, r.Budget,
		r.Number)
}

// end ends the run, and records where the units are now.
func (s *recycling) end() error {
	if err := s.note(); err != nil {
		return err
	}
	r := s.run
	after := transfer.Layout{Units: s.b.Undistributed, Least: s.l.least}
	s.l.choose(s.b)
	for _, row := range s.l.fit {
		after.Units += row.Outstanding
		after.Holdings = append(after.Holdings, holding(row, s.l.used[row.Epoch.Bucket], s.t.Now))
	}
	spread := after.Spread()
	r.UnitsAfter, r.StrandedAfter, r.IsOpen = spread.Units, spread.Stranded, nil
	r.EndedAt = engine.ToMS(s.t.Now)
	return s.t.Hit(1, endRun, r.UnitsAfter, r.StrandedAfter, r.EndedAt, r.Budget, r.Number)
}
