package rows

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
)

const (
	selectDeductions = `SELECT d.budget_id, d.request_id, d.bucket_id, d.epoch, d.amount,
		d.fingerprint, d.nonce, d.counted_at, d.note, h.state, h.hold_group, h.hold_until_ms,
		h.confirmed, h.above, h.expires_as, h.expired, h.extra, h.uncollected, h.over_limit, h.late,
		h.used, h.asked, h.step, h.step_print, h.step_used, h.step_held, h.step_final
		FROM deduction d /*by PRIMARY*/
		LEFT JOIN hold h /*by PRIMARY*/ ON h.budget_id = d.budget_id AND h.request_id = d.request_id
		WHERE `
	inIDOrder     = ` ORDER BY d.budget_id, d.request_id`
	selectBacks   = `SELECT d.budget_id, d.request_id, SUM(d.amount) AS units FROM give_back d WHERE `
	perDeduction  = ` GROUP BY d.budget_id, d.request_id`
	lockDeduction = `d.budget_id, d.request_id`
)

// deductionRow is a deduction with its hold.
type deductionRow struct {
	books.Deduction
	State     *books.Word `db:"state"`
	Group     *string     `db:"hold_group"`
	HoldUntil *int64      `db:"hold_until_ms"`
	Confirmed *int64      `db:"confirmed"`
	Above     *books.Word `db:"above"`
	ExpiresAs *books.Word `db:"expires_as"`
	Expired   *int64      `db:"expired"`
	Extra     *int64      `db:"extra"`
	// Uncollected is NULL like the others if it never was a hold.
	Uncollected *int64 `db:"uncollected"`
	OverLimit   *int64 `db:"over_limit"`
	Late        *int64 `db:"late"`
	Used        *int64 `db:"used"`
	Asked       *int64 `db:"asked"`
	Step        *int64 `db:"step"`
	StepPrint   []byte `db:"step_print"`
	StepUsed    *int64 `db:"step_used"`
	StepHeld    *int64 `db:"step_held"`
	IsFinal     *int64 `db:"step_final"`
}

// deduction converts the row, with the units that came back.
func (r *deductionRow) deduction(back int64) (ledger.Deduction, error) {
	if r.State == nil {
		return r.Ledger(nil, back)
	}
	return r.Ledger(&books.Hold{State: *r.State, Group: r.Group, UntilMS: *r.HoldUntil,
		Confirmed: *r.Confirmed, Above: *r.Above, ExpiresAs: *r.ExpiresAs, Expired: *r.Expired,
		Extra: *r.Extra, Uncollected: *r.Uncollected, OverLimit: *r.OverLimit, Late: *r.Late,
		Used: *r.Used, Asked: *r.Asked, Step: *r.Step, StepPrint: string(r.StepPrint),
		StepUsed: *r.StepUsed, StepHeld: *r.StepHeld, IsFinal: *r.IsFinal}, back)
}

// CompareIDs orders ids as deductions are locked.
func CompareIDs(a, b bucket.ID) int {
	return cmp.Or(cmp.Compare(a.Budget, b.Budget), cmp.Compare(a.RequestID, b.RequestID))
}

// Recorded reads deductions by id, without locks, in one round trip. The result has no element for
// an id without a row. Error: Unavailable.
func Recorded(ctx context.Context, db *engine.DB, ids []bucket.ID) (
	map[bucket.ID]ledger.Deduction, error) {
	out := make(map[bucket.ID]ledger.Deduction, len(ids))
	var failed error
	err := bookkeeper.Look(ctx, db, "look up",
		DeductionsOf(SortedIDs(ids), "", db.TakesPackets(), out, &failed))
	if err = cmp.Or(err, failed); err != nil {
		return nil, err
	}
	return out, nil
}

// SortedIDs returns ids in lock order, without duplicates.
func SortedIDs(ids []bucket.ID) []bucket.ID {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, CompareIDs)
	return slices.Compact(ids)
}

// DeductionsOf returns the queries of the deductions with ids, which are sorted and without
// duplicates, and of what came back of them. lock is "" or Locked. Ids without a row are missing in
// the map, and not locked. The sum of what came back is complete under the lock, because only its
// holder writes it. many says whether a statement lists ids of several budgets.
func DeductionsOf(ids []bucket.ID, lock string, many bool, into map[bucket.ID]ledger.Deduction,
	failed *error) (out []bookkeeper.Query) {
	for chunk := range Chunks(ids, many) {
		var found []deductionRow
		out = append(out, func(s *engine.Statement, _ *books.Books) (any, func()) {
			found = nil
			s.SQL(selectDeductions)
			s.IDs(lockDeduction, chunk)
			s.SQL(inIDOrder + lock)
			return &found, func() {}
		}, func(s *engine.Statement, _ *books.Books) (any, func()) {
			var sums []backRow
			s.SQL(selectBacks)
			s.IDs(lockDeduction, chunk)
			s.SQL(perDeduction)
			return &sums, func() {
				back := make(map[bucket.ID]int64, len(sums))
				for _, sum := range sums {
					back[bucket.ID{Budget: sum.Budget, RequestID: sum.RequestID}] = sum.Units
				}
				for i := range found {
					id := bucket.ID{Budget: found[i].Budget, RequestID: found[i].RequestID}
					d, err := found[i].deduction(back[id])
					if err != nil {
						*failed = err
					}
					into[id] = d
				}
			}
		})
	}
	return out
}

// backRow is the sum of what came back of a deduction.
type backRow struct {
	Budget    int64  `db:"budget_id"`
	RequestID string `db:"request_id"`
	Units     int64  `db:"units"`
}

// Chunks divides ids, which are sorted, into lists of one statement each. many says whether a
// statement lists ids of several budgets.
func Chunks(ids []bucket.ID, many bool) iter.Seq[[]bucket.ID] {
	return func(yield func([]bucket.ID) bool) {
		for len(ids) > 0 {
			n := min(len(ids), engine.ListChunk)
			if !many {
				n = sameBudget(ids[:n])
			}
			if !yield(ids[:n]) {
				return
			}
			ids = ids[n:]
		}
	}
}

// sameBudget returns how many of the first ids belong to one budget.
func sameBudget(ids []bucket.ID) int {
	n := 1
	for n < len(ids) && ids[n].Budget == ids[0].Budget {
		n++
	}
	return n
}
