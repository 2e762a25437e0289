package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
)

// sqlDeparture is a row of departure.
type sqlDeparture struct {
	lane    bucket.Lane
	ref     bucket.Ref // the activation is the lane's when the bucket left
	cleared bool
}

func (s *SQL) draining(lane bucket.Lane) bool { return s.lanes[lane] != nil && s.lanes[lane].Draining }

// fit returns why no epoch can begin on a lane.
func (s *SQL) fit(op string, lane bucket.Lane) error {
	switch {
	case s.lanes[lane] == nil:
		return unknownLane(op, lane)
	case s.draining(lane):
		return &budget.Error{Code: budget.Unavailable, Op: op, RetryAfter: time.Second,
			Message: "lane " + lane.String() + " is being drained", Err: bucket.ErrDraining}
	}
	return nil
}

// mayBegin reports whether a bucket can get another epoch where it is.
func (s *SQL) mayBegin(b *sqlBucket) bool {
	return b.OfflineBy != bucket.ByResize && !b.budget.halted() && !s.draining(b.Lane)
}

// mayApply reports whether the bucket may apply for units, now or when the service brings it back.
func (b *sqlBucket) mayApply() bool {
	return b.OfflineBy != bucket.ByOperator && b.OfflineBy != bucket.ByResize
}

// KnownLanes reads the rows of all lanes. See bucket.Departures.
func (s *SQL) KnownLanes(ctx context.Context) ([]bucket.LaneRow, error) {
	return transact(ctx, s, "KnownLanes", func(time.Time) ([]bucket.LaneRow, error) {
		out := make([]bucket.LaneRow, 0, len(s.lanes))
		for _, row := range s.lanes {
			out = append(out, *row)
		}
		slices.SortFunc(out, func(a, b bucket.LaneRow) int { return compareLanes(a.Lane, b.Lane) })
		return out, nil
	})
}

// SetDraining notes whether lanes are being drained. See bucket.Departures.
func (s *SQL) SetDraining(ctx context.Context, lanes []bucket.Lane, on bool) error {
	_, err := transact(ctx, s, "SetDraining", func(time.Time) (struct{}, error) {
		for _, lane := range lanes {
			row := s.lanes[lane]
			switch {
			case row == nil && on:
				s.lanes[lane] = &bucket.LaneRow{Lane: lane, Activation: 1, Draining: true}
			case row != nil && row.Draining != on:
				row.Draining = on
				s.left = slices.DeleteFunc(s.left, func(d *sqlDeparture) bool { return d.lane == lane && d.cleared })
			}
		}
		return struct{}{}, nil
	})
	return err
}

// LaneLoads counts. See bucket.Departures.
func (s *SQL) LaneLoads(ctx context.Context, lanes []bucket.Lane) (map[bucket.Lane]bucket.LaneLoad, error) {
	return transact(ctx, s, "LaneLoads", func(time.Time) (map[bucket.Lane]bucket.LaneLoad, error) {
		out := map[bucket.Lane]bucket.LaneLoad{}
		for _, lane := range lanes {
			var load bucket.LaneLoad
			for _, b := range s.buckets {
				if b.Lane == lane {
					load.Buckets++
				}
			}
			for _, d := range s.left {
				if d.lane != lane {
					continue
				}
				load.Moved++
				if !d.cleared {
					load.Uncleared++
				}
				if !d.cleared && d.ref.Activation >= s.lanes[lane].Activation {
					load.Held++
				}
			}
			out[lane] = load
		}
		return out, nil
	})
}

// OnLane lists buckets of a lane. See bucket.Departures.
func (s *SQL) OnLane(ctx context.Context, lane bucket.Lane, after int64, limit int) ([]bucket.EpochOf, error) {
	return transact(ctx, s, "OnLane", func(time.Time) ([]bucket.EpochOf, error) {
		return s.list(limit, func(e *sqlEpoch) bool {
			return e.bucket.Lane == lane && e.Bucket > after && e == e.bucket.newest()
		}), nil
	})
}

type moved struct {
	handout bucket.Handout
	moved   bool
}

// Move gives an ended bucket another lane. See bucket.Departures.
func (s *SQL) Move(ctx context.Context, m bucket.Moving) (bucket.Handout, bool, error) {
	r, err := transact(ctx, s, "Move", func(now time.Time) (moved, error) {
		b, err := s.find(m.Budget)
		if err != nil {
			return moved{}, err
		}
		at := slices.IndexFunc(b.buckets, func(shard *sqlBucket) bool { return shard.ID == m.Bucket })
		if at < 0 || b.buckets[at].Lane != m.From || b.buckets[at].newest().Status.Live() ||
			!s.draining(m.From) {
			return moved{}, nil
		}
		if err := s.fit("move", m.To); err != nil {
			return moved{}, err
		}
		shard := b.buckets[at]
		last := shard.newest()
		s.left = slices.DeleteFunc(s.left, func(d *sqlDeparture) bool {
			return d.lane == m.From && d.ref.Bucket == shard.ID
		})
		ref := last.ref()
		ref.Activation = s.lanes[m.From].Activation
		s.left = append(s.left, &sqlDeparture{lane: m.From, ref: ref})
		shard.Lane, shard.UpdatedAt, shard.CountersFrom = m.To, now, last.Number+1
		out := moved{moved: true}
		if !shard.Online || b.halted() {
			b.listVersion++
			s.verify(b)
			return out, nil
		}
		units := min(last.closed, b.releasable(now))
		next := s.begin(shard, now)
		if units > 0 {
			order := next.grant(units, now)
			shard.OutCnt++
			out.handout.Grants = []bucket.PendingGrant{{Lane: m.To, Order: *order}}
		}
		out.handout.Opened = []bucket.Bucket{shard.view()}
		s.verify(b)
		return out, nil
	})
	return r.handout, r.moved, err
}

// Departed lists buckets whose keys can be removed. See bucket.Departures.
func (s *SQL) Departed(ctx context.Context, lane bucket.Lane, silence time.Duration, limit int) (
	[]bucket.Ref, error) {
	return transact(ctx, s, "Departed", func(now time.Time) ([]bucket.Ref, error) {
		var out []bucket.Ref
		for _, d := range s.left {
			waits := slices.ContainsFunc(s.uses, func(u *sqlUse) bool {
				return u.lane == lane && u.activation <= d.ref.Activation && !u.reported &&
					!u.until.Before(now.Add(-silence))
			})
			if d.lane == lane && !d.cleared && (d.ref.Activation < s.lanes[lane].Activation && !waits || safeguard.Off(safeguard.DepartedUses)) {
				out = append(out, d.ref)
			}
		}
		slices.SortFunc(out, func(a, b bucket.Ref) int { return cmp.Compare(a.Bucket, b.Bucket) })
		return out[:min(len(out), limit)], nil
	})
}

// Cleared notes that keys were removed. See bucket.Departures.
func (s *SQL) Cleared(ctx context.Context, lane bucket.Lane, refs []bucket.Ref) error {
	_, err := transact(ctx, s, "Cleared", func(time.Time) (struct{}, error) {
		for _, d := range s.left {
			d.cleared = d.cleared || d.lane == lane && slices.ContainsFunc(refs, func(ref bucket.Ref) bool {
				return ref.Bucket == d.ref.Bucket && ref.Epoch == d.ref.Epoch
			})
		}
		return struct{}{}, nil
	})
	return err
}
