package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// differing determines what apply has to do for one budget. A dry run of the create that makes it
// finds what is wrong with it. For a budget that exists, the server completes in a dry run what it
// is to become, so that neither defaults nor what the file leaves out count as differences.
func differing(ctx context.Context, c *client.Client, d *declared) (*applied, error) {
	out := &applied{Name: d.Name, Action: "none", Lines: []string{}, thresholds: d.Thresholds}
	var err error
	out.before, err = c.Budget(ctx, d.Name)
	if client.CodeOf(err) == budget.BudgetNotFound {
		return out, out.creation(ctx, c, d)
	}
	if err != nil {
		return nil, err
	}
	full, err := c.Create(ctx, over(out.before, d))
	if err != nil {
		return nil, err
	}
	if err := unchangeable(d, full, out.before); err != nil {
		return nil, err
	}
	out.definition(d, full)
	var lines []string
	if out.own, lines, err = overrideDifference(ctx, c, out.before, d.Limits); err != nil {
		return nil, err
	}
	out.Lines = append(out.Lines, lines...)
	if err := out.place(d.Limits, full.Limits); err != nil {
		return nil, err
	}
	if err := out.amount(d); err != nil {
		return nil, err
	}
	now, err := c.Thresholds(ctx, d.Name)
	switch {
	case err != nil:
		return nil, err
	case d.Thresholds == nil, now.Own && textOf(now.Thresholds) == textOf(*d.Thresholds):
		out.thresholds = nil
	default:
		out.Lines = append(out.Lines, "thresholds: "+thresholdsText(now.Thresholds)+" -> "+
			thresholdsText(*d.Thresholds))
	}
	if len(out.Lines) > 0 {
		out.Action = "change"
	}
	return out, nil
}

// creation records that the budget is to be made.
func (out *applied) creation(ctx context.Context, c *client.Client, d *declared) error {
	trial := d.CreateRequest
	trial.DryRun = true
	trial.Limits = longBare(d.Limits)
	full, err := c.Create(ctx, trial)
	if err != nil {
		return err
	}
	create := d.CreateRequest
	create.Limits = longBare(d.Limits)
	out.Action, out.create = "create", &create
	for _, l := range d.Limits {
		if len(l.Overrides) > overridesAtOnce {
			out.own = append(out.own, ownMaximums{limit: l.Name, set: l.Overrides, fresh: true})
		}
	}
	out.Lines = append(out.Lines, "made with "+fmt.Sprint(cell(orUnlimited(
		full.TotalQuantity)))+" units in "+grouped(int64(full.BucketQuantity))+" buckets")
	switch {
	case d.Status == budget.Paused:
		out.Lines = append(out.Lines, "paused at once")
	case len(out.own) > 0:
		create.Status, out.then = budget.Paused, &client.PatchRequest{Status: budget.Effective}
		out.Lines = append(out.Lines, "paused until its overrides are set")
	}
	if d.Thresholds != nil {
		out.Lines = append(out.Lines, "thresholds: "+thresholdsText(*d.Thresholds))
	}
	return nil
}

func thresholdsText(list []client.Threshold) string {
	names := make([]string, len(list))
	for i, one := range list {
		names[i] = one.Name()
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

// over returns the dry run of a create of what a budget becomes: what d says, and for the rest what
// the budget is. The end may have passed unless d changes it.
func over(b *client.Budget, d *declared) client.CreateRequest {
	is, to := declaredOf(b).CreateRequest, d.CreateRequest
	to.DryRun = true
	to.AllowPast = to.AllowPast || to.EndAt.IsZero() || to.EndAt.Equal(is.EndAt)
	to.Unit, to.Type = cmp.Or(to.Unit, is.Unit), cmp.Or(to.Type, is.Type)
	to.Durability, to.OnLoss = cmp.Or(to.Durability, is.Durability), cmp.Or(to.OnLoss, is.OnLoss)
	to.Unlimited = to.Unlimited || is.Unlimited && to.TotalQuantity == 0
	if !to.Unlimited {
		to.TotalQuantity = cmp.Or(to.TotalQuantity, is.TotalQuantity)
	}
	to.BucketQuantity = cmp.Or(to.BucketQuantity, is.BucketQuantity)
	to.StartAt, to.EndAt = cmp.Or(to.StartAt, is.StartAt), cmp.Or(to.EndAt, is.EndAt)
	to.TypeRule = cmp.Or(to.TypeRule, is.TypeRule)
	to.Timezone = cmp.Or(to.Timezone, is.Timezone)
	to.RoutingDimension = cmp.Or(to.RoutingDimension, is.RoutingDimension)
	if to.Limits == nil {
		to.Limits = is.Limits
	}
	to.Limits = longBare(to.Limits)
	return to
}

// unchangeable refuses what no call can change.
func unchangeable(d *declared, full, b *client.Budget) error {
	for _, m := range []struct {
		name    string
		given   bool
		is, was any
	}{
		{"unit", d.Unit != "", full.Unit, b.Unit}, {"type", d.Type != "", full.Type, b.Type},
		{"durability", d.Durability != "", full.Durability, b.Durability},
		{"gl_code", d.GLCode != "", full.GLCode, b.GLCode},
		{"unlimited", true, full.Unlimited, b.Unlimited},
		{"routing_dimension", d.RoutingDimension != "", full.RoutingDimension, b.RoutingDimension},
		{"on_loss", d.OnLoss != "", full.OnLoss, b.OnLoss},
		{"start_at", !d.StartAt.IsZero(), d.StartAt.UTC(), b.StartAt.UTC()},
	} {
		if m.given && m.is != m.was {
			return fmt.Errorf("%s is %v and cannot become %v: make another budget", m.name, m.was, m.is)
		}
	}
	return nil
}

// definition adds to the patch what differs.
func (out *applied) definition(d *declared, full *client.Budget) {
	b, patch, before := out.before, new(client.PatchRequest), len(out.Lines)
	say := func(format string, args ...any) {
		out.Lines = append(out.Lines, fmt.Sprintf(format, args...))
	}
	if !d.EndAt.IsZero() && !d.EndAt.Equal(b.EndAt) {
		patch.EndAt, patch.AllowPast = &d.EndAt, d.AllowPast
		say("end_at: %v -> %s; what is used by then stays used", cell(orNever(b.EndAt)),
			d.EndAt.Format(time.RFC3339))
	}
	if n := d.ShardingQuantity; n != 0 && n != b.ShardingQuantity {
		patch.ShardingQuantity = &d.ShardingQuantity
		say("sharding_quantity: %s -> %s", cell(bound(b.ShardingQuantity)), grouped(n))
	}
	if n := d.AdjustCnt; n != 0 && n != b.AdjustCnt {
		patch.AdjustCnt = &d.AdjustCnt
		say("adjust_cnt: %s -> %d", cell(bound(int64(b.AdjustCnt))), n)
	}
	if n := d.BucketQuantity; n != 0 && n != b.BucketQuantity {
		patch.BucketQuantity = &d.BucketQuantity
		say("bucket_quantity: %d -> %d; units that are free move, %s used and %s held stay",
			b.BucketQuantity, n, grouped(b.Used), grouped(b.Held))
	}
	if d.TypeRule != nil && textOf(full.TypeRule) != textOf(b.TypeRule) {
		patch.TypeRule = d.TypeRule
		say("rule: %s -> %s; the open period ends unless the new rule goes on from its start, and "+
			"what it used counts",
			ruleText(b.TypeRule), ruleText(full.TypeRule))
	}
	if d.Timezone != "" && full.Timezone != b.Timezone {
		patch.Timezone = d.Timezone
		say("timezone: %s -> %s; the open period ends unless one begins at its start there",
			b.Timezone, d.Timezone)
	}
	if d.LateRefund != "" && d.LateRefund != b.LateRefund {
		patch.LateRefund = d.LateRefund
		say("late_refund: %s -> %s", b.LateRefund, d.LateRefund)
	}
	if d.Limits != nil && textOf(bare(full.Limits)) != textOf(bare(b.Limits)) {
		patch.Limits = bare(d.Limits)
		out.Lines = append(out.Lines, limitDifference(bare(b.Limits), bare(full.Limits))...)
		say("what was used in the windows of these limits counts")
	}
	switch paused := b.Status == budget.Paused; {
	case d.Status == budget.Paused && !paused:
		patch.Status = budget.Paused
		say("paused: deductions are refused; %s used and %s held stay", grouped(b.Used),
			grouped(b.Held))
	case d.Status == budget.Effective && paused:
		patch.Status = budget.Effective
		say("resumed")
	}
	if len(out.Lines) > before {
		out.patch = patch
	}
}

// amount records a change of the total and of the units that remain.
func (out *applied) amount(d *declared) error {
	b := out.before
	total := client.Units(b.TotalQuantity)
	if d.Unlimited || d.TotalQuantity == 0 || d.TotalQuantity == total {
		return nil
	}
	out.total = d.TotalQuantity
	more := d.TotalQuantity - total
	spent := b.Used + b.Held + b.Quarantined + b.Forfeited
	if spent > d.TotalQuantity {
		return fmt.Errorf("total_quantity cannot become %s: %s are used, %s held, %s quarantined "+
			"and %s forfeited",
			grouped(d.TotalQuantity), grouped(b.Used), grouped(b.Held), grouped(b.Quarantined),
			grouped(b.Forfeited))
	}
	verb := "append " + grouped(more)
	if more < 0 {
		verb = "shrink by " + grouped(-more)
	}
	out.Lines = append(out.Lines, fmt.Sprintf("total_quantity: %s -> %s; %s; %s used and %s held "+
		"stay as they are; %s of %s are then left", grouped(total), grouped(d.TotalQuantity),
		verb, grouped(b.Used), grouped(b.Held), grouped(d.TotalQuantity-spent),
		grouped(d.TotalQuantity)))
	return nil
}
