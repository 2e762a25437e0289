package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

var diffLookupGoals = []diffGoal{
	{"at: read", func(g *diffRun) (diffOp, bool) {
		var positions []diffPlace
		var seqs []int64
		for range g.between(1, 12) {
			at, found := g.place(func(*diffBudget, bucket.Bucket) bool { return g.chance(2) })
			if !found {
				return diffOp{}, false
			}
			at.epoch = max(1, at.epoch-int64(g.between(0, 1)))
			positions, seqs = append(positions, at), append(seqs, int64(g.between(0, 60)))
		}
		return diffOp{fmt.Sprintf("at %v %v", positions, seqs), func(s *diffStore) diffAnswer {
			list := make([]ledger.Position, len(positions))
			for i, p := range positions {
				list[i] = ledger.Position{Bucket: s.bucketID(p), Epoch: p.epoch, Seq: seqs[i]}
			}
			found, err := s.db.At(s.ctx, list)
			if err != nil {
				return failure("at", err)
			}
			text := fmt.Sprintf("%d found", len(found))
			for _, p := range list {
				if o, ok := found[p]; ok {
					text += "\n   " + s.outcome(o)
				}
			}
			return answer("at: read", "%s", text)
		}}, true
	}},
	{"recorded: read", always(func(g *diffRun) diffOp {
		ids := map[int][]string{-1: {"a"}}
		for range 2 {
			b := g.any()
			ids[b.index] = g.someIDs(b, 10)
		}
		return diffOp{fmt.Sprintf("recorded %v", ids), func(s *diffStore) diffAnswer {
			var list []bucket.ID
			for index, of := range ids {
				for _, id := range of {
					list = append(list, bucket.ID{Budget: s.id(index), RequestID: id})
				}
			}
			found, err := s.db.Recorded(s.ctx, list)
			if err != nil {
				return failure("recorded", err)
			}
			return answer("recorded: read", "%s", deductionTexts(s, found))
		}}
	})},
	{"judge: read", always(func(g *diffRun) diffOp {
		b := g.any()
		ids := g.someIDs(b, 10)
		return diffOp{fmt.Sprintf("judge %d %q", b.index, ids), func(s *diffStore) diffAnswer {
			j, err := s.db.Judge(s.ctx, s.id(b.index), ids)
			if err != nil {
				return failure("judge", err)
			}
			return answer("judge: read", "%+v %s %s", j.Cover, s.period(j.Period), deductionTexts(s, j.Recorded))
		}}
	})},
	{"epochs: read", always(func(g *diffRun) diffOp {
		b := g.ref.read(g.any().index)
		places := []diffPlace{}
		index := g.ref.buckets[b.Buckets[0].ID].budget
		for i, shard := range b.Buckets {
			places = append(places, diffPlace{index, i, int64(g.between(1, int(shard.Epoch.Number)+1))})
		}
		return diffOp{fmt.Sprintf("epochs %v", places), func(s *diffStore) diffAnswer {
			refs := make([]bucket.Ref, len(places))
			for i, p := range places {
				refs[i] = s.ref(p)
			}
			rows, err := s.db.Epochs(s.ctx, refs)
			if err != nil {
				return failure("epochs", err)
			}
			text := fmt.Sprintf("%d found", len(rows))
			for _, ref := range refs {
				if row, ok := rows[ref]; ok {
					text += "\n   " + s.epoch(row)
				}
			}
			return answer("epochs: read", "%s", text)
		}}
	})},
	{"prefix: read", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(*diffBudget, bucket.Bucket) bool { return true })
		seq, grants := int64(g.between(0, 60)), int64(g.between(0, 6))
		return diffOp{fmt.Sprintf("prefix %v %d %d", at, seq, grants), func(s *diffStore) diffAnswer {
			granted, deducted, err := s.db.Prefix(s.ctx, s.ref(at), seq, grants)
			if err != nil {
				return failure("prefix", err)
			}
			return answer("prefix: read", "%d %d", granted, deducted)
		}}, found
	}},
	{"figures: read", always(func(g *diffRun) diffOp {
		b := g.any()
		return diffOp{fmt.Sprintf("figures %d", b.index), func(s *diffStore) diffAnswer {
			f, err := s.db.Figures(s.ctx, s.id(b.index))
			if err != nil {
				return failure("figures", err)
			}
			return answer("figures: read", "%+v", f)
		}}
	})},
	{"accounts: read", always((*diffRun).create)}, // of the budget that is replaced
}

// someIDs returns request ids of a budget, one of which was never used.
func (g *diffRun) someIDs(b *diffBudget, n int) []string {
	ids := []string{"never"}
	for range n {
		if len(b.ids) > 0 {
			ids = append(ids, pick(g, b.ids))
		}
		if len(b.voids) > 0 && g.chance(4) {
			ids = append(ids, pick(g, b.voids))
		}
	}
	return ids
}

func deductionTexts[K comparable](s *diffStore, found map[K]ledger.Deduction) string {
	texts := make([]string, 0, len(found))
	for _, d := range found {
		texts = append(texts, s.deduction(d))
	}
	slices.Sort(texts)
	return strings.Join(texts, "; ")
}

// diffAccounts reads a budget's accounts, which must balance.
func diffAccounts(index int) diffOp {
	return diffOp{fmt.Sprintf("accounts %d", index), func(s *diffStore) diffAnswer {
		a, err := s.db.Accounts(s.ctx, s.id(index))
		if err != nil {
			return failure("accounts", err)
		}
		text := fmt.Sprintf("%+v %d", a.Figures, a.Adjusted)
		for _, e := range a.Epochs {
			text += fmt.Sprintf("\n   %s granted %d closed %d swept %d deducted %d duplicates %d rolled "+
				"back %d noted %d [%s]",
				e.Bucket, e.Granted, e.Closed, e.Row.Swept, e.Deducted, e.Duplicates, e.RolledBack, e.Noted,
				s.epoch(e.Row))
		}
		text += fmt.Sprintf("\n   now %d over %v", a.Current.Number, a.Current.Over)
		for _, p := range a.Periods {
			text += fmt.Sprintf("\n   %s left %d, %d, %d", s.period(p.Period), p.Returned, p.Passed, p.Forfeited)
		}
		for _, d := range a.Check() {
			text += "\n   VIOLATED " + d.String()
		}
		if strings.Contains(text, "VIOLATED") {
			return answer("accounts: violated", "%s (this database)", text)
		}
		return answer("accounts: read", "%s", text)
	}}
}

var diffReturnGoals = []diffGoal{
	{"rollback: done", func(g *diffRun) (diffOp, bool) {
		b, d, found := g.recorded(ledger.StateUsed)
		order := bucket.RollbackOrder{RequestID: d.RequestID, RollbackID: g.rollbackID(b)}
		if g.chance(2) && found {
			order.Amount = int64(g.between(1, int(d.Amount-d.RolledBack)))
		}
		if g.chance(4) && found && !slices.ContainsFunc(b.rollbacks, func(r bucket.RollbackOrder) bool {
			return r.RequestID == d.RequestID && r.RollbackID == ""
		}) {
			order.RollbackID = ""
		}
		if found {
			b.rollbacks = append(b.rollbacks, order)
		}
		return diffRollback(b, order), found
	}},
	{"rollback: replayed", func(g *diffRun) (diffOp, bool) {
		b, order, found := g.rolledBack()
		return diffRollback(b, order), found
	}},
	{"rollback: request_conflict", func(g *diffRun) (diffOp, bool) {
		b, order, found := g.rolledBack()
		switch {
		case order.Amount == 0:
			order.Amount = 1
		case g.chance(2):
			order.Amount = 0
		default:
			order.Amount++
		}
		return diffRollback(b, order), found
	}},
	{"rollback: amount_exceeds_remaining", func(g *diffRun) (diffOp, bool) {
		b, d, found := g.recorded(ledger.StateUsed)
		return diffRollback(b, bucket.RollbackOrder{RequestID: d.RequestID, RollbackID: g.rollbackID(b),
			Amount: d.Amount - d.RolledBack + int64(g.between(1, 3))}), found
	}},
	{"rollback: already_rolled_back", func(g *diffRun) (diffOp, bool) {
		b, d, found := g.recorded(ledger.StateRolledBack)
		return diffRollback(b, bucket.RollbackOrder{RequestID: d.RequestID, RollbackID: g.rollbackID(b),
			Amount: int64(g.between(0, 2))}), found
	}},
	{"rollback: deduction_not_found", always(func(g *diffRun) diffOp {
		return diffRollback(g.any(), bucket.RollbackOrder{RequestID: "never"})
	})},
	{"rollback: request_void", func(g *diffRun) (diffOp, bool) {
		b, id, found := g.void()
		return diffRollback(b, bucket.RollbackOrder{RequestID: id, Amount: int64(g.between(0, 1))}), found
	}},
	{"cancel: void", always(func(g *diffRun) diffOp {
		b := g.any()
		b.requests++
		id := fmt.Sprintf("void-%d", b.requests)
		b.voids = append(b.voids, id)
		return diffCancel(b, id, "cancel: void")
	})},
	{"cancel: void again", func(g *diffRun) (diffOp, bool) {
		b, id, found := g.void()
		return diffCancel(b, id, "cancel: void again"), found
	}},
	{"cancel: rolled back", func(g *diffRun) (diffOp, bool) {
		b, d, found := g.recorded(ledger.StateUsed)
		return diffCancel(b, d.RequestID, "cancel: rolled back"), found
	}},
	{"cancel: rolled back before", func(g *diffRun) (diffOp, bool) {
		b, d, found := g.recorded(ledger.StateRolledBack)
		return diffCancel(b, d.RequestID, "cancel: rolled back before"), found
	}},
	{"sweep: moved", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(b *diffBudget, _ bucket.Bucket) bool {
			f, err := g.ref.db.Figures(g.ref.ctx, g.ref.id(b.index))
			return err == nil && f.Returning > 0
		})
		return diffSweep(at.budget), found
	}},
	{"sweep: nothing", always(func(g *diffRun) diffOp {
		b := g.any()
		g.do(diffSweep(b.index))
		return diffSweep(b.index)
	})},
}

// recorded finds a deduction in a state.
func (g *diffRun) recorded(state ledger.State) (*diffBudget, ledger.Deduction, bool) {
	for range 10 {
		b := g.any()
		var ids []bucket.ID
		for _, id := range g.someIDs(b, 20) {
			ids = append(ids, bucket.ID{Budget: g.ref.id(b.index), RequestID: id})
		}
		found, err := g.ref.db.Recorded(g.ref.ctx, ids)
		if err != nil {
			panic(err)
		}
		for _, id := range ids {
			if d, ok := found[id]; ok && d.State == state {
				return b, d, true
			}
		}
	}
	return g.any(), ledger.Deduction{}, false
}

// rolledBack finds a rollback that was done.
func (g *diffRun) rolledBack() (*diffBudget, bucket.RollbackOrder, bool) {
	for range 10 {
		if b := g.any(); len(b.rollbacks) > 0 {
			return b, pick(g, b.rollbacks), true
		}
	}
	return g.any(), bucket.RollbackOrder{}, false
}

func (g *diffRun) void() (*diffBudget, string, bool) {
	for range 10 {
		if b := g.any(); len(b.voids) > 0 {
			return b, pick(g, b.voids), true
		}
	}
	return g.any(), "", false
}

func (g *diffRun) rollbackID(b *diffBudget) string {
	b.requests++
	return fmt.Sprintf("r-%d", b.requests)
}

func diffRollback(b *diffBudget, order bucket.RollbackOrder) diffOp {
	return diffOp{fmt.Sprintf("rollback %d %+v", b.index, order), func(s *diffStore) diffAnswer {
		mine := order
		mine.Budget = s.id(b.index)
		d, replayed, err := s.db.Rollback(s.ctx, mine)
		switch {
		case err != nil:
			return failure("rollback", err)
		case replayed:
			return answer("rollback: replayed", "replayed %s", s.deduction(d))
		}
		return answer("rollback: done", "%s", s.deduction(d))
	}}
}

func diffCancel(b *diffBudget, id, result string) diffOp {
	return diffOp{fmt.Sprintf("cancel %d %q", b.index, id), func(s *diffStore) diffAnswer {
		d, err := s.db.Cancel(s.ctx, s.id(b.index), id)
		if err != nil {
			return failure("cancel", err)
		}
		return answer(result, "%s", s.deduction(d))
	}}
}

func diffSweep(index int) diffOp {
	return diffOp{fmt.Sprintf("sweep %d", index), func(s *diffStore) diffAnswer {
		moved, err := s.db.Sweep(s.ctx, s.id(index))
		switch {
		case err != nil:
			return failure("sweep", err)
		case moved == 0:
			return answer("sweep: nothing", "0")
		}
		return answer("sweep: moved", "%d", moved)
	}}
}
