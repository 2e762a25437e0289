package row

import (
	"cmp"
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/ledger"
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

// readStandings reads O of the buckets of repeated deductions, and the sums of the budgets whose
// figures are too old for their answers.
func (s *Service) readStandings(ops []*op) {
	var old []*op
	for _, o := range ops {
		if o.Err, o.sum, o.standing = nil, nil, -1; o.old {
			old = append(old, o)
		}
	}
	buckets := distinct(ops, func(o *op) int64 { return o.reads })
	var found map[int64]int64
	err := s.sums(old, func(ctx context.Context, budgets []int64) (
		sums map[int64]ledger.Cover, err error) {
		found, sums, err = s.lookup.Standings(ctx, buckets, budgets)
		return sums, err
	})
	for _, o := range ops {
		o.Err = cmp.Or(o.Err, err)
		if outstanding, known := found[o.reads]; known {
			o.standing = outstanding
		}
		o.Back(true)
	}
}

// readCovers reads the sums of the operations' budgets twice, and then the rows of the operations
// (I3).
func (s *Service) readCovers(ops []*op) {
	ids := make([]bucket.ID, len(ops))
	for i, o := range ops {
		ids[i] = bucket.ID{Budget: o.Budget.ID, RequestID: o.Request.RequestID}
	}
	var recorded map[bucket.ID]ledger.Deduction
	_ = s.sums(ops, func(ctx context.Context, budgets []int64) (
		sums map[int64]ledger.Cover, err error) {
		sums, recorded, err = s.lookup.LookTwice(ctx, budgets, ids)
		return sums, err
	})
	for i, o := range ops {
		o.recorded = nil
		if d, known := recorded[ids[i]]; known {
			o.recorded = &d
		}
		o.Step = stepCovers
		o.Back(true)
	}
}

// readFigures reads the sums of the operations' budgets for answers.
func (s *Service) readFigures(ops []*op) {
	_ = s.sums(ops, func(ctx context.Context, budgets []int64) (map[int64]ledger.Cover, error) {
		return s.lookup.Covers(ctx, budgets, false)
	})
	for _, o := range ops {
		o.Step = stepFigures
		o.Back(true)
	}
}

// sums reads the sums of the operations' budgets. It returns the error of the read.
func (s *Service) sums(ops []*op,
	read func(ctx context.Context, budgets []int64) (map[int64]ledger.Cover, error)) error {
	ctx, cancel := s.bounded()
	defer cancel()
	began := s.clock.Now()
	spent := map[int64]int64{} // before the read begins
	for _, o := range ops {
		if _, known := spent[o.Budget.ID]; !known {
			spent[o.Budget.ID] = o.state.Spent.Load()
		}
	}
	covers, err := read(ctx, distinct(ops, func(o *op) int64 { return o.Budget.ID }))
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
	return err
}

// distinct returns the distinct keys of operations.
func distinct(ops []*op, key func(*op) int64) []int64 {
	seen := make(map[int64]struct{}, min(len(ops), 64))
	var keys []int64
	for _, o := range ops {
		k := key(o)
		if _, known := seen[k]; !known {
			seen[k] = struct{}{}
			keys = append(keys, k)
		}
	}
	return keys
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
