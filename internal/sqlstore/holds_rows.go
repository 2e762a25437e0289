package sqlstore

import (
	"cmp"
	"maps"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// holdEnding is a locked hold and how it ends.
type holdEnding struct {
	locked *lockedDeduction
	end    ledger.HoldEnd
}

// compareIDs orders ids as deductions are locked.
func compareIDs(a, b bucket.ID) int {
	return cmp.Or(cmp.Compare(a.Budget, b.Budget), cmp.Compare(a.RequestID, b.RequestID))
}

// lockDeductions is lockDeduction for several deductions, none of which is a tombstone: all epochs first,
// then the deductions, in the order of their ids. One that does not exist is missing.
func (t *tx) lockDeductions(ids []bucket.ID) ([]*lockedDeduction, error) {
	slices.SortFunc(ids, compareIDs)
	before, err := t.withNewest(ids, "")
	if err != nil {
		return nil, err
	}
	var positions []position
	for i := range before {
		d := before[i].deduction()
		positions = append(positions, position{d.Position.Bucket, d.Position.Epoch},
			position{d.Position.Bucket, orZero(before[i].Newest)})
	}
	rows, err := t.lockEpochs(positions...)
	if err != nil {
		return nil, err
	}
	after, err := t.withNewest(ids, locked)
	if err != nil {
		return nil, err
	}
	if len(after) != len(before) {
		return nil, errAgain
	}
	out := make([]*lockedDeduction, len(after))
	for i := range after {
		d := after[i].deduction()
		out[i] = &lockedDeduction{deduction: d, own: rows[position{d.Position.Bucket, d.Position.Epoch}],
			newest:      rows[position{d.Position.Bucket, orZero(after[i].Newest)}],
			periodEndMS: orZero(after[i].PeriodEnd)}
		if out[i].own == nil || out[i].newest == nil {
			return nil, errAgain // its bucket got another epoch before the lock
		}
	}
	return out, nil
}

// selectAllWithNewest is selectWithNewest for ids of one budget.
const selectAllWithNewest = `SELECT ` + deductionColumns + `,
	(SELECT MAX(n.epoch) FROM bucket_epoch n WHERE n.bucket_id = d.bucket_id) AS newest,
	(SELECT p.end_ms FROM bucket_epoch o JOIN budget_period p ON p.budget_id = o.budget_id AND p.number = o.period
		WHERE o.bucket_id = d.bucket_id AND o.epoch = d.epoch) AS period_end
	FROM deduction d /*by PRIMARY*/ WHERE ` + ofBudget

// withNewest reads deductions, whose ids are sorted, in that order, with a suffix to the statements (a lock).
func (t *tx) withNewest(ids []bucket.ID, suffix string) (out []deductionWithNewest, err error) {
	for len(ids) > 0 {
		n := min(sameBudget(ids), listChunk)
		list := padded(t.conn.dialect, ids[:n])
		args := []any{ids[0].Budget}
		for _, id := range list {
			args = append(args, []byte(id.RequestID))
		}
		var rows []deductionWithNewest
		query := selectAllWithNewest + repeat("?", ",", len(list)) + ") ORDER BY d.request_id" + suffix
		if err := t.list(&rows, query, args...); err != nil {
			return nil, err
		}
		out = append(out, rows...)
		ids = ids[n:]
	}
	return out, nil
}

const selectHoldEnd = `SELECT kind, amount, returned, entry FROM hold_log WHERE budget_id = ? AND request_id = ?`

// holdEnd reads how a hold ended, nil if it has not, or was rolled back.
func (t *tx) holdEnd(d ledger.Deduction) (*ledger.HoldEnd, error) {
	var row struct {
		Kind     string `db:"kind"`
		Amount   int64  `db:"amount"`
		Returned int64  `db:"returned"`
		Entry    *int64 `db:"entry"`
	}
	found, err := t.get(&row, selectHoldEnd, d.Budget, []byte(d.RequestID))
	if err != nil || !found {
		return nil, err
	}
	return &ledger.HoldEnd{Budget: d.Budget, RequestID: d.RequestID, Kind: ledger.FeedKind(row.Kind),
		Amount: row.Amount, Returned: row.Returned, Entry: orZero(row.Entry)}, nil
}

const (
	insertHoldEnd = `INSERT INTO hold_log (budget_id, request_id, kind, amount, returned, bucket_id, epoch, entry,
		created_at)`
	holdEndWidth = 9
	updateEnded  = `UPDATE deduction /*by PRIMARY*/ SET rolled_back = $value, confirmed = $value, state = $value WHERE `
	oneRequest   = `budget_id = ? AND request_id = ?`
	stillHeld    = oneRequest + ` AND state = ? AND rolled_back = ?`
	moveHeld     = `UPDATE bucket_epoch /*by PRIMARY*/ SET held_quantity = held_quantity - $value,
		used_quantity = used_quantity + $value, returning_quantity = returning_quantity + $value,
		late_quantity = late_quantity + $value WHERE `
	moveHeldWhere = ofEpoch + ` AND held_quantity >= ?`
	takeEntries   = `UPDATE bucket_epoch /*by PRIMARY*/ SET next_entry = $value WHERE `
	entriesWhere  = ofEpoch + ` AND next_entry = ?`
)

// endHolds writes how locked holds end: all of them with a few statements. It returns the deductions after
// it, in the order given.
func (t *tx) endHolds(endings []holdEnding) (after []ledger.Deduction, err error) {
	var rows, keys []any
	var changes []rowChange
	var counts []countsBack
	moved, taken := map[*epochRow]*heldMove{}, map[*epochRow]int64{}
	for _, e := range endings {
		l, end, before := e.locked, e.end, e.locked.deduction
		d := ledger.AfterEnd(before, end)
		after = append(after, d)
		rows = append(rows, d.Budget, []byte(d.RequestID), string(end.Kind), end.Amount, end.Returned,
			d.Position.Bucket, d.Position.Epoch, l.newest.NextEntry+taken[l.newest], toMS(t.now))
		taken[l.newest]++
		key := []any{d.Budget, []byte(d.RequestID)}
		keys = append(keys, key...)
		changes = append(changes, rowChange{key: key, values: []any{d.RolledBack, d.Confirmed, string(d.State)},
			where: append(slices.Clone(key), string(before.State), before.RolledBack)})
		if moved[l.own] == nil {
			moved[l.own] = &heldMove{}
		}
		moved[l.own].add(before, d, l.late(t.now, end.Returned))
		counts = append(counts, countsBack{before, d.RolledBack, l.newest.LimitsVersion})
	}
	if err := t.insert(insertHoldEnd, holdEndWidth, rows); err != nil {
		return nil, err
	}
	if err := t.changeRows(updateEnded, oneRequest, stillHeld, changes); err != nil {
		return nil, err
	}
	if err := t.endOpenHolds(keys...); err != nil {
		return nil, err
	}
	if err := t.moveHeld(moved, taken); err != nil {
		return nil, err
	}
	return after, t.returnCounts(counts...)
}

// heldMove is what leaves an epoch's H, and where it goes.
type heldMove struct{ held, used, returning, late int64 }

func (m *heldMove) add(before, after ledger.Deduction, late int64) {
	back := after.RolledBack - before.RolledBack
	m.held += before.Amount - before.RolledBack
	m.used += before.Amount - before.RolledBack - back
	m.returning += back
	m.late += late
}

// moveHeld moves units on locked epochs, and the numbers of the next entries on the newest ones.
func (t *tx) moveHeld(moved map[*epochRow]*heldMove, taken map[*epochRow]int64) error {
	byKey := func(a, b *epochRow) int { return comparePositions(a.position(), b.position()) }
	var moves, entries []rowChange
	for _, row := range slices.SortedFunc(maps.Keys(moved), byKey) {
		m := moved[row]
		moves = append(moves, rowChange{key: []any{row.Bucket, row.Number},
			values: []any{m.held, m.used, m.returning, m.late}, where: []any{row.Bucket, row.Number, m.held}})
	}
	for _, row := range slices.SortedFunc(maps.Keys(taken), byKey) {
		entries = append(entries, rowChange{key: []any{row.Bucket, row.Number},
			values: []any{row.NextEntry + taken[row]}, where: []any{row.Bucket, row.Number, row.NextEntry}})
	}
	if err := t.changeRows(moveHeld, ofEpoch, moveHeldWhere, moves); err != nil {
		return err
	}
	return t.changeRows(takeEntries, ofEpoch, entriesWhere, entries)
}

const (
	selectMembers = `SELECT m.request_id FROM group_member m /*by PRIMARY*/
		WHERE m.hold_group = ? AND m.budget_id = ? ORDER BY m.request_id`
	insertGroup = `INSERT INTO group_of_holds (budget_id, hold_group, state, created_at)`
	groupWidth  = 4
	selectGroup = `SELECT g.budget_id, g.hold_group, g.state FROM group_of_holds g /*by PRIMARY*/ WHERE `
	oneGroup    = `(g.budget_id = ? AND g.hold_group = ?)`
	updateGroup = `UPDATE group_of_holds SET state = ? WHERE budget_id = ? AND hold_group = ?`
	// selectInStore lists those of some budgets that are in store mode.
	selectInStore = `SELECT id FROM budget_management_bucket /*by PRIMARY*/ WHERE durability = 'store' AND id IN (`
)

type groupRow struct {
	Budget int64  `db:"budget_id"`
	Group  []byte `db:"hold_group"`
	State  string `db:"state"`
}

// groupKey names a group of holds.
type groupKey struct {
	budget int64
	group  string
}

// lockGroup locks the members of a group and then its row, in the lock order; whoever commits another member
// locks that row too, so the list is complete as long as it is locked. The map is by request id.
func (t *tx) lockGroup(op string, order bucket.HoldOrder) (*ledger.Members, map[string]*lockedDeduction, error) {
	ids, err := t.members(order)
	if err != nil {
		return nil, nil, err
	}
	out := &ledger.Members{Group: order.Group, State: ledger.GroupOpen}
	if len(ids) == 0 {
		_, err := t.budget(op, order.Budget, "")
		return out, nil, err
	}
	found, err := t.lockDeductions(slices.Clone(ids))
	if err != nil {
		return nil, nil, err
	}
	rows, err := t.lockGroups([]groupKey{{order.Budget, order.Group}})
	if err != nil {
		return nil, nil, err
	}
	again, err := t.members(order)
	if err != nil {
		return nil, nil, err
	}
	if !slices.Equal(ids, again) || len(found) != len(ids) {
		return nil, nil, errAgain
	}
	out.State = rows[groupKey{order.Budget, order.Group}]
	byID := map[string]*lockedDeduction{}
	for _, l := range found {
		out.Deductions = append(out.Deductions, l.deduction)
		byID[l.deduction.RequestID] = l
	}
	return out, byID, nil
}

func (t *tx) members(order bucket.HoldOrder) (ids []bucket.ID, err error) {
	var texts [][]byte
	if err := t.list(&texts, selectMembers, []byte(order.Group), order.Budget); err != nil {
		return nil, err
	}
	for _, text := range texts {
		ids = append(ids, bucket.ID{Budget: order.Budget, RequestID: string(text)})
	}
	return ids, nil
}

// lockGroups makes the rows of groups that are missing, and locks and reads all, in the order of their keys.
func (t *tx) lockGroups(keys []groupKey) (map[groupKey]ledger.GroupState, error) {
	slices.SortFunc(keys, func(a, b groupKey) int {
		return cmp.Or(cmp.Compare(a.budget, b.budget), cmp.Compare(a.group, b.group))
	})
	keys = slices.Compact(keys)
	var args []any
	for _, k := range keys {
		args = append(args, k.budget, []byte(k.group), string(ledger.GroupOpen), toMS(t.now))
	}
	if err := t.insertOr(insertGroup, groupWidth, t.conn.dialect.keepGroup, args); err != nil {
		return nil, err
	}
	out := make(map[groupKey]ledger.GroupState, len(keys))
	for chunk := range slices.Chunk(keys, listChunk) {
		chunk = padded(t.conn.dialect, chunk)
		args := make([]any, 0, 2*len(chunk))
		for _, k := range chunk {
			args = append(args, k.budget, []byte(k.group))
		}
		var rows []groupRow
		query := selectGroup + repeat(oneGroup, " OR ", len(chunk)) + ` ORDER BY g.budget_id, g.hold_group` + locked
		if err := t.list(&rows, query, args...); err != nil {
			return nil, err
		}
		for _, row := range rows {
			out[groupKey{row.Budget, string(row.Group)}] = ledger.GroupState(row.State)
		}
	}
	return out, nil
}

// closeGroup notes what closed a group, whose row is locked.
func (t *tx) closeGroup(order bucket.HoldOrder, state ledger.GroupState) error {
	return t.hit(1, updateGroup, string(state), order.Budget, []byte(order.Group))
}

// closedGroups are the groups of a commit's entries that take no member any more.
type closedGroups map[groupKey]bool

// closedGroups locks the groups that entries would become members of: those whose ids are not recorded. In
// store mode no entry is refused, as its caller has been told "accepted": such a late member is a hold by
// itself.
func (t *tx) closedGroups(logs []ledger.Log, rows map[position]*epochRow, recorded recordedIDs) (
	closedGroups, error) {
	keys, budgets := map[groupKey]bool{}, map[int64]bool{}
	for i := range logs {
		row := rows[position{logs[i].Bucket, logs[i].Epoch}]
		if row == nil || !row.live() || row.Fenced != "" {
			continue
		}
		for j := range logs[i].Entries {
			e := &logs[i].Entries[j]
			if e.Kind == ledger.KindDeduct && e.Request.Group != "" && e.Seq > row.DrainedSeq &&
				len(e.Request.Group) <= budget.MaxRequestIDBytes && !recorded.has(row.Budget, e.Request.ID) {
				keys[groupKey{row.Budget, e.Request.Group}], budgets[row.Budget] = true, true
			}
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	states, err := t.lockGroups(slices.Collect(maps.Keys(keys)))
	if err != nil {
		return nil, err
	}
	args := t.numbersOf(slices.Sorted(maps.Keys(budgets)))
	var inStore []int64
	if err := t.list(&inStore, selectInStore+repeat("?", ",", len(args))+")", args...); err != nil {
		return nil, err
	}
	closed := closedGroups{}
	for key, state := range states {
		closed[key] = state != ledger.GroupOpen && !slices.Contains(inStore, key.budget)
	}
	return closed, nil
}

// judge puts the groups before a judge of limits, which may be nil.
func (c closedGroups) judge(budgetID int64, limits ledger.Judge) ledger.Judge {
	if len(c) == 0 {
		return limits
	}
	return ledger.WithGroups(func(group string) bool { return c[groupKey{budgetID, group}] }, limits)
}
