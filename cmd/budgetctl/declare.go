package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/strictyaml"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

const declareHelp = `

With -f it creates or changes budgets so that they are as a file says. It first shows the
differences, and what happens to units that are used or held; --dry-run ends there. It does not
change what the file leaves out, and a second apply changes nothing. It refuses to shrink a total by
units that are used or held. 'budgetctl export' writes such a file. A budget that has ended is made
only with allow_past: true, which export writes.`

// declared is a budget in a file of apply. Status may be paused.
type declared struct {
	client.CreateRequest `json:",inline"`
	// Thresholds are the budget's own, nil if the defaults apply or the file does not say.
	Thresholds *[]client.Threshold `json:"thresholds,omitzero"`
}

// declaration is a file of apply.
type declaration struct {
	Budgets []declared `json:"budgets"`
}

// applied is what apply does, or in a dry run would do, to one budget.
type applied struct {
	Name string `json:"name"`
	// Action is create, change or none.
	Action string   `json:"action"`
	Lines  []string `json:"changes"`

	create     *client.CreateRequest
	patch      *client.PatchRequest
	total      int64                // the total to set; 0 means no change
	thresholds *[]client.Threshold  // to set; nil means no change
	own        []ownMaximums        // overrides to change
	then       *client.PatchRequest // when they are set; nil means nothing
	before     *client.Budget
}

// declaring gives the command for buckets the flag for a file of budgets.
func (a *app) declaring(cmd *cobra.Command) *cobra.Command {
	var file string
	var dry bool
	cmd.Short += "; or apply -f FILE: create or change budgets as a file says"
	cmd.Long += declareHelp
	cmd.Example += "\n  budgetctl apply -f budgets.yaml --dry-run"
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with budgets, YAML or JSON; - is stdin")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "with -f: show what would change, and change nothing")
	must(cmd.MarkFlagFilename("file", "yaml", "yml", "json"))
	ofBucket := cmd.RunE
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case file == "" && dry:
			return usagef("--dry-run goes with -f")
		case file == "":
			return arguments(cmd, args)
		case len(args) > 0:
			return usagef("-f and %q do not go together", args[0])
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if file == "" {
			return ofBucket(cmd, args)
		}
		wanted, err := readDeclaration(file, cmd.InOrStdin())
		if err != nil {
			return err
		}
		return call(a, cmd, func(ctx context.Context, c *client.Client) (*appliedList, error) {
			return a.declare(ctx, c, wanted, dry)
		}, (*appliedList).text)
	}
	return cmd
}

// readDeclaration reads a file strictly: an unknown member is an error. It returns all faults.
func readDeclaration(path string, stdin io.Reader) (*declaration, error) {
	var text []byte
	var err error
	if path == "-" {
		text, err = io.ReadAll(stdin)
	} else {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, usagef("-f: %v", err)
	}
	text, err = strictyaml.JSON(text)
	var form strictyaml.Faults
	if err != nil && !errors.As(err, &form) {
		return nil, usagef("-f %s: %v", path, err)
	}
	out, list := unreadable(path, text, form)
	if len(list) == 0 {
		list = undeclarable(path, out)
	}
	if len(list) > 0 {
		return nil, list
	}
	return out, nil
}

// undeclarable returns what apply cannot do of a file, before it asks the server.
func undeclarable(path string, file *declaration) (list faults) {
	seen := map[string]bool{}
	for i := range file.Budgets {
		d := &file.Budgets[i]
		why := budget.CheckName(d.Name)
		switch {
		case why != "":
			list = append(list, usagef("-f %s: budget %q: name %s", path, d.Name, why))
		case seen[d.Name]:
			list = append(list, usagef("-f %s: budget %s appears twice", path, d.Name))
		}
		seen[d.Name] = true
		if d.Tenant != "" {
			list = append(list, usagef("-f %s: budget %s: tenant: give it with --tenant", path, d.Name))
		}
		if d.Status != "" && d.Status != budget.Paused && d.Status != budget.Effective {
			list = append(list, usagef("-f %s: budget %s: status must be paused or effective", path,
				d.Name))
		}
	}
	return list
}

type appliedList struct {
	Budgets []applied `json:"budgets"`
	DryRun  bool      `json:"dry_run"`
}

// declare writes the differences to stderr and, unless dry, applies them. It changes nothing if any
// budget cannot be made as the file says.
func (a *app) declare(ctx context.Context, c *client.Client, wanted *declaration, dry bool) (
	*appliedList, error) {
	out := &appliedList{DryRun: dry, Budgets: []applied{}}
	var list faults
	for i := range wanted.Budgets {
		one, err := differing(ctx, c, &wanted.Budgets[i])
		if err == nil {
			out.Budgets = append(out.Budgets, *one)
			continue
		}
		list = append(list, fmt.Errorf("budget %s: %w", wanted.Budgets[i].Name, err))
		if kind := client.KindOf(err); kind == budget.NotDone || kind == budget.MayBeDone {
			break // the server does not answer for the others either
		}
	}
	if len(list) > 0 {
		return nil, list
	}
	if dry {
		return out, nil
	}
	fmt.Fprintln(a.stderr, out.difference())
	for i := range out.Budgets {
		if err := out.Budgets[i].do(ctx, c); err != nil {
			return nil, fmt.Errorf("budget %s: %w", out.Budgets[i].Name, err)
		}
	}
	return out, nil
}

// do makes one budget as declared. It fails if the budget has changed since it was compared. The
// request id of a change of the total is derived from the version, so two concurrent applies change
// it once.
func (d *applied) do(ctx context.Context, c *client.Client) error {
	err := d.each(func(m *ownMaximums) error { return m.add(ctx, c, d.Name, false) })
	if err == nil {
		err = d.define(ctx, c)
	}
	if err == nil {
		err = d.each(func(m *ownMaximums) error { return m.add(ctx, c, d.Name, true) })
	}
	if err == nil && d.then != nil {
		_, err = c.Patch(ctx, d.Name, *d.then)
	}
	if err == nil {
		err = d.each(func(m *ownMaximums) error { return m.drop(ctx, c, d.Name) })
	}
	if err == nil && d.thresholds != nil {
		_, err = c.SetThresholds(ctx, d.Name, *d.thresholds)
	}
	return err
}

// each calls do for each limit whose overrides change, until it fails.
func (d *applied) each(do func(m *ownMaximums) error) error {
	for i := range d.own {
		if err := do(&d.own[i]); err != nil {
			return err
		}
	}
	return nil
}

// define creates or changes the budget itself.
func (d *applied) define(ctx context.Context, c *client.Client) error {
	if d.create != nil {
		_, err := c.Create(ctx, *d.create)
		return err
	}
	now := d.before
	if d.patch != nil {
		d.patch.IfVersion = now.Version
		var err error
		if now, err = c.Patch(ctx, d.Name, *d.patch); err != nil {
			return err
		}
	}
	if d.total == 0 || client.Units(now.TotalQuantity) == d.total {
		return nil
	}
	_, err := c.Append(ctx, d.Name, client.AppendRequest{
		RequestID: fmt.Sprintf("apply-%d-v%d-%d", now.ID, now.Version, d.total),
		Quantity:  d.total - client.Units(now.TotalQuantity)})
	return err
}

// difference formats the actions, budget by budget.
func (l *appliedList) difference() string {
	var out bytes.Buffer
	signs := map[string]string{"create": "+", "change": "~", "none": "="}
	for _, d := range l.Budgets {
		fmt.Fprintf(&out, "%s %s\n", signs[d.Action], printable(d.Name))
		for _, line := range d.Lines {
			fmt.Fprintf(&out, "    %s\n", printable(line))
		}
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func (l *appliedList) text() string {
	counts := map[string]int{}
	for _, d := range l.Budgets {
		counts[d.Action]++
	}
	done := fmt.Sprintf("%d created, %d changed, %d as they were", counts["create"],
		counts["change"], counts["none"])
	if !l.DryRun {
		return done
	}
	return l.difference() + "\n" + done + " (dry run: nothing was done)"
}

func (a *app) exportBudgetsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export [BUDGET...]",
		Short: "Write budgets as a file for 'budgetctl apply -f'",
		Long: `Writes the definitions of the named budgets, or of all of the tenant, for 'budgetctl apply
-f': as YAML, or as JSON with -o json. It leaves out figures such as the used units.`,
		Example:           `  budgetctl export > budgets.yaml`,
		ValidArgsFunction: a.completeBudgets,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if err := reference(name); err != nil {
					return err
				}
			}
			if a.output == "table" {
				a.output = "yaml"
			}
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*declaration, error) {
				return export(ctx, c, args)
			}, func(*declaration) string { return "" })
		},
	}
}

// export reads the definitions of the named budgets, or of all budgets if none is named.
func export(ctx context.Context, c *client.Client, names []string) (*declaration, error) {
	out := &declaration{Budgets: []declared{}}
	for _, name := range names {
		b, err := c.Budget(ctx, name)
		if err != nil {
			return nil, err
		}
		out.Budgets = append(out.Budgets, declaredOf(b))
	}
	if len(names) == 0 {
		for b, err := range c.Budgets(ctx, client.Filter{}) {
			if err != nil {
				return nil, err
			}
			out.Budgets = append(out.Budgets, declaredOf(&b))
		}
	}
	for i := range out.Budgets {
		for j := range out.Budgets[i].Limits {
			l, err := &out.Budgets[i].Limits[j], error(nil)
			if l.OverrideCount == 0 {
				continue
			}
			l.OverrideCount = 0
			if l.Overrides, err = allOverrides(ctx, c, out.Budgets[i].Name, l.Name); err != nil {
				return nil, err
			}
		}
		own, err := c.Thresholds(ctx, out.Budgets[i].Name)
		if err != nil {
			return nil, err
		}
		if own.Own {
			out.Budgets[i].Thresholds = &own.Thresholds
		}
	}
	return out, nil
}

// declaredOf returns the definition of a budget.
func declaredOf(b *client.Budget) declared {
	d := declared{CreateRequest: client.CreateRequest{Name: b.Name, GLCode: b.GLCode, Unit: b.Unit,
		Durability: b.Durability, TotalQuantity: client.Units(b.TotalQuantity), Type: b.Type,
		BucketQuantity: b.BucketQuantity, ShardingQuantity: b.ShardingQuantity,
		AdjustCnt: b.AdjustCnt, StartAt: b.StartAt, EndAt: b.EndAt, TypeRule: b.TypeRule,
		Timezone: b.Timezone, LateRefund: b.LateRefund, Unlimited: b.Unlimited,
		RoutingDimension: b.RoutingDimension, Limits: b.Limits, OnLoss: b.OnLoss}}
	if b.Unlimited {
		d.Type = ""
	}
	d.AllowPast = b.Status == budget.Expired
	if b.Status == budget.Paused {
		d.Status = budget.Paused
	}
	return d
}

// text writes a value as the API does, to compare it.
func textOf(value any) string {
	text, err := json.Marshal(value, json.Deterministic(true), jsontext.Multiline(false))
	if err != nil {
		return err.Error()
	}
	return string(text)
}
