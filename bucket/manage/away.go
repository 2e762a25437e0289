package manage

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// selectAway counts the online buckets of budgets per partition, and sums what they have left. The
// conditions on the partitions and the budgets follow.
const (
	selectAway = `SELECT b.budget_id, b.instance,
		SUM(CASE WHEN b.status = 'online' THEN 1 ELSE 0 END) AS buckets,
		SUM(COALESCE((SELECT SUM(e.outstanding_quantity) FROM bucket_epoch e
			WHERE e.bucket_id = b.id AND e.has_units = 1), 0)) AS units
		FROM sharding_budget_management_bucket b WHERE `
	awayGroups = ` GROUP BY b.budget_id, b.instance ORDER BY b.budget_id, b.instance`
)

// awayRow is a row of selectAway.
type awayRow struct {
	Budget   int64  `db:"budget_id"`
	Instance string `db:"instance"`
	Buckets  int    `db:"buckets"`
	Units    int64  `db:"units"`
}

// Away returns what budgets have on partitions, without those that have no bucket there. Error:
// Unavailable.
func (l *Ledger) Away(ctx context.Context, ids []int64, partitions []bucket.Partition) (
	out map[int64]bucket.Away, err error) {
	err = l.db.Read(ctx, "out of reach", func(r *engine.Reader) error {
		out = map[int64]bucket.Away{}
		for chunk := range slices.Chunk(ids, engine.ListChunk) {
			for some := range slices.Chunk(partitions, engine.ListChunk) {
				if err := addAway(r, out, chunk, some); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return out, err
}

func addAway(r *engine.Reader, out map[int64]bucket.Away, ids []int64,
	partitions []bucket.Partition) error {
	keys := make([][]any, len(partitions))
	for i, p := range partitions {
		keys[i] = []any{[]byte(p.Instance), p.Index}
	}
	s := r.Statement()
	s.SQL(selectAway)
	s.Tuples([]string{"b.instance", "b.partition_number"}, keys)
	s.SQL(` AND `)
	s.Numbers("b.budget_id", ids)
	s.SQL(awayGroups)
	var read []awayRow
	if err := r.RowsOf(&read, s); err != nil {
		return err
	}
	for _, row := range read {
		a := out[row.Budget]
		if !slices.Contains(a.Instances, row.Instance) {
			a.Instances = append(a.Instances, row.Instance)
		}
		a.Buckets += row.Buckets
		a.Units += row.Units
		out[row.Budget] = a
	}
	return nil
}

// Away returns what budgets have on stores that this node does not reach. It asks the database only
// if there are such stores. Error: Unavailable.
func (s *Service) Away(ctx context.Context, ids []int64) (map[int64]bucket.Away, error) {
	if s.Unreachable == nil || len(ids) == 0 {
		return nil, nil
	}
	partitions := s.Unreachable()
	if len(partitions) == 0 {
		return nil, nil
	}
	return s.Ledger.Away(ctx, ids, partitions)
}

// part tells views what they have on stores that this node does not reach. Error: Unavailable.
func (s *Service) part(ctx context.Context, views []bucket.View) error {
	var ids []int64
	for i := range views {
		if d := &views[i].Definition; d.Durability == budget.Store {
			ids = append(ids, d.ID)
		}
	}
	away, err := s.Away(ctx, ids)
	if err != nil || len(away) == 0 {
		return err
	}
	now := s.Clock.Now()
	for i := range views {
		views[i].Away = away[views[i].Definition.ID]
		views[i].At(now)
	}
	return nil
}

// View reads a budget as of now, with what of it is out of this node's reach. Errors:
// BudgetNotFound, Unavailable.
func (s *Service) View(ctx context.Context, ref bucket.BudgetRef) (bucket.View, error) {
	one, err := s.Ledger.View(ctx, ref)
	if err != nil {
		return one, err
	}
	views := []bucket.View{one}
	if err = s.part(ctx, views); err == nil {
		err = s.named(ctx, &views[0])
	}
	if err == nil {
		err = s.usable(ctx, &views[0])
	}
	return views[0], err
}

// List reads a page of budgets in the order of their ids, with what of them is out of this node's
// reach. Errors: Invalid, Unavailable.
func (s *Service) List(ctx context.Context, page bucket.Page) ([]bucket.View, error) {
	views, err := s.Ledger.Budgets(ctx, page)
	if err != nil {
		return nil, err
	}
	for i := range views {
		if err := s.named(ctx, &views[i]); err != nil {
			return nil, err
		}
	}
	return views, s.part(ctx, views)
}
