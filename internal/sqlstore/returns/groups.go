package returns

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
)

const (
	selectMembers = `SELECT h.request_id FROM hold h /*by hold_of_group*/
		WHERE h.budget_id = ? AND h.hold_group = ? ORDER BY h.request_id`
	selectGroup = `SELECT g.state FROM group_of_holds g /*by PRIMARY*/
		WHERE g.budget_id = ? AND g.hold_group = ?` + rows.Locked
	updateGroup = `UPDATE group_of_holds SET state = ? WHERE budget_id = ? AND hold_group = ?`
)

// ExecuteGroup executes an order on a group: see hold.Ledger. A deduction that joins the group
// locks its row too, so the list of members is complete while the row is locked. Keeps I1, I5, I6.
func (p *Part) ExecuteGroup(ctx context.Context, order hold.GroupOrder) (
	out []hold.Result, err error) {
	tried := false // an earlier attempt wrote it, committed or not
	redo := &redo{}
	err = p.db.Write(ctx, order.Kind.String()+" group", func(t *engine.Tx) error {
		s := p.begin(t, redo)
		members, locked, err := s.lockGroup(order)
		if err != nil {
			return err
		}
		for _, d := range locked {
			if err := refuseOthers(order.Kind.String(), order.OnlyBy, d); err != nil {
				return err
			}
		}
		replayed, err := s.executeGroup(order, members)
		if err != nil {
			return err
		}
		out = out[:0]
		for _, d := range locked {
			if order.Kind != hold.Extend || d.isChanged {
				out = append(out, hold.Result{Deduction: d.Deduction,
					Replayed: replayed && !(t.Unsure && tried)})
			}
		}
		tried = tried || !replayed
		return s.write()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// executeGroup decides the outcome of a locked group and its members.
func (s *execution) executeGroup(o hold.GroupOrder, m *ledger.Members) (replayed bool, err error) {
	now := s.tx.DB.Now()
	state := ledger.GroupRolledBack
	switch o.Kind {
	case hold.Confirm:
		use, replayed, err := m.Confirm(now)
		if err != nil || replayed {
			return replayed, err
		}
		state = ledger.GroupUsed
		for _, end := range use {
			s.endHold(s.known[bucket.ID{Budget: o.Budget, RequestID: end.RequestID}], end)
		}
	case hold.Rollback:
		back, replayed, err := m.Rollback()
		if err != nil || replayed {
			return replayed, err
		}
		for _, r := range back {
			s.giveBack(s.known[bucket.ID{Budget: o.Budget, RequestID: r.RequestID}], r)
		}
	case hold.Extend:
		longer, err := m.Extend(now)
		if err != nil {
			return false, err
		}
		for i := range longer {
			s.extend(s.known[idOf(&longer[i])], o.TTL.Milliseconds())
		}
		return false, nil
	default:
		return false, engine.Defect("an order of kind %d for a group", o.Kind)
	}
	return false, s.tx.Hit(1, updateGroup, string(state), o.Budget, []byte(o.Group))
}

// lockGroup locks the members of a group, then its row. locked lists the members by request id.
func (s *execution) lockGroup(o hold.GroupOrder) (
	_ *ledger.Members, locked []*deduction, err error) {
	ids, err := s.members(o)
	if err != nil {
		return nil, nil, err
	}
	out := &ledger.Members{Group: o.Group, State: ledger.GroupOpen}
	if len(ids) == 0 {
		_, err := rows.ReadBudget(&s.tx.Reader, o.Kind.String(), o.Budget)
		return out, nil, err
	}
	if locked, err = s.lock(ids); err != nil {
		return nil, nil, err
	}
	var state string
	found, err := s.tx.Get(&state, selectGroup, o.Budget, []byte(o.Group))
	if err != nil {
		return nil, nil, err
	}
	if !found {
		return nil, nil, engine.Defect("the group %q of budget %d has members and no row", o.Group,
			o.Budget)
	}
	again, err := s.members(o)
	if err != nil {
		return nil, nil, err
	}
	if !slices.Equal(ids, again) || len(locked) != len(ids) {
		return nil, nil, engine.ErrAgain
	}
	out.State = ledger.GroupState(state)
	for _, d := range locked {
		out.Deductions = append(out.Deductions, d.Deduction)
	}
	return out, locked, nil
}

func (s *execution) members(o hold.GroupOrder) (ids []bucket.ID, err error) {
	var texts [][]byte
	if err := s.tx.List(&texts, selectMembers, o.Budget, []byte(o.Group)); err != nil {
		return nil, err
	}
	for _, text := range texts {
		ids = append(ids, bucket.ID{Budget: o.Budget, RequestID: string(text)})
	}
	return ids, nil
}
