package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// askFlags are the flags about the key and the dimensions of a deduction.
type askFlags struct {
	dimensions map[string]string
	counts     counts
}

func (f *askFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringToStringVar(&f.dimensions, "dimension", nil, "whom it is for, name=value; repeatable")
	flags.Var(&f.counts, "count",
		"own amount for one limit, name=number (0 counts nothing); repeatable")
}

// counts is a flag of name=number pairs. Numbers may be grouped: per-user=1,000,other=2.
type counts map[string]int64

func (c *counts) Type() string   { return "name=number" }
func (c *counts) String() string { return "" }

// Set is part of pflag.Value. It adds the pairs of a text.
func (c *counts) Set(text string) error {
	for _, member := range members(text) {
		name, number, _ := strings.Cut(member, "=")
		n, err := strconv.ParseInt(ungrouped(number), 10, 64)
		if err != nil {
			return fmt.Errorf("%s must be name=number", member)
		}
		if *c == nil {
			*c = counts{}
		}
		(*c)[name] = n
	}
	return nil
}

// check returns an error for faulty flags.
func (f *askFlags) check() error {
	err := checkDimensions(f.dimensions)
	for name, n := range f.counts {
		if why := budget.CheckName(name); why != "" {
			err = firstOf(err, usagef("--count %s=%d: the name %s", name, n, why))
		}
		if n < 0 || n > budget.MaxAmount {
			err = firstOf(err, usagef("--count %s=%d: must be a whole number from 0 to %d", name, n,
				budget.MaxAmount))
		}
	}
	return err
}

func checkDimensions(dimensions map[string]string) (err error) {
	for name, value := range dimensions {
		if name == "" || value == "" {
			err = firstOf(err, usagef("--dimension %s=%s: name and value must not be empty", name, value))
		}
		err = firstOf(err, optionalText("dimension", name), optionalText("dimension", value))
	}
	return err
}

func (a *app) checkCommand() *cobra.Command {
	var ask askFlags
	var amountText string
	cmd := &cobra.Command{
		Use:   "check BUDGET...",
		Short: "Show which budgets would accept a deduction now",
		Long: `Shows which of up to 1,000 budgets would accept a deduction now, such as which of these ads
a user may see. It changes nothing. Exit status 3 means that none would accept it.`,
		Example: `  budgetctl check ad-1 ad-2 ad-3 --dimension user=u1
  budgetctl check spring-sale --amount 5 --dimension user=u1 -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("BUDGET is missing")
			}
			return nil
		},
	}
	ask.add(cmd)
	cmd.Flags().StringVar(&amountText, "amount", "1", "units of each of these deductions")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		units, err := amount(amountText)
		if err = firstOf(err, ask.check()); err != nil {
			return err
		}
		if len(args) > client.MaxChecks {
			return usagef("%d budgets, at most %d are allowed", len(args), client.MaxChecks)
		}
		items := make([]client.CheckItem, len(args))
		for i, name := range args {
			if err := reference(name); err != nil {
				return err
			}
			items[i] = client.CheckItem{Budget: name, Amount: units, Dimensions: ask.dimensions,
				Counts: ask.counts}
		}
		var list checkList
		err = call(a, cmd, func(ctx context.Context, c *client.Client) (checkList, error) {
			results, err := c.Check(ctx, items)
			list = checkListOf(args, results)
			return list, err
		}, checkList.table)
		if err == nil {
			err = list.refusal(args)
		}
		return err
	}
	return cmd
}

// checkList is the answer of check: one result per budget, in order, in the form of the API and as
// rows of a table.
type checkList struct {
	Results []jsontext.Value `json:"results"`
	rows    []checkRow
	errs    []error
}

type checkRow struct {
	Budget string
	// Outcome is "would_be_accepted", or the code of the refusal.
	Outcome, Detail string
	Limits          []client.LimitState
}

func checkListOf(names []string, results []client.CheckResult) checkList {
	list := checkList{Results: make([]jsontext.Value, len(results)),
		rows: make([]checkRow, len(results)), errs: make([]error, len(results))}
	for i, r := range results {
		row := checkRow{Budget: names[i]}
		list.errs[i] = r.Err
		switch p := problemOf(r.Err); {
		case r.Err == nil:
			row.Outcome, row.Limits = r.Answer.Outcome, r.Answer.Limits
		case p == nil:
			row.Outcome, row.Detail = "unknown", r.Err.Error()
		default:
			row.Outcome, row.Detail = string(p.Code), p.Detail
			if p.Limit != nil {
				row.Limits = []client.LimitState{*p.Limit}
			}
		}
		list.Results[i], list.rows[i] = r.JSON, row
	}
	return list
}

func (l checkList) table() string {
	rows := make([][]any, len(l.rows))
	for i, r := range l.rows {
		text := r.Detail
		for n, s := range r.Limits {
			if n > 0 || text != "" {
				text += "; "
			}
			text += s.Name + ": " + stateText(s)
		}
		rows[i] = []any{r.Budget, r.Outcome, text}
	}
	return listing([]string{"budget", "outcome", "limits"}, rows)
}

// refusal returns the first refusal if no budget would accept the deduction. It sets the exit
// status.
func (l checkList) refusal(names []string) error {
	for _, err := range l.errs {
		if err == nil {
			return nil
		}
	}
	if len(l.errs) == 0 || len(names) == 0 {
		return nil
	}
	return l.errs[0]
}

func (a *app) usageCommand() *cobra.Command {
	var request client.UsageRequest
	var from, to string
	cmd := &cobra.Command{
		Use:   "usage BUDGET",
		Short: "Show what was counted for a user, a device, … in any period",
		Long: `Adds up the deductions from --from on and before --to that carry all given dimensions. It
does not depend on limits.`,
		Example: `  budgetctl usage spring-sale --dimension user=u1
  budgetctl usage spring-sale --dimension user=u1 --from 2026-05-01T00:00:00Z \
      --to 2026-06-01T00:00:00Z`,
		Args: arguments,
	}
	flags := cmd.Flags()
	flags.StringToStringVar(&request.Dimensions, "dimension", nil,
		"whom it was for, name=value; repeatable (required)")
	flags.StringVar(&from, "from", "",
		"first instant that counts, RFC 3339 with zone (default: the beginning)")
	flags.StringVar(&to, "to", "", "first instant that does not (default: no bound)")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if len(request.Dimensions) == 0 {
			return usagef("--dimension is missing, such as --dimension user=u1")
		}
		for _, bound := range []struct {
			name, text string
			into       *time.Time
		}{{"from", from, &request.From}, {"to", to, &request.To}} {
			if bound.text != "" && err == nil {
				*bound.into, err = instant(bound.name, bound.text)
			}
		}
		if err = firstOf(err, reference(args[0]), checkDimensions(request.Dimensions)); err != nil {
			return err
		}
		return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Usage, error) {
			return c.Usage(ctx, args[0], request)
		}, func(u *client.Usage) string {
			return details(field{"calls", u.Calls}, field{"amount", u.Amount},
				field{"rolled back", u.RolledBack},
				field{"kept", u.Amount - u.RolledBack}, field{"from", u.From}, field{"to", u.To})
		})
	}
	return cmd
}

// problemOf returns the service's answer in err, or nil.
func problemOf(err error) *client.Problem {
	var p *client.Problem
	errors.As(err, &p)
	return p
}
