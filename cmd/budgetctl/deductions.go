package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

// idFlag is --request-id or another flag for an id. Without it an id is generated once.
type idFlag struct{ name, text string }

func requestIDFlag(cmd *cobra.Command) *idFlag {
	id := &idFlag{name: "request-id"}
	cmd.Flags().StringVar(&id.text, id.name, "", "idempotency key (default: generated and shown)")
	return id
}

// check refuses an invalid id. The flag may be missing, but not empty.
func (f *idFlag) check(cmd *cobra.Command) error {
	if !cmd.Flags().Changed(f.name) {
		return nil
	}
	return requestID(f.text)
}

// value returns the id. It returns the same id each time.
func (f *idFlag) value() string {
	if f.text == "" {
		f.text = client.NewRequestID()
	}
	return f.text
}

// advise adds to an error how to repeat the command safely, and the alternatives.
func (f *idFlag) advise(err error, orElse string) error {
	if err == nil {
		return nil
	}
	return advised{err, fmt.Sprintf("Repeat the command with --%s %s, it takes effect once%s.",
		f.name, quoted(f.value()), orElse)}
}

// plainWord matches what a shell takes as one word as it stands.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_.:/@-]+$`)

// quoted quotes a text as one word of a shell.
func quoted(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func (a *app) deductCommand() *cobra.Command {
	var request client.DeductRequest
	var whom askFlags
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "deduct BUDGET AMOUNT",
		Short: "Use units of a budget",
		Long: `Uses units of a budget, at most once per request id. Without --request-id an id is
generated and shown. A refusal (exit status 3) means that nothing was used. --dry-run only shows
what would happen.`,
		Example: `  budgetctl deduct spring-sale 5 --request-id o1
  budgetctl deduct spring-sale 5 --request-id o2 --key u1 --dimension user=u1 --reference o2
  budgetctl deduct gifts 1 --dimension user=u1,phone=p1 --count per-phone=0 --dry-run
  budgetctl deduct spring-sale 5 --request-id o3 --hold 15m --group order-17
  budgetctl deduct tokens 1500 --request-id call-1 --hold 10m --above available`,
		Args: arguments,
	}
	id := requestIDFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&request.Key, "key", "", "routes to a bucket (default: the request id)")
	whom.add(cmd)
	flags.BoolVar(&dryRun, "dry-run", false, "show what would happen, and use nothing")
	flags.StringVar(&request.Reference, "reference", "", "note that is recorded with it")
	flags.StringVar(&request.HoldTTL, "hold", "",
		"hold the units for this time, such as 15m, until confirmed")
	flags.StringVar(&request.Group, "group", "",
		"group of holds that are confirmed or rolled back together")
	flags.StringVar(&request.Above, "above", "", `what a confirm of more than is held does: `+
		`"refuse" (default), or "available", which takes what the budget has left`)
	expiresAsFlag(cmd, &request.ExpiresAs, "released")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		request.Amount, err = amount(args[1])
		err = firstOf(reference(args[0]), err, id.check(cmd),
			optionalText("key", request.Key), optionalText("reference", request.Reference),
			optionalText("group", request.Group), needsHold(cmd, request))
		if err = firstOf(err, whom.check()); err != nil {
			return err
		}
		request.Dimensions, request.Counts = whom.dimensions, whom.counts
		request.RequestID = id.value()
		if dryRun {
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Foreseen, error) {
				return c.DryRun(ctx, args[0], request)
			}, foreseen)
		}
		orElse := "; or make certain that it never does: budgetctl cancel " + args[0] + " " +
			quoted(request.RequestID)
		ask := func(ctx context.Context, c *client.Client) (*client.DeductAnswer, error) {
			answer, err := c.Deduct(ctx, args[0], request)
			return answer, id.advise(err, orElse)
		}
		return call(a, cmd, ask, accepted)
	}
	return cmd
}

// accepted formats an accepted deduction.
func accepted(answer *client.DeductAnswer) string {
	fields := []field{{"request id", answer.RequestID}, {"outcome", answer.Outcome},
		{"amount", answer.Amount}, {"state", answer.State}, {"bucket", answer.Bucket},
		{"bucket remaining", known(answer.Unlimited, answer.BucketRemaining)},
		{"budget remaining", known(answer.Unlimited, answer.BudgetRemaining)}}
	if answer.PeriodRemaining != nil {
		fields = append(fields, field{"period remaining", *answer.PeriodRemaining})
	}
	if !answer.HoldUntil.IsZero() {
		fields = append(fields, field{"held until", answer.HoldUntil})
	}
	fields = append(fields, stateFields(answer.Limits)...)
	return details(append(fields, field{"replayed", answer.Replayed})...)
}

// known formats a figure that an answer may lack.
func known(unlimited bool, n *int64) any {
	switch {
	case unlimited:
		return "unlimited"
	case n == nil:
		return "not known"
	}
	return *n
}

// foreseen formats the answer that a deduction would get.
func foreseen(answer *client.Foreseen) string {
	fields := []field{{"request id", answer.RequestID}, {"outcome", answer.Outcome},
		{"amount", answer.Amount},
		{"budget remaining", orUnlimited(answer.BudgetRemaining)}}
	if answer.PeriodRemaining != nil {
		fields = append(fields, field{"period remaining", *answer.PeriodRemaining})
	}
	fields = append(fields, stateFields(answer.Limits)...)
	return details(append(fields, field{"replayed", answer.Replayed})...)
}

func (a *app) rollbackCommand() *cobra.Command {
	var part string
	var request client.RollbackRequest
	id := &idFlag{name: "rollback-id"}
	cmd := &cobra.Command{
		Use:   "rollback BUDGET REQUEST_ID",
		Short: "Give a deduction's units back",
		Long: `Gives back what is left of a deduction, with --amount a part of it, or with --group the
units of every hold of a group. Each part needs its own rollback id; without --rollback-id an id is
generated and shown.

deduction_not_found (exit status 1) is not final while the deduction may still arrive. 'budgetctl
cancel' is final.`,
		Example: `  budgetctl rollback spring-sale o1
  budgetctl rollback spring-sale o1 --amount 2 --rollback-id refund-17
  budgetctl rollback spring-sale --group order-17`,
	}
	group := groupFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&part, "amount", "", "part to give back (default all that is left)")
	flags.StringVar(&id.text, id.name, "", "idempotency key of the rollback (default: the whole's)")
	flags.StringVar(&request.Receipt, "receipt", "", "receipt of the deduction")
	flags.StringVar(&request.Key, "key", "", keyHelp)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if group.given(cmd) {
			return group.call(a, cmd, args, (*client.Client).RollbackGroup)
		}
		request.RequestID, request.NoKey = args[1], flags.Changed("key") && request.Key == ""
		err = firstOf(reference(args[0]), requestID(args[1]), optionalText("key", request.Key),
			id.check(cmd))
		if part != "" && err == nil {
			request.Amount, err = amount(part)
		}
		if err != nil {
			return err
		}
		request.RollbackID = id.text
		if request.Amount != 0 {
			request.RollbackID = id.value()
		}
		return call(a, cmd, func(ctx context.Context, c *client.Client) (*rolledBack, error) {
			answer, err := c.Rollback(ctx, args[0], request)
			if err != nil {
				if request.RollbackID != "" {
					err = id.advise(err, "")
				}
				return nil, err
			}
			return &rolledBack{request.RollbackID, *answer}, nil
		}, func(answer *rolledBack) string {
			if answer.RollbackID == "" {
				return deduction(&answer.Deduction)
			}
			return deduction(&answer.Deduction, field{"rollback id", answer.RollbackID})
		})
	}
	return cmd
}

// rolledBack is the answer to a rollback with its rollback id, which may have been generated.
type rolledBack struct {
	RollbackID       string `json:"rollback_id,omitzero"`
	client.Deduction `json:",inline"`
}

func (a *app) cancelCommand() *cobra.Command {
	var request client.CancelRequest
	cmd := &cobra.Command{
		Use:   "cancel BUDGET REQUEST_ID",
		Short: "Ensure that a request id has no effect",
		Long: `Ensures that a request id has no effect. It rolls back a deduction that happened. A
deduction that has not happened never will (state void), even if it is still on its way.`,
		Example: `  budgetctl cancel spring-sale o1`,
		Args:    arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := firstOf(reference(args[0]), requestID(args[1]), optionalText("key", request.Key))
			if err != nil {
				return err
			}
			request.RequestID = args[1]
			request.NoKey = cmd.Flags().Changed("key") && request.Key == ""
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Deduction, error) {
				return c.Cancel(ctx, args[0], request)
			}, func(answer *client.Deduction) string { return deduction(answer) })
		},
	}
	cmd.Flags().StringVar(&request.Receipt, "receipt", "", "receipt of the deduction")
	cmd.Flags().StringVar(&request.Key, "key", "", keyHelp)
	return cmd
}

const keyHelp = `key of the deduction, or its value of the routing dimension, or "" if it ` +
	"had neither; a budget in store mode needs it or the receipt"

// deduction formats the record of a request id.
func deduction(d *client.Deduction, more ...field) string {
	fields := []field{{"request id", d.RequestID}, {"state", d.State}, {"amount", d.Amount},
		{"rolled back", d.RolledBack}, {"bucket", d.Bucket}, {"reference", d.Reference},
		{"counted at", d.CountedAt}, {"replayed", d.Replayed}}
	if !d.HoldUntil.IsZero() {
		fields = append(fields, field{"confirmed", d.Confirmed}, field{"held until", d.HoldUntil},
			field{"group", d.Group})
	}
	if d.Extra+d.Uncollected > 0 {
		fields = append(fields, field{"extra", d.Extra}, field{"uncollected", d.Uncollected})
	}
	if d.ExpiresAs != "" {
		fields = append(fields, field{"expires as", d.ExpiresAs})
	}
	if d.Late {
		fields = append(fields, field{"late", d.Late})
	}
	if d.OverLimit {
		fields = append(fields, field{"over limit", d.OverLimit})
	}
	return details(append(fields, more...)...)
}
