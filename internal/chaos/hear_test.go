package chaos

import (
	"strings"
	"testing"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// TestHeard checks that answers which no correct service gives are recorded, and correct ones are
// not.
func TestHeard(t *testing.T) {
	refused := func(code budget.Code) error { return &client.Problem{Status: 409, Code: code} }
	exhausted := func(available int64) error {
		return &client.Problem{Status: 409, Code: budget.BudgetExhausted, Available: &available}
	}
	yes := func(replayed bool) *client.DeductAnswer {
		return &client.DeductAnswer{Amount: 5, Bucket: "a", Replayed: replayed}
	}
	lost := &client.UnknownOutcome{Last: refused(budget.OutcomeUnknown)}
	back := func(state string, units int64) *client.Deduction {
		return &client.Deduction{State: state, RolledBack: units}
	}
	part2 := func(r *record) *part { r.parts["p"] = &part{amount: 2}; return r.parts["p"] }
	for _, tt := range []struct {
		name string
		hear func(b *book, r *record)
		want string // part of the violation; "": none
	}{
		{"accepted, then replayed", func(b *book, r *record) {
			b.heard(r, yes(false), nil)
			b.heard(r, yes(true), nil)
		}, ""},
		{"accepted twice", func(b *book, r *record) {
			b.heard(r, yes(false), nil)
			b.heard(r, yes(false), nil)
		}, "accepted twice"},
		{"open, then replayed", func(b *book, r *record) { b.heard(r, nil, lost); b.heard(r, yes(true), nil) }, ""},
		{"moved", func(b *book, r *record) {
			b.heard(r, yes(false), nil)
			b.heard(r, &client.DeductAnswer{Amount: 5, Bucket: "b", Replayed: true}, nil)
		}, "its replay says b"},
		{"another amount", func(b *book, r *record) { b.heard(r, &client.DeductAnswer{Amount: 6}, nil) },
			"answered"},
		{"refused", func(b *book, r *record) { b.heard(r, nil, exhausted(4)) }, ""},
		{"refused for no reason", func(b *book, r *record) { b.heard(r, nil, exhausted(5)) }, "for no reason"},
		{"refused although there is plenty", func(b *book, r *record) {
			b.plenty = true
			b.heard(r, nil, exhausted(4))
		}, "cannot run out"},
		{"an accepted id refused", func(b *book, r *record) {
			b.heard(r, yes(false), nil)
			b.heard(r, nil, exhausted(4))
		}, "refused now"},
		{"void, never cancelled", func(b *book, r *record) { b.heard(r, nil, refused(budget.RequestVoid)) },
			"never cancelled"},
		{"another code", func(b *book, r *record) { b.heard(r, nil, refused(budget.BudgetPaused)) },
			"budget_paused"},
		{"a conflict with itself", func(b *book, r *record) {
			b.heard(r, nil, refused(budget.RequestConflict))
		}, "request_conflict"},
		{"cancelled, then accepted", func(b *book, r *record) {
			b.heardCancel(r, back("void", 0), nil)
			b.heard(r, yes(false), nil)
		}, "cancelled before"},
		{"cancelled, then void", func(b *book, r *record) {
			b.heardCancel(r, back("void", 0), nil)
			b.heard(r, nil, refused(budget.RequestVoid))
		}, ""},
		{"accepted, and its cancel says void", func(b *book, r *record) {
			b.heard(r, yes(false), nil)
			b.heardCancel(r, back("void", 0), nil)
		}, "its cancel says void"},
		{"a cancel gives back too little", func(b *book, r *record) {
			b.heard(r, yes(false), nil)
			b.heardCancel(r, back("rolled_back", 4), nil)
		}, "cancel of id"},
		{"given back too much", func(b *book, r *record) { b.heardRollback(r, part2(r), back("used", 6), nil) },
			"rollback of 2"},
		{"given back too little", func(b *book, r *record) {
			b.heardRollback(r, part2(r), back("used", 1), nil)
		}, "rollback of 2"},
		{"given back", func(b *book, r *record) { b.heardRollback(r, part2(r), back("used", 2), nil) }, ""},
		{"an accepted id not found", func(b *book, r *record) {
			b.heardRollback(r, part2(r), nil, refused(budget.DeductionNotFound))
		}, "deduction_not_found"},
		{"a rollback done and refused", func(b *book, r *record) {
			p := part2(r)
			b.heardRollback(r, p, back("used", 2), nil)
			b.heardRollback(r, p, nil, refused(budget.AlreadyRolledBack))
		}, "is refused now"},
		{"another amount accepted", func(b *book, r *record) { b.heardConflict(r, yes(true), nil) },
			"was sent with 6"},
		{"another amount refused", func(b *book, r *record) {
			b.heardConflict(r, nil, refused(budget.RequestConflict))
		}, ""},
		{"an append refused", func(b *book, _ *record) {
			b.heardAdjust(b.adjust("a", 5), refused(budget.AmountExceedsRemaining))
		}, "adjustment a"},
		{"an append done and refused", func(b *book, _ *record) {
			a := b.adjust("a", -5)
			b.heardAdjust(a, nil)
			b.heardAdjust(a, refused(budget.AmountExceedsRemaining))
		}, "is refused now"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBook("b", 100)
			tt.hear(b, b.add("id", 5, ""))
			got := strings.Join(b.wrong, "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("violations %q, want one with %q", got, tt.want)
			}
		})
	}
}

// TestOpenUntilSettled checks that an uncertain outcome stays open until an answer settles it.
func TestOpenUntilSettled(t *testing.T) {
	lost := &client.UnknownOutcome{}
	available := int64(0)
	b := newBook("b", 100)
	r := b.add("id", 5, "")
	b.heard(r, nil, lost)
	if r.settled() {
		t.Error("an unknown outcome is settled")
	}
	b.heard(r, nil, &client.Problem{Status: 409, Code: budget.BudgetExhausted, Available: &available})
	if r.settled() {
		t.Error("a refusal settled an earlier attempt")
	}
	b.heard(r, nil, &client.Problem{Status: 409, Code: budget.BudgetExhausted, Available: &available,
		Cancelled: true})
	if r.cancel != cancelOpen || r.settled() {
		t.Error("the client's cancel does not tell what became of it")
	}
	b.heardCancel(r, &client.Deduction{State: "rolled_back", RolledBack: 5}, nil)
	if !r.settled() || !r.accepted || r.returned() != 5 {
		t.Errorf("after the cancel: %+v", *r)
	}
	p := &part{amount: 2}
	r.parts["p"] = p
	b.heardRollback(r, p, nil, lost)
	if r.settled() {
		t.Error("an unknown rollback is settled")
	}
	b.heardRollback(r, p, nil, &client.Problem{Status: 409, Code: budget.AlreadyRolledBack})
	if !r.settled() || p.done || len(b.wrong) > 0 {
		t.Errorf("after the refusal: %+v, %v", *p, b.wrong)
	}
}
