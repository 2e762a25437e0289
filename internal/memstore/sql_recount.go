package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// Spans reads epochs beside what their rows add up to. See bucket.Audits.
func (s *SQL) Spans(ctx context.Context, spans []bucket.Span) (map[bucket.Ref]ledger.SpanFigures, error) {
	return transact(ctx, s, "Spans", func(time.Time) (map[bucket.Ref]ledger.SpanFigures, error) {
		out := map[bucket.Ref]ledger.SpanFigures{}
		for _, span := range spans {
			e := s.epoch(span.Ref)
			if e == nil {
				continue
			}
			r := ledger.SpanFigures{Row: e.Epoch, Closed: e.closed, Swept: e.Swept}
			for i, g := range e.grants {
				add(int64(i)+1, g.amount, span.FromGrant, span.GrantSeq, &r.Granted, &r.GrantedAfter)
			}
			for seq, d := range e.deductions {
				add(seq, d.Amount, span.From, span.Seq, &r.Deducted, &r.DeductedAfter)
			}
			for seq, d := range e.duplicates {
				add(seq, d.Amount, span.From, span.Seq, &r.Deducted, &r.DeductedAfter)
			}
			out[span.Ref] = r
		}
		return out, nil
	})
}

// add adds units to within when their place is after from and not after upTo, to after when it is
// after upTo.
func add(place, units, from, upTo int64, within, after *int64) {
	if place > from && place <= upTo {
		*within += units
	}
	if place > upTo {
		*after += units
	}
}

// recounted is an answer of Recount.
type recounted struct {
	bucket.Recounted
	found bool
}

// Recount adds up the rows of a part. See bucket.Audits.
func (s *SQL) Recount(ctx context.Context, part bucket.Part) (bucket.Recounted, bool, error) {
	r, err := transact(ctx, s, "Recount", func(time.Time) (recounted, error) {
		e := s.epoch(part.Ref)
		if e == nil {
			return recounted{}, nil
		}
		return recounted{e.recount(part), true}, nil
	})
	return r.Recounted, r.found, err
}

func (e *sqlEpoch) recount(part bucket.Part) bucket.Recounted {
	var out bucket.Recounted
	f, within := &out.Figures, map[string]bool{}
	for seq, d := range e.deductions {
		if seq > part.From && seq <= part.UpTo {
			f.Deducted += d.Amount
			f.Noted += d.RolledBack
			within[d.RequestID] = true
		}
	}
	for seq, d := range e.duplicates {
		if seq > part.From && seq <= part.UpTo {
			f.Duplicates += d.Amount
		}
	}
	b := e.bucket.budget
	for _, r := range b.rollbacks {
		if within[r.RequestID] {
			out.Returned += r.Amount
		}
		if d := b.deductions[r.RequestID]; part.End && d.Position.Bucket == e.Bucket &&
			d.Position.Epoch == e.Number {
			f.RolledBack += r.Amount
		}
	}
	for _, h := range b.holdEnds {
		if within[h.RequestID] {
			out.Returned += h.Returned
		}
		if d := b.deductions[h.RequestID]; part.End && d.Position.Bucket == e.Bucket && d.Position.Epoch == e.Number {
			f.RolledBack += h.Returned
		}
	}
	if part.End {
		f.Held = e.heldUnits()
		f.Row, f.Closed, f.Granted = e.Epoch, e.closed, e.count().Granted
	}
	return out
}

// EpochsAfter lists epochs of all budgets. See bucket.Audits.
func (s *SQL) EpochsAfter(ctx context.Context, after bucket.Ref, limit int) ([]bucket.EpochOf, error) {
	return transact(ctx, s, "EpochsAfter", func(time.Time) ([]bucket.EpochOf, error) {
		return s.list(limit, func(e *sqlEpoch) bool {
			return e.Bucket > after.Bucket || e.Bucket == after.Bucket && e.Number > after.Epoch
		}), nil
	})
}

// Books reads budgets in the order of their ids. See bucket.Audits.
func (s *SQL) Books(ctx context.Context, after int64, limit int) ([]bucket.Book, error) {
	return transact(ctx, s, "Books", func(time.Time) ([]bucket.Book, error) {
		var out []bucket.Book
		for _, b := range s.budgets {
			if d := &b.definition; d.ID > after && len(out) < limit {
				out = append(out, bucket.Book{Budget: d.ID, Tenant: d.Tenant, Name: d.Name,
					Durability: d.Durability, Unlimited: d.Unlimited, Figures: b.figures(), Adjusted: b.adjusted(), Shrinks: b.waiting()})
			}
		}
		return out, nil
	})
}

// Stranded sums what cannot be reached. See bucket.Audits.
func (s *SQL) Stranded(ctx context.Context, lanes []bucket.Lane) (int64, error) {
	return transact(ctx, s, "Stranded", func(time.Time) (units int64, err error) {
		for _, shard := range s.buckets {
			e := shard.newest()
			if !shard.budget.definition.Unlimited && (e.Fenced != "" || slices.Contains(lanes, shard.Lane)) {
				units += e.Outstanding // 0 once it has ended
			}
		}
		return units, nil
	})
}
