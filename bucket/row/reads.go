package row

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/bucket/deduct"
)

// reads are the grouped reads of a node. One statement of each kind runs at a time and serves every
// operation that waited when it began.
type reads struct {
	// standings reads O of buckets. covers reads I3's sums and the rows that a refusal
	// needs. ids reads rows. limits reads how far limits are used. figures reads sums for answers.
	standings, covers, ids, limits, figures *batch.Queue[*op]
}

// readSize bounds the operations that one statement serves.
const readSize = 1000

func (s *Service) newReads() reads {
	queue := func(run func([]*op)) *batch.Queue[*op] {
		return batch.New(batch.Config[*op]{Run: run, Refuse: (*op).Overload, Owner: (*op).Owner,
			Size: readSize, Bound: s.set.Queue})
	}
	return reads{
		standings: queue(s.readStandings),
		covers:    queue(s.readCovers),
		figures:   queue(s.readFigures),
		ids:       queue(s.readIDs),
		limits:    queue(s.readLimits),
	}
}

// readStandings reads O of the buckets of repeated deductions.
func (s *Service) readStandings(ops []*op) {
	ctx, cancel := s.bounded()
	defer cancel()
	found, err := distinct(ctx, ops, func(o *op) int64 { return o.reads }, s.lookup.Standings)
	if err != nil {
		s.failed("sql", err)
	}
	for _, o := range ops {
		outstanding, known := found[o.reads]
		if o.standing = outstanding; !known {
			o.standing = -1
		}
		o.Err = err
		o.Back(true)
	}
}

// readCovers reads the sums of the operations' budgets without locks. It reads the sums that do not
// cover their operations again with locks (I3), and then the rows of the operations that are still
// not covered.
func (s *Service) readCovers(ops []*op) {
	left := ops
	for _, exact := range []bool{false, true} {
		s.sums(left, exact)
		if left = uncovered(left); len(left) == 0 {
			break
		}
	}
	s.rows(left)
	for _, o := range ops {
		o.Step = stepCovers
		o.Back(true)
	}
}

// uncovered returns the operations whose amounts are above their budgets' sums.
func uncovered(ops []*op) (out []*op) {
	for _, o := range ops {
		if o.Err == nil && o.sum.Sum() < o.Request.Amount {
			out = append(out, o)
		}
	}
	return out
}

// readFigures reads the sums of the operations' budgets for answers.
func (s *Service) readFigures(ops []*op) {
	s.sums(ops, false)
	for _, o := range ops {
		o.Step = stepFigures
		o.Back(true)
	}
}

// sums reads the sums of the operations' budgets.
func (s *Service) sums(ops []*op, exact bool) {
	ctx, cancel := s.bounded()
	defer cancel()
	began := s.clock.Now()
	spent := map[int64]int64{} // before the read begins
	for _, o := range ops {
		if _, known := spent[o.Budget.ID]; !known {
			spent[o.Budget.ID] = o.state.Spent.Load()
		}
	}
	covers, err := distinct(ctx, ops, func(o *op) int64 { return o.Budget.ID },
		func(ctx context.Context, ids []int64) (map[int64]bucket.Cover, error) {
			return s.lookup.Covers(ctx, ids, exact)
		})
	if err != nil {
		s.failed("sql", err)
	}
	sums := make(map[int64]*deduct.Sum, len(covers))
	for _, o := range ops {
		id := o.Budget.ID
		cover, known := covers[id]
		if known && sums[id] == nil {
			sums[id] = &deduct.Sum{Cover: cover, At: began, Spent: spent[id]}
			o.state.Note(sums[id])
		}
		o.Err, o.sum = err, sums[id]
		if err == nil && !known {
			o.Err = notFound(o.Budget)
		}
	}
}

// distinct calls read with the distinct keys of the operations.
func distinct[V any](ctx context.Context, ops []*op, key func(*op) int64,
	read func(context.Context, []int64) (map[int64]V, error)) (map[int64]V, error) {
	seen := make(map[int64]struct{}, min(len(ops), 64))
	var keys []int64
	for _, o := range ops {
		k := key(o)
		if _, known := seen[k]; !known {
			seen[k] = struct{}{}
			keys = append(keys, k)
		}
	}
	return read(ctx, keys)
}

// readIDs reads the rows of the operations' ids.
func (s *Service) readIDs(ops []*op) {
	s.rows(ops)
	for _, o := range ops {
		o.Step = stepIDs
		o.Back(true)
	}
}

func (s *Service) rows(ops []*op) {
	if len(ops) == 0 {
		return
	}
	ctx, cancel := s.bounded()
	defer cancel()
	ids := make([]bucket.ID, len(ops))
	for i, o := range ops {
		ids[i] = bucket.ID{Budget: o.Budget.ID, RequestID: o.Request.RequestID}
	}
	found, err := s.lookup.Recorded(ctx, ids)
	if err != nil {
		s.failed("sql", err)
	}
	for i, o := range ops {
		o.Err, o.recorded = err, nil
		if d, known := found[ids[i]]; known {
			o.recorded = &d
		}
	}
}

// readLimits reads which limits the operations would exceed.
func (s *Service) readLimits(ops []*op) {
	ctx, cancel := s.bounded()
	defer cancel()
	rows := make([]bucket.Operation, len(ops))
	for i, o := range ops {
		rows[i] = o.operation()
	}
	exceeded, err := s.lookup.Exceeded(ctx, rows)
	if err != nil {
		s.failed("sql", err)
	}
	for i, o := range ops {
		o.Step, o.Err, o.exceeded = stepLimits, err, nil
		if err == nil {
			o.exceeded = exceeded[i]
		}
		o.Back(true)
	}
}
