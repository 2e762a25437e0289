package definitions

import (
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/moves"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
)

const setBuckets = `UPDATE budget_management_bucket SET bucket_quantity = ? WHERE id = ?`

// resize changes the number of buckets of a ledger-mode budget. Buckets beyond the number retire:
// their epochs end, and the other buckets get their units. Buckets within it that had retired come
// back, and missing ones are created. An effective budget keeps one bucket online.
func (c *changing) resize() error {
	t, b, n := c.t, c.row, c.after.BucketQuantity
	list, err := rows.LockBuckets(t, b.ID)
	if err != nil {
		return err
	}
	for i := range list {
		if list[i].Halted != "" && i >= n && list[i].Live() {
			return budget.Refuse(budget.Unavailable, "resize",
				"bucket %s is halted: %s", list[i].Key, list[i].Halted)
		}
	}
	if err := retire(t, b, list[min(n, len(list)):]); err != nil {
		return err
	}
	stay := list[:min(n, len(list))]
	begin := returning(t, b, stay, n)
	if err := moves.PutOnline(t, b, begin...); err != nil {
		return err
	}
	made, err := addBuckets(t, b, len(stay), c.first, make([]bucket.Partition, n-len(stay)), nil)
	if err != nil {
		return err
	}
	if err := t.Hit(1, setBuckets, n, b.ID); err != nil {
		return err
	}
	b.Buckets = n
	if b.IsOver == 1 { // no period is open, so no epoch begins
		return closeAll(t, b, begin, made)
	}
	if err := moves.Begin(t, "resize", b, begin...); err != nil {
		return err
	}
	for _, row := range made {
		stay = append(stay, *row)
	}
	return moves.HandOut(t, b, moves.Again, stay)
}

// retire ends the epochs of buckets, returns their units to U, and removes the buckets from the
// ring.
func retire(t *engine.Tx, b *rows.Budget, list []rows.Bucket) error {
	var live []*rows.Epoch
	var back []moves.Coming
	var leave []*rows.Bucket
	for i := range list {
		row := &list[i]
		if row.Live() {
			live = append(live, &row.Epoch)
			back = append(back, moves.Coming{Row: &row.Epoch, Never: row.Outstanding})
		}
		if !row.Retired() {
			leave = append(leave, row)
		}
	}
	if _, err := moves.End(t, b, ledger.Closed, live...); err != nil {
		return err
	}
	if err := moves.Retire(t, b, leave...); err != nil {
		return err
	}
	return moves.ComeBack(t, b, back...)
}

// returning selects the buckets that come back: retired ones, and one of the others if an effective
// budget has no bucket online. n is the new number of buckets.
func returning(t *engine.Tx, b *rows.Budget, stay []rows.Bucket, n int) (begin []*rows.Bucket) {
	anyOnline := n > len(stay)
	for i := range stay {
		row := &stay[i]
		anyOnline = anyOnline || row.ListStatus == rows.Online
		if row.Retired() {
			begin, anyOnline = append(begin, row), true
		}
	}
	if !anyOnline && b.Definition().StatusAt(t.Now) == budget.Effective {
		first := &stay[0]
		for i := range stay {
			if stay[i].OfflineBy == string(bucket.ByService) {
				first = &stay[i]
				break
			}
		}
		begin = append(begin, first)
	}
	return begin
}

// closeAll takes the buckets of a budget without an open period offline, without a live epoch.
func closeAll(t *engine.Tx, b *rows.Budget, begin, made []*rows.Bucket) error {
	var live []*rows.Epoch
	for _, row := range made {
		live = append(live, &row.Epoch)
	}
	if _, err := moves.End(t, b, ledger.Closed, live...); err != nil {
		return err
	}
	for _, row := range append(begin, made...) {
		if err := moves.PutOffline(t, b, row, bucket.ByService); err != nil {
			return err
		}
	}
	return nil
}
