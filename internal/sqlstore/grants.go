package sqlstore

import (
	"context"
	"strconv"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/safeguard"
)

// grantPending is the status of a grant that no log has shown; "applied" and "void" stand in the
// statements.
const grantPending = "pending"

// ordinaryKey is the request key of a grant that nobody repeats under a key of his own.
func ordinaryKey(row *epochRow) []byte {
	key := strconv.AppendInt(nil, row.Bucket, 10)
	key = strconv.AppendInt(append(key, '/'), row.Number, 10)
	return strconv.AppendInt(append(key, '/'), row.NextGrant, 10)
}

// collectKey is the request key of the grant that the end of an epoch becomes: it can happen once.
func collectKey(donor *epochRow) []byte {
	key := strconv.AppendInt([]byte("collect/"), donor.Bucket, 10)
	return strconv.AppendInt(append(key, '/'), donor.Number, 10)
}

// granting is units for a locked epoch.
type granting struct {
	row   *epochRow
	units int64
	key   []byte
}

const (
	grantToEpochs = `UPDATE bucket_epoch /*by PRIMARY*/ SET
		outstanding_quantity = outstanding_quantity + $value, next_grant = next_grant + 1 WHERE `
	grantWhere = `bucket_id = ? AND epoch = ? AND next_grant = ? AND status IN ('opening', 'open')
		AND LENGTH(fenced) = 0`
	// grantToBuckets adds no more once the sum is MaxAmount: buckets of unlimited budgets are given as much with each
	// epoch.
	grantToBuckets = `UPDATE sharding_budget_management_bucket /*by PRIMARY*/ SET
		out_quantity = CASE WHEN out_quantity < 9007199254740991 THEN out_quantity + $value ELSE out_quantity END, sharding_quantity = $value, out_cnt = out_cnt + $value,
		updated_at = $value WHERE `
)

// grant moves units into locked epochs, at most one grant for each: the row's O, a numbered grant,
// the bucket's totals. What gives the units is the caller's. applications is what each counts in
// out_cnt.
func (t *tx) grant(applications int, grants ...granting) ([]bucket.GrantOrder, error) {
	now := toMS(t.now)
	orders := make([]bucket.GrantOrder, len(grants))
	var rows []any
	epochs, buckets := make([]rowChange, len(grants)), make([]rowChange, len(grants))
	for i, g := range grants {
		row := g.row
		rows = append(rows, row.Bucket, row.Number, row.NextGrant, row.Budget, g.key, g.units,
			grantPending, now)
		epochs[i] = rowChange{
			key: []any{row.Bucket, row.Number}, values: []any{g.units},
			where: []any{row.Bucket, row.Number, row.NextGrant},
		}
		buckets[i] = rowChange{
			key: []any{row.Bucket}, values: []any{g.units, g.units, applications, now},
			where: []any{row.Bucket},
		}
		orders[i] = bucket.GrantOrder{Ref: row.ref(), Number: row.NextGrant, Amount: g.units}
	}
	if err := t.insert(insertGrant, grantWidth, rows); err != nil {
		return nil, err
	}
	where := safeguard.Swap(safeguard.OpenForGrants, grantWhere, "status IN ('opening', 'open')", "status <> ''")
	if err := t.changeRows(grantToEpochs, ofEpoch, where, epochs); err != nil {
		return nil, err
	}
	if err := t.changeRows(grantToBuckets, `id = ?`, `id = ?`, buckets); err != nil {
		return nil, err
	}
	for _, g := range grants {
		g.row.NextGrant++
		g.row.Outstanding += g.units
	}
	return orders, nil
}

const selectOutCnt = `SELECT out_cnt FROM sharding_budget_management_bucket WHERE id = ?`

// Apply grants U to an open epoch. See bucket.Transfers. Keeps I1, I2.
func (db *DB) Apply(ctx context.Context, budgetID int64, want bucket.Want) (
	order *bucket.GrantOrder, err error) {
	var tried *bucket.GrantOrder // what an earlier attempt wrote, committed or not
	err = db.write(ctx, "apply", func(t *tx) error {
		order = nil
		b, err := t.lockBudget("apply", budgetID)
		if err != nil {
			return err
		}
		rows, err := t.lockEpochs(at(want.Ref))
		if err != nil {
			return err
		}
		row := rows[at(want.Ref)]
		if row == nil || row.Budget != budgetID {
			return nil
		}
		if t.unsure && tried != nil && row.NextGrant > tried.Number {
			var amount int64
			found, err := t.get(&amount, selectGrantAmount, row.Bucket, row.Number, tried.Number)
			if err != nil || found && amount == tried.Amount {
				order = tried
				return err
			}
		}
		units, err := t.applicable(b, row, want)
		if err != nil || units == 0 {
			return err
		}
		orders, err := t.grant(1, granting{row, units, ordinaryKey(row)})
		if err != nil {
			return err
		}
		order, tried = &orders[0], &orders[0]
		return t.addUndistributed(budgetID, -units)
	})
	if err != nil {
		return nil, err
	}
	return order, nil
}

const selectGrantAmount = `SELECT amount FROM grant_log
	WHERE bucket_id = ? AND epoch = ? AND number = ?`

// applicable returns how many units an epoch may be granted now, 0 for none.
func (t *tx) applicable(b *budgetRow, row *epochRow, want bucket.Want) (int64, error) {
	if !row.mayGrow() || row.Period != b.Period {
		return 0, nil
	}
	units := min(want.Units, b.releasable(t.now))
	if !want.Unbounded {
		var outCnt int
		if _, err := t.get(&outCnt, selectOutCnt, row.Bucket); err != nil {
			return 0, err
		}
		if b.AdjustCnt > 0 && outCnt >= b.AdjustCnt {
			return 0, nil
		}
		if b.Sharding > 0 {
			units = min(units, b.Sharding)
		}
	}
	if units < max(want.Need, 1) {
		return 0, nil
	}
	return units, nil
}

// HandOut spreads U over the buckets that can take it. See bucket.Transfers. After an attempt whose
// commit stayed unknown the result may lack what that attempt did: it is in Unfinished. Keeps I1.
func (db *DB) HandOut(ctx context.Context, budgetID int64, without ...bucket.Lane) (
	out bucket.Handout, err error) {
	err = db.write(ctx, "hand out", func(t *tx) error {
		out = bucket.Handout{}
		b, err := t.lockBudget("hand out", budgetID)
		if err != nil || b.releasable(t.now) == 0 {
			return err
		}
		if b.halted() {
			return nil
		}
		takers, err := t.takers(b, without)
		if err != nil || len(takers) == 0 {
			return err
		}
		if out, err = t.handOut(b, takers); err != nil {
			return err
		}
		units := int64(0)
		for _, g := range out.Grants {
			units += g.Order.Amount
		}
		return t.addUndistributed(budgetID, -units)
	})
	if err != nil {
		return bucket.Handout{}, err
	}
	return out, nil
}

// takers returns the buckets that units can be handed out to, by ordinal, with their newest epochs
// locked: online with an open epoch, or taken offline by the service and ended.
func (t *tx) takers(b *budgetRow, without []bucket.Lane) ([]*bucketRow, error) {
	all, err := t.buckets(b.ID)
	if err != nil {
		return nil, err
	}
	lanes, err := t.takingLanes(without)
	if err != nil {
		return nil, err
	}
	positions := make([]position, len(all))
	for i := range all {
		positions[i] = all[i].position()
	}
	rows, err := t.lockEpochs(positions...)
	if err != nil {
		return nil, err
	}
	var out []*bucketRow
	for i := range all {
		row := &all[i]
		activation, taking := lanes[row.lane()]
		if !taking {
			continue
		}
		row.epochRow = *rows[row.position()]
		if row.mayTake(b, activation) {
			out = append(out, row)
		}
	}
	return out, nil
}

// handOut grants each taker its share; one that is offline gets a new epoch first.
func (t *tx) handOut(b *budgetRow, takers []*bucketRow) (bucket.Handout, error) {
	var out bucket.Handout
	shares := allocation.Shares(b.definition(), b.releasable(t.now), len(takers))
	for len(shares) > 0 && shares[len(shares)-1] == 0 {
		shares = shares[:len(shares)-1]
	}
	takers = takers[:len(shares)]
	var ended []*bucketRow
	for _, row := range takers {
		if !row.live() {
			ended = append(ended, row)
		}
	}
	if err := t.begin("hand out", b, ended); err != nil {
		return out, err
	}
	grants := make([]granting, len(takers))
	for i, row := range takers {
		grants[i] = granting{&row.epochRow, shares[i], ordinaryKey(&row.epochRow)}
	}
	orders, err := t.grant(1, grants...)
	if err != nil {
		return out, err
	}
	for i, row := range takers {
		row.OutQuantity += shares[i]
		row.OutCnt++
		out.Grants = append(out.Grants, bucket.PendingGrant{Lane: row.lane(), Order: orders[i]})
	}
	for _, row := range ended {
		out.Opened = append(out.Opened, row.bucket())
	}
	return out, nil
}
