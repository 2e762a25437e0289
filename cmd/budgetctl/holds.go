package main

import (
	"context"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

// needsHold refuses flags about a hold without one, and other words than they take.
func needsHold(cmd *cobra.Command, request client.DeductRequest) error {
	if request.Group != "" && request.HoldTTL == "" {
		return usagef("--group needs --hold: it names holds that are confirmed or rolled back together")
	}
	for _, flag := range []string{"above", "expires-as"} {
		if cmd.Flags().Changed(flag) && request.HoldTTL == "" {
			return usagef("--%s needs --hold: it is about the end of a hold", flag)
		}
	}
	return firstOf(oneWord(cmd, "above", "refuse", "available"), expiresAs(cmd))
}

// expiresAsFlag adds --expires-as to a command.
func expiresAsFlag(cmd *cobra.Command, to *string, otherwise string) {
	cmd.Flags().StringVar(to, "expires-as", "", `what the expiry does with what is held: `+
		`"released" or "used" (default `+otherwise+`)`)
}

func expiresAs(cmd *cobra.Command) error { return oneWord(cmd, "expires-as", "released", "used") }

// oneWord refuses another word than two that a flag takes.
func oneWord(cmd *cobra.Command, name, first, second string) error {
	flag := cmd.Flags().Lookup(name)
	if text := flag.Value.String(); flag.Changed && text != first && text != second {
		return usagef("--%s %q: must be %q or %q", name, text, first, second)
	}
	return nil
}

// groupOf is the flag --group of a command for one hold or a group of holds.
type groupOf struct{ name string }

// groupFlag adds --group to a command. It replaces REQUEST_ID.
func groupFlag(cmd *cobra.Command) *groupOf {
	g := &groupOf{}
	cmd.Flags().StringVar(&g.name, "group", "", "all holds of this group, instead of one request id")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if !g.given(cmd) {
			return arguments(cmd, args)
		}
		if len(args) > 1 {
			return usagef("%q is one argument too many: --group names the holds", args[1])
		}
		if len(args) == 0 {
			return usagef("BUDGET is missing")
		}
		for _, flag := range []string{"amount", "rollback-id", "receipt"} {
			if cmd.Flags().Changed(flag) {
				return usagef("--%s cannot stand beside --group, which names all of its holds", flag)
			}
		}
		return nil
	}
	return g
}

func (g *groupOf) given(cmd *cobra.Command) bool { return cmd.Flags().Changed("group") }

// call makes a call for the holds of the group.
func (g *groupOf) call(a *app, cmd *cobra.Command, args []string,
	do func(c *client.Client, ctx context.Context, name, group string) (*client.Group, error)) error {
	if err := firstOf(reference(args[0]), groupName(g.name)); err != nil {
		return err
	}
	return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Group, error) {
		return do(c, ctx, args[0], g.name)
	}, groupTable)
}

func groupName(text string) error {
	if why := budget.CheckRequestID(text); why != "" {
		return usagef("--group %q: %s", text, why)
	}
	return nil
}

// groupTable formats the holds of a group.
func groupTable(answer *client.Group) string {
	rows := make([][]any, len(answer.Deductions))
	for i := range answer.Deductions {
		d := &answer.Deductions[i]
		rows[i] = []any{d.RequestID, d.State, d.Amount, d.Confirmed, d.RolledBack}
	}
	return listing([]string{"request id", "state", "amount", "confirmed", "rolled back"}, rows)
}

// mostHolds bounds the list of open holds.
const mostHolds = 500

func (a *app) holdsCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "holds BUDGET",
		Short: "Show the open holds of a budget",
		Long: `Shows the units of a budget that are held, those first that expire first. They are used
once they are confirmed, and can be spent again once they are rolled back or expire.`,
		Example: `  budgetctl holds spring-sale`,
		Args:    arguments,
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "show at most so many, up to 500")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit < 1 || limit > mostHolds {
			return usagef("--limit %d must be 1 to %d", limit, mostHolds)
		}
		if err := reference(args[0]); err != nil {
			return err
		}
		return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.HoldList, error) {
			return c.Holds(ctx, args[0], limit)
		}, func(list *client.HoldList) string {
			rows := make([][]any, len(list.Holds))
			for i, h := range list.Holds {
				rows[i] = []any{h.RequestID, h.Group, h.Amount, h.Bucket, h.HeldAt, h.HoldUntil}
			}
			return listing([]string{"request id", "group", "amount", "bucket", "held", "expires"}, rows)
		})
	}
	return cmd
}

func (a *app) confirmCommand() *cobra.Command {
	var part string
	var request client.ConfirmRequest
	cmd := &cobra.Command{
		Use:   "confirm BUDGET REQUEST_ID",
		Short: "Use the units of a hold",
		Long: `Uses the units of a hold. With --amount it uses a part and gives the rest back. More than
is held takes the rest from what the budget has left, if the deduct said --above available; what
the budget does not have is shown as uncollected. With --group it confirms every hold of a group,
or none. Repeating it changes nothing. A hold that has expired cannot be confirmed (exit status
3), unless the deduct said --above available or --expires-as used.`,
		Example: `  budgetctl confirm spring-sale o3
  budgetctl confirm spring-sale o3 --amount 2
  budgetctl confirm spring-sale --group order-17`,
	}
	group := groupFlag(cmd)
	cmd.Flags().StringVar(&part, "amount", "", "units to use (default the whole)")
	cmd.Flags().StringVar(&request.Receipt, "receipt", "", "receipt of the deduction")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if group.given(cmd) {
			return group.call(a, cmd, args, (*client.Client).ConfirmGroup)
		}
		if err = firstOf(reference(args[0]), requestID(args[1])); part != "" && err == nil {
			request.Amount, err = amount(part)
		}
		if err != nil {
			return err
		}
		request.RequestID = args[1]
		return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Deduction, error) {
			return c.Confirm(ctx, args[0], request)
		}, func(answer *client.Deduction) string { return deduction(answer) })
	}
	return cmd
}

func (a *app) extendCommand() *cobra.Command {
	var request client.ExtendRequest
	cmd := &cobra.Command{
		Use:   "extend BUDGET REQUEST_ID",
		Short: "Let a hold expire later, or sooner",
		Long: `Changes when a hold, or with --group every hold of a group, expires. --hold counts from
now. A hold that has expired cannot be extended (exit status 3).`,
		Example: `  budgetctl extend spring-sale o3 --hold 15m
  budgetctl extend spring-sale o3 --hold 15m --expires-as used
  budgetctl extend spring-sale --group order-17 --hold 1h`,
	}
	group := groupFlag(cmd)
	cmd.Flags().StringVar(&request.HoldTTL, "hold", "", "time from now, such as 15m (required)")
	expiresAsFlag(cmd, &request.ExpiresAs, "as before")
	cmd.Flags().StringVar(&request.Receipt, "receipt", "", "receipt of the deduction")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if request.HoldTTL == "" {
			return usagef("--hold is missing: how long from now, such as 15m")
		}
		if err := expiresAs(cmd); err != nil {
			return err
		}
		if group.given(cmd) {
			return group.call(a, cmd, args, func(c *client.Client, ctx context.Context, name,
				group string) (*client.Group, error) {
				return c.ExtendGroup(ctx, name, group, request)
			})
		}
		if err := firstOf(reference(args[0]), requestID(args[1])); err != nil {
			return err
		}
		request.RequestID = args[1]
		return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Deduction, error) {
			return c.Extend(ctx, args[0], request)
		}, func(answer *client.Deduction) string { return deduction(answer) })
	}
	return cmd
}

func (a *app) renewCommand() *cobra.Command {
	var step int64
	var used, keep string
	var request client.RenewRequest
	cmd := &cobra.Command{
		Use:   "renew BUDGET REQUEST_ID",
		Short: "Make one step of a stream",
		Long: `Uses units of a hold and changes how many are held from now on, for a call whose amount
nobody knows at the beginning. What the budget does not have is not held: then it shows that the
step is final. --keep 0 ends the stream, and so does confirm. Steps are numbered from 1; repeating
the last one changes nothing.`,
		Example: `  budgetctl renew tokens s1 --step 1 --used 40 --keep 50 --hold 30s
  budgetctl renew tokens s1 --step 2 --used 12 --keep 0 --hold 30s`,
		Args: arguments,
	}
	flags := cmd.Flags()
	flags.Int64Var(&step, "step", 0, "number of the step, from 1 (required)")
	flags.StringVar(&used, "used", "0", "units used since the last step")
	flags.StringVar(&keep, "keep", "", "units to hold from now on (required)")
	flags.StringVar(&request.HoldTTL, "hold", "", "how long from now, such as 30s (required)")
	flags.StringVar(&request.Receipt, "receipt", "", "receipt of the deduction")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		for _, name := range []string{"step", "keep", "hold"} {
			if !cmd.Flags().Changed(name) {
				return usagef("--%s is missing", name)
			}
		}
		if err = firstOf(reference(args[0]), requestID(args[1])); err != nil {
			return err
		}
		if request.Used, err = unitsOrNone("used", used); err != nil {
			return err
		}
		if request.Hold, err = unitsOrNone("keep", keep); err != nil {
			return err
		}
		request.RequestID, request.Step = args[1], step
		return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Renewal, error) {
			return c.Renew(ctx, args[0], request)
		}, func(r *client.Renewal) string {
			return details(field{"request id", r.RequestID}, field{"step", r.Step},
				field{"used in all", r.UsedTotal}, field{"held", r.Held}, field{"final", r.Final},
				field{"uncollected", r.Uncollected}, field{"expires", r.HoldUntil})
		})
	}
	return cmd
}

// unitsOrNone parses a number of units that may be 0.
func unitsOrNone(flag, text string) (int64, error) {
	if text == "0" {
		return 0, nil
	}
	n, err := amount(text)
	if err != nil {
		return 0, usagef("--%s %q: must be 0 or more units", flag, text)
	}
	return n, nil
}
