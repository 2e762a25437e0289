package commit

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/internal/sql/rows"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
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
	returnedUnits = `SELECT p.funded_quantity + p.carried_quantity FROM budget_period p
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

// selectSums reads I3's sum of each budget with all of U, from one statement.
const selectSums = `SELECT u.id AS budget_id, MAX(u.unfunded_quantity) AS unfunded,
	MAX(u.allocated_quantity) AS allocated,
	MAX(u.undistributed_quantity) AS undistributed, ` + outstandingO + ` AS outstanding,
	` + returningR + ` AS returning_sum, ` + inEpochs + ` AS in_epochs
	FROM budget_management_bucket u /*by PRIMARY*/
	LEFT JOIN bucket_epoch e /*by bucket_epoch_units*/ ON e.budget_id = u.id AND e.has_units = 1
	WHERE `

// ofTotal is what the total contributes to I3's sum.
const ofTotal = `u.id AS budget_id, u.unfunded_quantity AS unfunded,
	u.allocated_quantity AS allocated,
	CASE WHEN u.undistributed_quantity = 0 THEN 0
		WHEN (` + mayApply + ` /*own*/) THEN u.undistributed_quantity
		ELSE u.undistributed_quantity - (` + returnedUnits + ` /*own*/) + (` + applied + ` /*own*/)
		END AS undistributed`

// selectAvailability reads I3's sum of each budget, one row per budget.
const selectAvailability = `SELECT ` + ofTotal + `,
	(SELECT ` + outstandingO + ofUnits + `) AS outstanding,
	(SELECT ` + returningR + ofUnits + `) AS returning_sum,
	(SELECT ` + inEpochs + ofUnits + `) AS in_epochs
	FROM budget_management_bucket u /*by PRIMARY*/ WHERE `

// The exact sum locks the budgets, so that no movement is under way, and then the epochs with units
// by their primary keys: a lock by the index of such epochs would wait for a flight that takes the
// last unit of one, and that flight for this lock.
const (
	lockTotals = `SELECT ` + ofTotal + ` FROM budget_management_bucket u /*by PRIMARY*/ WHERE `
	lockUnits  = `SELECT e.budget_id AS budget_id, ` + outstandingO + ` AS outstanding,
		` + returningR + ` AS returning_sum, ` + inEpochs + ` AS in_epochs
		FROM (SELECT x.bucket_id AS id, x.epoch AS epoch
			FROM bucket_epoch x /*by bucket_epoch_units*/ WHERE x.has_units = 1 AND `
	inOrder = ` ORDER BY 1, 2 LIMIT 9223372036854775807) l
		/*in order*/ JOIN bucket_epoch e /*by PRIMARY*/ ON e.bucket_id = l.id AND e.epoch = l.epoch
		/*in order*/ JOIN budget_management_bucket u /*by PRIMARY*/ ON u.id = e.budget_id
		GROUP BY e.budget_id /*shared*/`
)

type availabilityRow struct {
	Budget        int64 `db:"budget_id"`
	Unfunded      int64 `db:"unfunded"`
	Allocated     int64 `db:"allocated"`
	Undistributed int64 `db:"undistributed"`
	Outstanding   int64 `db:"outstanding"`
	Returning     int64 `db:"returning_sum"`
	InEpochs      int64 `db:"in_epochs"`
}

func (r *availabilityRow) available() ledger.Availability {
	return ledger.Availability{Undistributed: max(r.Undistributed, 0), Outstanding: r.Outstanding,
		Returning: r.Returning, Allocated: r.Allocated,
		Later: r.Unfunded + r.InEpochs - r.Outstanding - r.Returning}
}

// Availability reads I3's sum of many budgets, each from one statement. If exact is set, it locks
// what it reads until it ends, so that it sees every commit acknowledged before it began. The
// result has no element for a budget that does not exist. Error: Unavailable.
func (d *Decider) Availability(ctx context.Context, budgets []int64, exact bool) (
	out map[int64]ledger.Availability, err error) {
	list := slices.Compact(slices.Sorted(slices.Values(budgets)))
	if exact {
		out = make(map[int64]ledger.Availability, len(list))
		return out, bookkeeper.Look(ctx, d.db, "availability", exactly(list, out))
	}
	err = d.db.Read(ctx, "availability", func(r *engine.Reader) error {
		out, err = readAvailability(r, list, engine.ToMS(d.db.Now()))
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// LookTwice reads I3's sum of many budgets twice, without locks and then as Availability does with
// exact, and after that the deductions with ids, in one round trip: a request above the sum whose
// id has no deduction can be refused. Of the two sums it returns the larger one. If some budgets
// have children, it does all of that again, and adds what their descendants that have ended have
// left. Errors: Unavailable.
func (d *Decider) LookTwice(ctx context.Context, budgets []int64, ids []bucket.ID) (
	sums map[int64]ledger.Availability, recorded map[bucket.ID]ledger.Deduction, err error) {
	list := slices.Compact(slices.Sorted(slices.Values(budgets)))
	sums, recorded, err = d.lookTwice(ctx, list, ids, nil)
	if parents := parentsIn(sums); err == nil && len(parents) > 0 {
		return d.lookTwice(ctx, list, ids, parents)
	}
	return sums, recorded, err
}

// parentsIn returns the budgets that have children, sorted.
func parentsIn(sums map[int64]ledger.Availability) (list []int64) {
	for id, c := range sums {
		if c.Allocated > 0 {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list
}

// lookTwice is LookTwice. Of the parents it also sees what their descendants have left: units go
// from these to a parent, so they are read before it, or while it is locked.
func (d *Decider) lookTwice(ctx context.Context, list []int64, ids []bucket.ID, parents []int64) (
	sums map[int64]ledger.Availability, recorded map[bucket.ID]ledger.Deduction, err error) {
	first := make(map[int64]ledger.Availability, len(list))
	sums = make(map[int64]ledger.Availability, len(list))
	recorded = make(map[bucket.ID]ledger.Deduction, len(ids))
	var failed error
	var queries []bookkeeper.Query
	var before, after []books.Left
	now := engine.ToMS(d.db.Now())
	if len(parents) > 0 {
		queries = append(queries, bookkeeper.LeftBelow(now, parents,
			func(left []books.Left) { before, after = left, nil }))
	}
	for chunk := range slices.Chunk(list, engine.ListChunk) {
		queries = append(queries, availabilityOf(selectSums, " GROUP BY u.id", chunk, first))
	}
	queries = append(queries, exactly(list, sums)...)
	if len(parents) > 0 {
		queries = append(queries, bookkeeper.LockLeft(now, parents,
			func(left []books.Left) { after = append(after, left...) })...)
	}
	queries = append(queries,
		rows.DeductionsOf(rows.SortedIDs(ids), "", d.db.TakesPackets(), recorded, &failed)...)
	err = bookkeeper.Look(ctx, d.db, "look twice", queries)
	if err = cmp.Or(err, failed); err != nil {
		return nil, nil, err
	}
	for _, id := range parents {
		first[id], sums[id] = withLeft(first[id], id, before), withLeft(sums[id], id, after)
	}
	for id, c := range first {
		if c.Sum() > sums[id].Sum() {
			sums[id] = c
		}
	}
	return sums, recorded, nil
}

// withLeft adds what descendants have left to the sum of a budget.
func withLeft(c ledger.Availability, id int64, left []books.Left) ledger.Availability {
	for i := range left {
		if left[i].IsBelow(id) {
			c.Descendants += left[i].Units
		}
	}
	return c
}

// availabilityOf returns a query of sums.
func availabilityOf(query, end string, list []int64,
	out map[int64]ledger.Availability) bookkeeper.Query {
	return func(s *engine.Statement, _ *books.Books) (any, func()) {
		var found []availabilityRow
		s.SQL(query)
		s.Numbers("u.id", list)
		s.SQL(end)
		return &found, func() {
			for i := range found {
				out[found[i].Budget] = found[i].available()
			}
		}
	}
}

// exactly returns the queries of the exact sums of budgets, which are sorted.
func exactly(list []int64, out map[int64]ledger.Availability) (queries []bookkeeper.Query) {
	const shared = ` /*shared*/`
	totals := strings.ReplaceAll(lockTotals, ` /*own*/`, shared)
	for chunk := range slices.Chunk(list, engine.ListChunk) {
		var total []availabilityRow
		queries = append(queries, func(s *engine.Statement, _ *books.Books) (any, func()) {
			total = nil
			s.SQL(totals)
			s.Numbers("u.id", chunk)
			s.SQL(` ORDER BY u.id` + shared)
			return &total, func() {}
		}, func(s *engine.Statement, _ *books.Books) (any, func()) {
			var units []availabilityRow
			s.SQL(lockUnits)
			s.Numbers("x.budget_id", chunk)
			s.SQL(inOrder)
			return &units, func() {
				held := make(map[int64]availabilityRow, len(units))
				for _, row := range units {
					held[row.Budget] = row
				}
				for i := range total {
					row := held[total[i].Budget]
					row.Unfunded, row.Undistributed = total[i].Unfunded, total[i].Undistributed
					row.Allocated = total[i].Allocated
					out[total[i].Budget] = row.available()
				}
			}
		})
	}
	return queries
}

// readAvailability reads the sums without locks. Most budgets have no U left when their sums are
// read, and selectSums costs less than half of selectAvailability.
func readAvailability(r *engine.Reader, list []int64, now int64) (
	map[int64]ledger.Availability, error) {
	out := make(map[int64]ledger.Availability, len(list))
	sums, err := readAvailabilityRows(r, selectSums, " GROUP BY u.id", list)
	if err != nil {
		return nil, err
	}
	var left []int64
	for i := range sums {
		out[sums[i].Budget] = sums[i].available()
		if sums[i].Undistributed != 0 {
			left = append(left, sums[i].Budget)
		}
	}
	rest, err := readAvailabilityRows(r, selectAvailability, "", left)
	for i := range rest {
		out[rest[i].Budget] = rest[i].available()
	}
	parents := parentsIn(out)
	if err != nil || len(parents) == 0 {
		return out, err
	}
	var found []books.Left
	s := r.Statement()
	rows, load := bookkeeper.LeftBelow(now, parents, func(left []books.Left) { found = left })(s, nil)
	if err := r.RowsOf(rows, s); err != nil {
		return nil, err
	}
	load()
	for _, id := range parents {
		out[id] = withLeft(out[id], id, found)
	}
	return out, nil
}

func readAvailabilityRows(r *engine.Reader, query, end string, list []int64) (
	out []availabilityRow, err error) {
	for chunk := range slices.Chunk(list, engine.ListChunk) {
		var found []availabilityRow
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
