package transfer

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Rebalance moves buckets of store mode to where the ring over the instances says, with bounded
// loads, so that new and returning instances get their share. Buckets that are spread evenly stay.
// A dry run moves nothing. Requests of a bucket that moves are unavailable meanwhile. Repeating it
// moves what is left. Errors: Unavailable; OutcomeUnknown.
func (s *Service) Rebalance(ctx context.Context, dryRun bool) (bucket.Rebalance, error) {
	out := bucket.Rebalance{DryRun: dryRun}
	rows, err := s.Ledger.PartitionRows(ctx)
	if err != nil {
		return out, err
	}
	accepts := s.accepting(ctx, rows)
	if !slices.ContainsFunc(s.Config.Partitions, accepts) {
		out.Problem = "no instance accepts buckets: each is down or being drained"
		return out, nil
	}
	err = s.eachPlaced(ctx, nil, func(p *Placed) error {
		out.Budgets++
		list := s.misplaced(p, accepts, nil)
		out.Misplaced += len(list)
		out.Moves = append(out.Moves, p.shown(list, bucket.MaxMovesShown-len(out.Moves))...)
		if dryRun || len(list) == 0 {
			return nil
		}
		n, err := s.move(ctx, p, list)
		out.Moved += n
		if err == nil && n < len(list) {
			out.Problem = "some buckets could not be moved now: repeat the call"
		}
		return err
	})
	return out, afterWrite("rebalance", out.Moved > 0, err)
}

// GiveUp gives up an instance of store mode that does not come back. What its buckets held goes to
// quarantine, or to the total if a budget says on_loss: assume_unused. The instance is then
// drained: its buckets go to other instances, where earlier ids are unknown. Repeating it is
// harmless.
//
// Errors: InstanceNotFound; InstanceAnswers if one of its stores answers; Unavailable;
// OutcomeUnknown.
func (s *Service) GiveUp(ctx context.Context, name string) (bucket.DrainView, error) {
	partitions, err := s.partitionsOf("give up", name)
	if err != nil {
		return bucket.DrainView{}, err
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	pings, done := context.WithTimeout(step, pingTime)
	problems := s.problems(pings)
	done()
	for _, partition := range partitions {
		if problems[partition] == "" {
			return bucket.DrainView{}, budget.Refuse(budget.InstanceAnswers, "give up",
				"partition %s answers: drain the instance instead", partition)
		}
	}
	if err := s.Ledger.SetDraining(step, partitions, true); err != nil {
		return bucket.DrainView{}, err
	}
	var given bucket.GivenUp
	if s.Stores != nil {
		if given, err = s.Stores.GiveUp(step, partitions); err != nil {
			return bucket.DrainView{}, afterWrite("give up", true, err)
		}
	}
	s.Log.Warn("instance given up", "instance", name, "quarantined", given.Quarantined,
		"returned", given.Returned)
	view, err := s.Drain(ctx, name)
	if budget.Is(err, budget.LastInstance) {
		view, err = s.drainView(step, name, partitions)
		view.Problem = "no other instance can take its buckets"
	}
	view.GivenUp = given
	return view, afterWrite("give up", true, err)
}

// shown returns the first n placements as operators see them.
func (p *Placed) shown(list []Placement, n int) (out []bucket.BucketMove) {
	for _, one := range list[:min(len(list), max(n, 0))] {
		for _, b := range p.Buckets {
			if b.ID == one.Bucket {
				out = append(out, bucket.BucketMove{Bucket: p.key(b.Ordinal), From: one.From,
					To: one.To})
			}
		}
	}
	return out
}

// RebalanceLoop gives instances their share of the buckets automatically.
type RebalanceLoop struct{ s *Service }

// RunOnce rebalances all budgets. It does nothing while a store does not answer, so that an
// unstable store does not cause the buckets of all others to move.
func (l *RebalanceLoop) RunOnce(ctx context.Context) error {
	step, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	if len(l.s.problems(step)) > 0 {
		return nil
	}
	_, err := l.s.Rebalance(ctx, false)
	return err
}
