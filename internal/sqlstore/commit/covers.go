package commit

import (
	"context"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
)

// The parts of I3's sum: u is the budget, b its buckets, e their epochs, p its open period. U
// counts if some bucket that no operator took offline may apply for it. U also counts if no bucket
// is online, because one that is brought online may apply for it. Units that came back may be
// applied for without a bound: they are the excess of U over what the period got and no bucket has
// applied for yet.
const (
	mayApply = `SELECT COUNT(*) = 0 OR SUM(u.adjust_cnt = 0 OR b.out_cnt < u.adjust_cnt) > 0
		FROM sharding_budget_management_bucket b WHERE b.budget_id = u.id
		AND b.offline_by NOT IN ('operator', 'resize')`
	cameBack = `SELECT p.funded_quantity + p.carried_quantity FROM budget_period p
		WHERE p.budget_id = u.id AND p.number = u.period`
	applied = `SELECT COALESCE(SUM(g.amount), 0) FROM sharding_budget_management_bucket a
		JOIN bucket_epoch x ON x.bucket_id = a.id
		JOIN grant_log g ON g.bucket_id = x.bucket_id AND g.epoch = x.epoch
		WHERE a.budget_id = u.id AND x.period = u.period AND g.kind = 'apply'`
	outstandingO = `COALESCE(SUM(CASE WHEN e.period = u.period OR u.unused IN ('next', 'whole')
		THEN e.outstanding_quantity ELSE 0 END), 0)`
	returningR = `COALESCE(SUM(CASE WHEN e.period = u.period THEN e.returning_quantity ELSE
		CASE WHEN u.unused IN ('next', 'whole') THEN e.returning_quantity - e.late_quantity ELSE 0 END +
		CASE WHEN u.late_refund = 'next' OR u.unused = 'whole' AND u.late_refund <> 'forfeit'
		THEN e.late_quantity ELSE 0 END END), 0)`
	inEpochs = `COALESCE(SUM(e.outstanding_quantity + e.returning_quantity), 0)`
	ofUnits  = ` FROM bucket_epoch e /*by bucket_epoch_units*/ WHERE e.budget_id = u.id
		AND e.has_units = 1 /*own*/`
)

// selectSums reads I3's sum of each budget whose U is 0. Most statements begin after a sell-out,
// and this one costs less than half of selectCovers.
const selectSums = `SELECT u.id AS budget_id, MAX(u.unfunded_quantity) AS unfunded,
	MAX(u.undistributed_quantity) AS undistributed, ` + outstandingO + ` AS outstanding,
	` + returningR + ` AS returning_sum, ` + inEpochs + ` AS in_epochs
	FROM budget_management_bucket u /*by PRIMARY*/
	LEFT JOIN bucket_epoch e /*by bucket_epoch_units*/ ON e.budget_id = u.id AND e.has_units = 1
	WHERE `

// selectCovers reads I3's sum of each budget, one row per budget.
const selectCovers = `SELECT u.id AS budget_id, u.unfunded_quantity AS unfunded,
	CASE WHEN u.undistributed_quantity = 0 THEN 0
		WHEN (` + mayApply + ` /*own*/) THEN u.undistributed_quantity
		ELSE u.undistributed_quantity - (` + cameBack + ` /*own*/) + (` + applied + ` /*own*/)
		END AS undistributed,
	(SELECT ` + outstandingO + ofUnits + `) AS outstanding,
	(SELECT ` + returningR + ofUnits + `) AS returning_sum,
	(SELECT ` + inEpochs + ofUnits + `) AS in_epochs
	FROM budget_management_bucket u /*by PRIMARY*/ WHERE `

type coverRow struct {
	Budget        int64 `db:"budget_id"`
	Unfunded      int64 `db:"unfunded"`
	Undistributed int64 `db:"undistributed"`
	Outstanding   int64 `db:"outstanding"`
	Returning     int64 `db:"returning_sum"`
	InEpochs      int64 `db:"in_epochs"`
}

func (r *coverRow) cover() bucket.Cover {
	return bucket.Cover{Undistributed: max(r.Undistributed, 0), Outstanding: r.Outstanding,
		Returning: r.Returning, Later: r.Unfunded + r.InEpochs - r.Outstanding - r.Returning}
}

// Covers reads I3's sum of many budgets, each from one statement. If exact is set, the statement
// locks what it reads until it ends, so that it sees every commit acknowledged before it began. The
// result has no element for a budget that does not exist. Error: Unavailable.
func (p *Part) Covers(ctx context.Context, budgets []int64, exact bool) (
	out map[int64]bucket.Cover, err error) {
	list := slices.Compact(slices.Sorted(slices.Values(budgets)))
	err = p.db.Read(ctx, "covers", func(r *engine.Reader) error {
		out, err = covers(r, list, exact)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func covers(r *engine.Reader, list []int64, exact bool) (map[int64]bucket.Cover, error) {
	out := make(map[int64]bucket.Cover, len(list))
	sums, err := readCovers(r, selectSums, " GROUP BY u.id", list, exact)
	if err != nil {
		return nil, err
	}
	var left []int64
	for i := range sums {
		out[sums[i].Budget] = sums[i].cover()
		if sums[i].Undistributed != 0 {
			left = append(left, sums[i].Budget)
		}
	}
	rest, err := readCovers(r, selectCovers, "", left, exact)
	for i := range rest {
		out[rest[i].Budget] = rest[i].cover()
	}
	return out, err
}

func readCovers(r *engine.Reader, query, end string, list []int64, exact bool) (
	out []coverRow, err error) {
	const shared = ` /*shared*/`
	if exact {
		query, end = strings.ReplaceAll(query, ` /*own*/`, shared), end+shared
	}
	for chunk := range slices.Chunk(list, engine.ListChunk) {
		var found []coverRow
		s := r.Statement()
		s.SQL(query)
		s.Numbers("u.id", chunk)
		s.SQL(end)
		if err := r.RowsOf(&found, s); err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}
