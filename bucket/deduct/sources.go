package deduct

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// sources is what the sources of one leg of a request have in common.
type sources struct {
	first  int64 // the budget by which the leg goes
	amount int64
	whole  bool
}

// active yields the legs of the present attempt.
func (o *Op) active(yield func(*Leg) bool) {
	for l := range o.legs {
		if !l.idle && !yield(l) {
			return
		}
	}
}

// asked yields what the request asks for: of each leg the one budget, or all of its sources.
func (o *Op) asked(yield func([]*Leg) bool) {
	var group []*Leg
	for l := range o.legs {
		if len(group) > 0 && (l.from == nil || l.from != group[0].from) {
			if !yield(group) {
				return
			}
			group = nil
		}
		group = append(group, l)
	}
	yield(group)
}

// choose leaves out all sources of a leg but the first one that may have something. It reports
// whether each leg has one.
func (o *Op) choose(now time.Time) bool {
	var of *sources
	chosen := true
	for l := range o.legs {
		if l.from == nil {
			continue
		}
		if l.from != of {
			if !chosen {
				return false
			}
			of, chosen = l.from, false
		}
		l.idle = chosen || l.refusal != nil || l.isEmpty(now)
		chosen = chosen || !l.idle
	}
	return chosen
}

// chooseAll takes all sources into the attempt that their definitions do not refuse.
func (o *Op) chooseAll() {
	for l := range o.legs {
		l.idle = l.from != nil && l.refusal != nil
	}
}

// leavesOut reports whether the attempt lacks a source that may have something.
func (o *Op) leavesOut() bool {
	for l := range o.legs {
		if l.idle && l.refusal == nil {
			return true
		}
	}
	return false
}

// isEmpty reports whether a transaction has just found that a source does not serve.
func (l *Leg) isEmpty(now time.Time) bool {
	left := l.State.left.Load()
	if left == nil || left.version != l.Budget.Version {
		return false
	}
	age := now.Sub(left.at)
	lacks := left.units == 0 || l.from.whole && left.units < l.from.amount
	return lacks && age >= 0 && age < figuresAge
}

// isRefused reports whether definitions refuse a leg: its budget, or all of its sources.
func (o *Op) isRefused() bool {
	for group := range o.asked {
		refused := 0
		for _, l := range group {
			if l.refusal != nil {
				refused++
			}
		}
		if refused == len(group) {
			return true
		}
	}
	return false
}

// askSources lets a transaction divide a leg among the sources that the attempt has.
func (o *Op) askSources(ops []bucket.Operation) {
	i := 0
	for l := range o.active {
		if l.from != nil {
			ops[i].Sources = bucket.Sources{Amount: l.from.amount, Split: !l.from.whole}
		}
		i++
	}
	for i := len(ops) - 1; i >= 0; i-- {
		if ops[i].Source != 0 {
			ops[i].Sources.Count = 1
			if i+1 < len(ops) && ops[i+1].Source == ops[i].Source {
				ops[i].Sources.Count += ops[i+1].Sources.Count
			}
		}
	}
}

// fieldsOf returns the names of the budgets of a request's legs, as namedBy lists them.
func fieldsOf(r *bucket.DeductRequest) (fields []string) {
	for i := range r.Legs {
		for j := range r.Legs[i].Refs() {
			field := fmt.Sprintf("legs[%d].budget", i)
			if len(r.Legs[i].From) > 0 {
				field = fmt.Sprintf("legs[%d].from[%d]", i, j)
			}
			fields = append(fields, field)
		}
	}
	return fields
}

// checkSources refuses budgets that cannot be sources of a leg.
func checkSources(leg int, list []*bucket.Budget) error {
	for i, b := range list {
		field := fmt.Sprintf("legs[%d].from[%d]", leg, i)
		switch {
		case b.Unlimited:
			return refuseLeg(field, "is an unlimited budget, which nothing can come after")
		case len(b.AlsoCharges.IDs) > 0:
			return refuseLeg(field, "charges other budgets, which a source cannot do")
		case b.Unit != list[0].Unit:
			return refuseLeg(field, "has another unit than the first source")
		}
	}
	return nil
}

// sourcesOf returns the legs of a leg of a request in the budgets that it names, and its print.
func sourcesOf(leg *bucket.DeductRequest, list []*bucket.Budget, nonce string) (
	legs []Leg, print ledger.LegPrint) {
	print = ledger.LegPrint{Budget: list[0].ID, Fingerprint: rowOf(leg, nonce).Fingerprint}
	var from *sources
	if len(leg.From) > 0 {
		from = &sources{first: list[0].ID, amount: leg.Amount, whole: leg.Whole}
		ids := make([]int64, len(list))
		for i, b := range list {
			ids[i] = b.ID
		}
		print.Fingerprint = ledger.SourcesFingerprint(print.Fingerprint, ids, leg.Whole)
	}
	for _, b := range list {
		legs = append(legs, Leg{Request: leg, Budget: b, from: from})
	}
	return legs, print
}

// addLeg adds a leg to the answer of a set, or what one of its sources gave, and returns it. d is
// its row, nil for a source without one.
func (l *Leg) addLeg(a *bucket.DeductAnswer, d *ledger.Deduction) *bucket.DeductAnswer {
	if l.from == nil {
		a.Legs = append(a.Legs, l.answer(d))
		return &a.Legs[len(a.Legs)-1]
	}
	if l.Budget.ID == l.from.first {
		a.Legs = append(a.Legs, bucket.DeductAnswer{RequestID: a.RequestID, Budget: l.Budget.Name,
			Amount: l.from.amount, State: a.State, FiguresUnknown: true, RemainingUnknown: true})
	}
	leg := &a.Legs[len(a.Legs)-1]
	if d == nil {
		return leg
	}
	leg.Parts = append(leg.Parts, bucket.DeductAnswer{Budget: l.Budget.Name, Amount: d.Amount})
	return &leg.Parts[len(leg.Parts)-1]
}

// lookAt predicts what legs would give that neither a transaction nor a definition has judged. Of a
// leg with sources that gives all, none has an error.
func (c *call) lookAt(o *Op) map[*Leg]bucket.CheckAnswer {
	out := map[*Leg]bucket.CheckAnswer{}
	var alone []*Leg
	var asked []bucket.DeductRequest
	for group := range o.asked {
		switch l := group[0]; {
		case l.from != nil && !isJudged(group):
			c.lookAtSources(group, out)
		case l.from == nil && l.refusal == nil && l.Outcome == nil:
			alone, asked = append(alone, l), append(asked, l.toCheck(l.Request.Amount))
		}
	}
	for i, a := range c.predictLegs(asked) {
		a.Budget = alone[i].Budget.Name
		out[alone[i]] = a
	}
	return out
}

// isJudged reports whether a transaction has judged a leg.
func isJudged(group []*Leg) bool {
	return slices.ContainsFunc(group, func(l *Leg) bool { return l.Outcome != nil })
}

// lookAtSources predicts what each source of a leg would give. The error of one says why it gives
// nothing, or, if all of them together have too little, why it does not give all.
func (c *call) lookAtSources(group []*Leg, out map[*Leg]bucket.CheckAnswer) {
	of := group[0].from
	left := of.amount
	short := map[*Leg]error{}
	for _, l := range group {
		a := bucket.CheckAnswer{Err: l.refusal}
		if a.Err == nil && left > 0 {
			a = c.predictLegs([]bucket.DeductRequest{l.toCheck(left)})[0]
			if most := availableOf(a.Err); most > 0 && most < left && !of.whole {
				if part := c.predictLegs([]bucket.DeductRequest{l.toCheck(most)})[0]; part.Err == nil {
					short[l], a = a.Err, part
				}
			}
			if a.Err == nil {
				left -= a.Amount
			}
		}
		a.Budget = l.Budget.Name
		out[l] = a
	}
	for _, l := range group {
		a := out[l]
		if left == 0 {
			a.Err = nil
		} else {
			a.Err = cmp.Or(a.Err, short[l])
		}
		out[l] = a
	}
}

// availableOf returns what a budget that refuses an amount has, 0 if another reason is given.
func availableOf(err error) int64 {
	var e *budget.Error
	if errors.As(err, &e) && e.Available != nil &&
		(e.Code == budget.BudgetExhausted || e.Code == budget.PeriodExhausted) {
		return *e.Available
	}
	return 0
}

func (c *call) predictLegs(asked []bucket.DeductRequest) []bucket.CheckAnswer {
	if len(asked) == 0 {
		return nil
	}
	return c.s.predict(c.ctx, asked)
}

// toCheck returns what a check asks of a leg.
func (l *Leg) toCheck(units int64) bucket.DeductRequest {
	r := *l.Request
	r.Budget, r.Amount, r.From = bucket.BudgetRef{ID: l.Budget.ID}, units, nil
	r.RequestID, r.HoldTTL, r.Above, r.ExpiresAs = "", 0, "", ""
	return r
}

// mayTogether takes back that sources can never give an amount, if all of their totals can.
func mayTogether(group []*Leg, refusals []budget.LegRefusal) {
	of := group[0].from
	if of == nil || of.whole {
		return
	}
	can := int64(0)
	for _, l := range group {
		if l.refusal == nil {
			can = limit.Plus(can, l.Budget.TotalQuantity)
		}
	}
	for i, l := range group {
		if l.refusal == nil && can >= of.amount {
			reason := *refusals[i].Reason
			reason.Never = false
			refusals[i].Reason = &reason
		}
	}
}

// partsOf returns the prediction for a leg with sources: what each of them would give, or the error
// of the last one.
func partsOf(group []*Leg, looked map[*Leg]bucket.CheckAnswer) bucket.CheckAnswer {
	leg := bucket.CheckAnswer{Budget: group[0].Budget.Name, Amount: group[0].from.amount}
	for _, l := range group {
		a := looked[l]
		if leg.Err = a.Err; leg.Err == nil && a.Amount > 0 {
			leg.Legs = append(leg.Legs, a)
		}
	}
	return leg
}
