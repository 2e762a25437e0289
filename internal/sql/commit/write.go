package commit

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
)

const (
	insertDeductions = `INSERT INTO deduction (budget_id, request_id, bucket_id, epoch, amount,
		fingerprint, nonce, counted_at, note)`
	insertHolds = `INSERT INTO hold (budget_id, request_id, state, hold_group, hold_until_ms, due_ms,
		bucket_id, epoch, above, expires_as)`
	insertValues = `INSERT INTO deduction_value (budget_id, dimension, value, counted_at,
		request_id)`
	insertGroups    = `INSERT INTO group_of_holds (budget_id, hold_group, state, created_at)`
	insertLimitRows = `INSERT INTO limit_counter (budget_id, dimension, value, version, counts,
		expires_ms)`
)

// inserter begins an insertion into a table: see engine.Tx.Inserting and PacketConn.Inserting.
type inserter func(into, or string, rows int) *engine.Inserting

// insertRows writes the rows of accepted operations that precede groups and limit rows in the lock
// order, each kind sorted by key.
func (t *trial) insertRows(begin inserter) error {
	slices.SortFunc(t.owners, func(a, b *ledger.Deduction) int {
		return cmp.Compare(a.RequestID, b.RequestID)
	})
	to := begin(insertDeductions, "", t.accepted+len(t.owners))
	holds := 0
	for d := range t.rows() {
		to.Row()
		to.Number(d.Budget)
		to.Bytes(d.RequestID)
		to.Number(d.Bucket)
		to.Number(d.Epoch)
		to.Number(d.Amount)
		to.Bytes(d.Fingerprint)
		to.Bytes(d.Nonce)
		to.Number(t.nowMS)
		to.OrNull(ledger.Note{Reference: d.Reference, Dimensions: d.Dimensions, Counts: d.Counts,
			By: d.By, VoidFor: d.VoidFor, Legs: d.Legs}.Pack())
		if d.State == ledger.StateHeld {
			holds++
		}
	}
	if err := to.End(); err != nil {
		return err
	}
	if err := t.insertHolds(begin, holds); err != nil {
		return err
	}
	return t.insertValues(begin)
}

// rows returns the rows of accepted operations, sorted by key: first those of the owners of sets.
func (t *trial) rows() iter.Seq[*ledger.Deduction] {
	return func(yield func(*ledger.Deduction) bool) {
		for _, d := range t.owners {
			if !yield(d) {
				return
			}
		}
		for _, i := range t.byID {
			if t.out[i].Verdict == bucket.Accepted && !yield(&t.out[i].Deduction) {
				return
			}
		}
	}
}

// insertHolds writes the holds. Those of legs end with their owner's.
func (t *trial) insertHolds(begin inserter, holds int) error {
	if holds == 0 {
		return nil
	}
	to := begin(insertHolds, "", holds)
	for d := range t.rows() {
		if d.State != ledger.StateHeld {
			continue
		}
		to.Row()
		to.Number(d.Budget)
		to.Bytes(d.RequestID)
		to.Word(string(ledger.StateHeld))
		to.OrNull(d.Group)
		to.Number(engine.ToMS(d.HoldUntil))
		if ledger.IsLegID(d.RequestID) {
			to.OrNull("")
		} else {
			to.Number(engine.ToMS(d.HoldUntil))
		}
		to.Number(d.Bucket)
		to.Number(d.Epoch)
		to.Word(string(cmp.Or(d.Above, ledger.AboveRefuse)))
		to.Word(string(cmp.Or(d.ExpiresAs, ledger.ExpiresReleased)))
	}
	return to.End()
}

// dimensionValue is a value of a dimension of a deduction.
type dimensionValue struct {
	ledger.Dimension
	of *ledger.Deduction
}

func compareCarried(a, b dimensionValue) int {
	if a.of.Budget != b.of.Budget {
		return cmp.Compare(a.of.Budget, b.of.Budget)
	}
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	if c := strings.Compare(a.Value, b.Value); c != 0 {
		return c
	}
	return strings.Compare(a.of.RequestID, b.of.RequestID)
}

// insertValues writes the dimension values of deductions.
func (t *trial) insertValues(begin inserter) error {
	var list []dimensionValue
	var dimensions []ledger.Dimension
	for _, i := range t.byID {
		d := &t.out[i].Deduction
		if t.out[i].Verdict != bucket.Accepted || d.Dimensions == "" {
			continue
		}
		dimensions = ledger.AppendDimensions(dimensions[:0], d.Dimensions)
		if list == nil {
			list = make([]dimensionValue, 0, t.accepted*len(dimensions))
		}
		for _, of := range dimensions {
			list = append(list, dimensionValue{of, d})
		}
	}
	if list == nil {
		return nil
	}
	slices.SortFunc(list, compareCarried)
	to := begin(insertValues, "", len(list))
	for i := range list {
		v := &list[i]
		to.Row()
		to.Number(v.of.Budget)
		to.Bytes(v.Name)
		to.Bytes(v.Value)
		to.Number(t.nowMS)
		to.Bytes(v.of.RequestID)
	}
	return to.End()
}

// joinedGroups returns the groups that got new holds, in lock order.
func (t *trial) joinedGroups() []groupKey {
	var out []groupKey
	for key, g := range t.groups {
		if g.joined {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, compareGroups)
	return out
}

func compareGroups(a, b groupKey) int {
	return cmp.Or(cmp.Compare(a.budget, b.budget), strings.Compare(a.name, b.name))
}

// insertGroups writes groups, which are sorted. or is the clause for existing rows.
func (t *trial) insertGroups(begin inserter, keys []groupKey, or string) error {
	to := begin(insertGroups, or, len(keys))
	for _, key := range keys {
		to.Row()
		to.Number(key.budget)
		to.Bytes(key.name)
		to.Word(string(ledger.GroupOpen))
		to.Number(t.nowMS)
	}
	return to.End()
}

// insertLimitRows writes limit rows, which are sorted. or is the clause for existing rows. A new
// row begins with a version that no earlier row of its key can have reached, so that no version is
// used twice.
func (t *trial) insertLimitRows(begin inserter, rows []*limitRow, or string) error {
	to := begin(insertLimitRows, or, len(rows))
	for _, p := range rows {
		to.Row()
		to.Number(p.Key.Budget)
		to.Bytes(p.Key.Dimension)
		to.Bytes(p.Key.Value)
		to.Number(t.nextVersion(p))
		to.Bytes(p.packed)
		to.Number(p.Counts.ExpiresMS())
	}
	return to.End()
}

func (t *trial) nextVersion(p *limitRow) int64 {
	if p.exists {
		return p.Version + 1
	}
	return max(t.nowMS, 1)
}

// taken returns the buckets from which something was taken, in lock order.
func (t *trial) taken() []*bucketState {
	out := make([]*bucketState, 0, len(t.epochs))
	for _, s := range t.epochs {
		if s != nil && s.entries > 0 {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *bucketState) int {
		return a.epoch.Position().Compare(b.epoch.Position())
	})
	return out
}
