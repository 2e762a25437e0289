package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

const explainHelp = `Says why a deduction was refused. It finds refusals by request id or by a value
of a dimension, such as a user. It shows the bucket of the key, the limits with their usage and
reset, what the budget had, what is held and may come back, and what to do. It also shows the record
of the id in the budget of the latest refusal, or in --budget, because a later attempt may have been
accepted. A budget in store mode finds that record only by the request's key: the key of the
refusal, or --key if no refusal is remembered. If nothing is known of the id, it fails.

A node remembers its own last 4,096 refusals until it stops. If it does not know the id, ask the
other nodes. For an older refusal there is only the answer that the caller got.`

// reasons is the answer of explain: the refusals of a request and the record of it.
type reasons struct {
	Refusals []client.Refusal `json:"refusals"`
	// Recorded is nil if it was not requested, is not known or nothing is recorded.
	Recorded *client.Deduction `json:"recorded,omitzero"`
	// Lookup says why Recorded is nil, or "" if it was not requested.
	Lookup string `json:"lookup,omitzero"`
	// Held is what is held in the budget of the latest refusal, if that lacked units: it may come
	// back.
	Held  int64 `json:"held,omitzero"`
	asked string
}

func (a *app) explainCommand() *cobra.Command {
	var name, key string
	cmd := &cobra.Command{
		Use:   "explain ID",
		Short: "Say why a deduction was refused",
		Long:  explainHelp,
		Example: `  budgetctl explain order-4711
  budgetctl explain order-4711 --budget spring-sale
  budgetctl explain order-4711 --budget flash-sale --key user-17`,
		Args: arguments,
	}
	cmd.Flags().StringVar(&name, "budget", "",
		"search only this budget, and show its record of the id")
	cmd.Flags().StringVar(&key, "key", "",
		"key of the record in store mode (default: that of the latest refusal)")
	must(cmd.RegisterFlagCompletionFunc("budget", a.completeBudgets))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := firstOf(optionalText("budget", name), optionalText("key", key)); err != nil {
			return err
		}
		if key != "" && name == "" {
			return usagef("--key needs --budget, whose record it finds")
		}
		return call(a, cmd, func(ctx context.Context, c *client.Client) (*reasons, error) {
			return a.whyRefused(ctx, c, args[0], name, key)
		}, (*reasons).text)
	}
	return cmd
}

// whyRefused finds refusals by request id, otherwise by value, and reads the record of the id
// unless it is a value. What was found is returned even if the record cannot be read. It fails if
// nothing is known of the id.
func (a *app) whyRefused(
	ctx context.Context, c *client.Client, id, name, key string,
) (*reasons, error) {
	out := &reasons{asked: id}
	var err error
	if out.Refusals, err = c.Refusals(ctx,
		client.RefusalQuery{RequestID: id, Budget: name}); err != nil {
		return nil, err
	}
	if len(out.Refusals) > 0 {
		latest := &out.Refusals[0]
		key = cmp.Or(key, latest.RoutingKey)
		name = cmp.Or(name, latest.Budget)
		if c, err = a.clientIn(latest.Tenant); err != nil {
			return nil, err
		}
		out.Held = heldOf(ctx, c, latest)
	} else if out.Refusals, err = c.Refusals(ctx,
		client.RefusalQuery{Value: id, Budget: name}); err != nil || len(out.Refusals) > 0 {
		return out, err
	}
	if name == "" {
		return nil, fmt.Errorf("nothing is known of %s: this node remembers no such refusal; "+
			"another node may have answered, and --budget looks for a record", printable(id))
	}
	out.Recorded, err = c.KeyedDeduction(ctx, name, id, key)
	if err == nil {
		return out, nil
	}
	out.Lookup = withoutOp(err)
	var p *client.Problem
	if errors.As(err, &p) {
		out.Lookup = headline(p)
	}
	switch {
	case len(out.Refusals) > 0:
	case client.CodeOf(err) == budget.DeductionNotFound:
		return nil, fmt.Errorf("nothing is known of %s: this node remembers no such refusal, "+
			"another node may have answered; and %s", printable(id), printable(out.Lookup))
	default:
		return nil, err
	}
	return out, nil
}

func (r *reasons) text() string {
	var parts []string
	switch {
	case r.Recorded != nil:
		parts = append(parts, fmt.Sprintf("Recorded: %s is %s: %s.", printable(r.asked),
			printable(r.Recorded.State), grouped(r.Recorded.Amount)))
	case r.Lookup != "":
		parts = append(parts, "Recorded: not found: "+printable(r.Lookup)+".")
	}
	if len(r.Refusals) == 0 {
		parts = append(parts, "This node remembers no such refusal; another node may have answered.")
	}
	for i := range r.Refusals {
		todo := advice(&r.Refusals[i])
		switch {
		case r.Recorded != nil:
			todo = "nothing: the id was accepted since; a repeat answers with that"
		case i == 0 && r.Held > 0:
			todo += fmt.Sprintf("; or wait: %s are held, and what is not confirmed comes back "+
				"(budgetctl holds %s)", grouped(r.Held), r.Refusals[i].Budget)
		}
		parts = append(parts, refusalText(&r.Refusals[i], todo))
	}
	return strings.Join(parts, "\n\n")
}

// heldOf returns what is held in the budget of a refusal for lack of units; 0 also if that cannot
// be read.
func heldOf(ctx context.Context, c *client.Client, r *client.Refusal) int64 {
	if r.Problem.Code != budget.BudgetExhausted && r.Problem.Code != budget.PeriodExhausted {
		return 0
	}
	b, err := c.Budget(ctx, r.Budget)
	if err != nil {
		return 0
	}
	return b.Held
}

// refusalText describes a refusal and what to do about it.
func refusalText(r *client.Refusal, action string) string {
	what := grouped(r.Amount)
	if r.Hold {
		what += " (a hold)"
	}
	path := "not known"
	if r.Bucket != "" {
		path = fmt.Sprintf("%s in %s, by key %s", r.Bucket, r.Home, r.RoutingKey)
	}
	fields := []field{{"refused", r.At}, {"code", r.Problem.Code},
		{"request", r.RequestID}, {"budget", r.Tenant + "/" + r.Budget}, {"asked for", what},
		{"bucket", path}}
	if len(r.Dimensions) > 0 {
		var pairs []string
		for name, value := range r.Dimensions {
			pairs = append(pairs, name+"="+value)
		}
		slices.Sort(pairs)
		fields = append(fields, field{"dimensions", strings.Join(pairs, " ")})
	}
	if r.Problem.Available != nil {
		fields = append(fields, field{"the budget had", grouped(*r.Problem.Available)})
	}
	text := printable(r.Problem.Detail) + ".\n" + details(fields...)
	todo := "\nWhat to do: " + printable(action) + "."
	if len(r.Problem.Limits) == 0 {
		return text + todo
	}
	rows := make([][]any, len(r.Problem.Limits))
	for i, l := range r.Problem.Limits {
		most := any("exempt")
		if l.Max != nil {
			most = *l.Max
		}
		rows[i] = []any{l.Name, l.Dimension + "=" + l.Value, l.Used, most, orNever(l.ResetAt)}
	}
	return text + "\n" + listing([]string{"limit", "value", "used", "max", "resets"}, rows) + todo
}

// advice returns what to do about a refusal.
func advice(r *client.Refusal) string {
	p, when := &r.Problem, ""
	if p.RetryAfter > 0 {
		when = r.At.Add(time.Duration(p.RetryAfter * float64(time.Second))).Format(time.RFC3339)
	}
	switch {
	case p.Never && p.Code == budget.LimitExceeded:
		return "ask for less, or raise the limit: it can never be accepted as things are"
	case p.Code == budget.BudgetExhausted, p.Never:
		return "append to the budget, or ask for at most what it has"
	case p.Code == budget.PeriodExhausted:
		return "the next period that can have that much begins at " + when
	case p.Code == budget.LimitExceeded && when == "":
		return "raise the limit"
	case p.Code == budget.BudgetPaused:
		return "budgetctl resume " + r.Budget
	case p.Code == budget.BudgetExpired:
		return "budgetctl set " + r.Budget + " --end, with a later end"
	case p.Code == budget.BudgetNotEffective:
		return "it begins at " + p.StartAt.Format(time.RFC3339)
	case p.Code == budget.OutcomeUnknown:
		return "it may have happened: repeat it with the same request id, or cancel it"
	case p.Code == budget.Unavailable:
		return "nothing was done: repeat it with the same request id"
	case when != "":
		return "try again at " + when
	}
	return "see why"
}
