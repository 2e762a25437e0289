package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/budget"
	"github.com/spf13/cobra"
)

// ruleFlags are the flags that define the rule of a daily budget.
type ruleFlags struct {
	kind, every, quantity, unused string
	maxRollover, partial          string
	anchor                        map[string]string
	windows                       []string
}

func (f *ruleFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.every, "every", "", "rule: a period every hour, day, week or month")
	flags.StringVar(&f.quantity, "quantity", "",
		"units of each of these periods (default the total in equal parts)")
	flags.StringArrayVar(&f.windows, "window", nil,
		"rule: a segment of every day and its units, 00:00-06:00=10000; repeatable")
	flags.StringVar(&f.kind, "rule", "", "rule: free, one period from the start to the end")
	flags.StringVar(&f.unused, "unused", "",
		"what happens to units that a period did not use: spread, next or forfeit (default spread)")
	flags.StringVar(&f.maxRollover, "max-rollover", "",
		"most units that a period leaves to the next, with --unused next (default no bound)")
	flags.StringVar(&f.partial, "partial", "",
		"units of a period that the start or end cuts: prorated or whole (default prorated)")
	flags.StringToStringVar(&f.anchor, "anchor", nil,
		"when periods begin: day=31 (months), weekday=sunday (weeks), hour=6")
	choose(cmd, "partial", "prorated", "whole")
	choose(cmd, "every", "hour", "day", "week", "month")
	choose(cmd, "rule", "free")
	choose(cmd, "unused", "spread", "next", "forfeit")
}

// lateRefundFlag adds --late-refund.
func lateRefundFlag(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVar(into, "late-refund", "",
		"where a refund goes after its period is over: total, next or forfeit (default total)")
	choose(cmd, "late-refund", "total", "next", "forfeit")
}

// read returns the rule that the flags define, or nil if no flag is given. An earlier error err
// takes precedence. The service checks times of the day.
func (f *ruleFlags) read(cmd *cobra.Command, err error) (*budget.Rule, error) {
	if err = firstOf(err, chosen(cmd, "every", "rule", "unused", "partial")); err != nil {
		return nil, err
	}
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	var kinds []string
	for _, name := range []string{"every", "window", "rule"} {
		if given(name) {
			kinds = append(kinds, "--"+name)
		}
	}
	switch {
	case len(kinds) > 1:
		return nil, usagef("%s do not go together: a budget has one rule", strings.Join(kinds, " and "))
	case given("quantity") && !given("every"):
		return nil, usagef("--quantity goes with --every only; a window has a quantity of its own")
	case given("unused") && (len(kinds) == 0 || given("rule")):
		return nil, usagef("--unused goes with --every or --window")
	case given("anchor") && !given("every"):
		return nil, usagef("--anchor goes with --every only")
	case given("max-rollover") && f.unused != string(budget.Next):
		return nil, usagef("--max-rollover goes with --unused next only")
	case given("partial") && (len(kinds) == 0 || given("rule")):
		return nil, usagef("--partial goes with --every or --window")
	case len(kinds) == 0:
		return nil, nil
	}
	return f.rule(cmd)
}

// rule makes the rule from flags that go together.
func (f *ruleFlags) rule(cmd *cobra.Command) (*budget.Rule, error) {
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	rule := &budget.Rule{Kind: budget.Free, Unused: budget.Where(f.unused),
		Partial: budget.Partial(f.partial)}
	var err error
	if given("max-rollover") {
		if rule.MaxRollover, err = amount(f.maxRollover); err != nil {
			return nil, err
		}
	}
	for name, value := range f.anchor {
		if why := setAnchor(&rule.Anchor, name, value); why != "" {
			return nil, usagef("--anchor %s=%s: %s", name, value, why)
		}
	}
	if given("every") {
		rule.Kind, rule.Every = budget.Calendar, budget.Every(f.every)
	}
	if given("quantity") {
		if rule.Quantity, err = amount(f.quantity); err != nil {
			return nil, err
		}
	}
	for _, text := range f.windows {
		w, err := window(text)
		if err != nil {
			return nil, err
		}
		rule.Kind, rule.Windows = budget.Windows, append(rule.Windows, w)
	}
	return rule, nil
}

// setAnchor sets one member of an anchor. It returns what is wrong with it, or "".
func setAnchor(a *budget.Anchor, name, value string) (why string) {
	n, err := strconv.Atoi(value)
	switch name {
	case "day":
		if a.Day = n; err != nil || n < 1 || n > 31 {
			return "must be a day of the month, 1 to 31"
		}
	case "hour":
		if a.Hour = n; err != nil || n < 0 || n > 23 {
			return "must be an hour, 0 to 23"
		}
	case "weekday":
		a.Weekday = budget.Weekday(value)
		if _, known := a.Weekday.Index(); !known {
			return "must be monday to sunday"
		}
	default:
		return "must be day, weekday or hour"
	}
	return ""
}

// anchorText formats an anchor for --anchor; "" for the zero value.
func anchorText(a budget.Anchor) string {
	var parts []string
	if a.Day != 0 {
		parts = append(parts, fmt.Sprintf("day=%d", a.Day))
	}
	if a.Weekday != "" {
		parts = append(parts, "weekday="+string(a.Weekday))
	}
	if a.Hour != 0 {
		parts = append(parts, fmt.Sprintf("hour=%d", a.Hour))
	}
	return strings.Join(parts, ",")
}

// window reads FROM-TO=QUANTITY.
func window(text string) (w budget.Window, err error) {
	span, quantity, found := strings.Cut(text, "=")
	from, to, split := strings.Cut(span, "-")
	if !found || !split || from == "" || to == "" {
		return w, usagef("--window %q: must be FROM-TO=QUANTITY, such as 00:00-06:00=10000", text)
	}
	if to < from && len(from) == len(to) {
		return w, usagef("--window %q: a window does not cross midnight: write --window %s-24:00=… and "+
			"--window 00:00-%s=…, with a quantity for each", text, from, to)
	}
	n, ok := budget.ParseAmount(ungrouped(quantity))
	if !ok {
		return w, usagef("--window %q: the quantity must be a whole number from 1 to %d",
			text,
			budget.MaxAmount)
	}
	return budget.Window{From: from, To: to, Quantity: n}, nil
}

// ruleText formats a rule in one line, its windows as for --window but without commas.
func ruleText(r *budget.Rule) string {
	var parts []string
	switch r.Kind {
	case budget.Calendar:
		units := "the total in equal parts"
		if r.Quantity != 0 {
			units = grouped(r.Quantity) + " each"
		}
		parts = append(parts, "every "+string(r.Every), units)
	case budget.Windows:
		for _, w := range r.Windows {
			parts = append(parts, fmt.Sprintf("%s-%s=%s", w.From, w.To, grouped(w.Quantity)))
		}
	default:
		parts = append(parts, string(r.Kind))
	}
	if at := anchorText(r.Anchor); at != "" {
		parts = append(parts, "from "+at)
	}
	if r.Unused != "" {
		parts = append(parts, "unused "+string(r.Unused))
	}
	if r.MaxRollover != 0 {
		parts = append(parts, "at most "+grouped(r.MaxRollover)+" left to the next")
	}
	if r.Partial == budget.Whole {
		parts = append(parts, "parts count as whole periods")
	}
	return strings.Join(parts, "; ")
}
