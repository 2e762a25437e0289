package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

// limitChange holds the flags of set that change a list of limits. --limit adds a limit or replaces
// the one with its name, --remove-limit removes one, --limits-file replaces all.
type limitChange struct {
	limitFlags
	remove []string
}

func (c *limitChange) add(cmd *cobra.Command) {
	c.limitFlags.add(cmd)
	cmd.Flags().StringArrayVar(&c.remove, "remove-limit", nil, "name of a limit to remove; repeatable")
}

// given reports whether the flags change anything.
func (c *limitChange) given(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"limit", "limits-file", "remove-limit"}, cmd.Flags().Changed)
}

// of returns the limits of a budget after the change; given are those of the flags.
func (c *limitChange) of(cmd *cobra.Command, before, given []client.Limit) ([]client.Limit, error) {
	if cmd.Flags().Changed("limits-file") {
		return given, nil
	}
	after := slices.Clone(before)
	at := func(name string) int {
		return slices.IndexFunc(after, func(l client.Limit) bool { return l.Name == name })
	}
	for _, name := range c.remove {
		i := at(name)
		if i < 0 {
			return nil, usagef("--remove-limit %q: the budget has no limit of that name", name)
		}
		after = slices.Delete(after, i, i+1)
	}
	for _, l := range given {
		if i := at(l.Name); i >= 0 {
			if l.Overrides == nil && l.Dimension == after[i].Dimension {
				l.OverrideCount = after[i].OverrideCount // it keeps them
			}
			after[i] = l
		} else {
			after = append(after, l)
		}
	}
	if after == nil {
		after = []client.Limit{}
	}
	return after, nil
}

// patchLimits changes the limits of a budget by the flags. It first writes the difference to
// stderr. The change fails if the budget has changed since it was read.
func (a *app) patchLimits(cmd *cobra.Command, name string, c *limitChange, given []client.Limit,
	request client.PatchRequest) error {
	if err := reference(name); err != nil {
		return err
	}
	return call(a, cmd, func(ctx context.Context, to *client.Client) (*client.Budget, error) {
		b, err := to.Budget(ctx, name)
		if err != nil {
			return nil, err
		}
		if request.Limits, err = c.of(cmd, b.Limits, given); err != nil {
			return nil, err
		}
		if request.IfVersion == 0 {
			request.IfVersion = b.Version
		}
		_, own, err := overrideDifference(ctx, to, b, request.Limits)
		if err != nil {
			return nil, err
		}
		for _, line := range append(limitDifference(b.Limits, request.Limits), own...) {
			if _, err := io.WriteString(a.stderr, printable(line)+"\n"); err != nil {
				return nil, fmt.Errorf("output: %w", err)
			}
		}
		for i := range request.Limits {
			request.Limits[i].OverrideCount = 0
		}
		return to.Patch(ctx, name, request)
	}, view)
}

// limitDifference formats the difference between two lists of limits, a line for each changed
// limit.
func limitDifference(before, after []client.Limit) (lines []string) {
	find := func(in []client.Limit, name string) string {
		for _, l := range in {
			if l.Name == name {
				if l.Window.Kind == budget.WindowCalendar && l.Window.Timezone == "" {
					l.Window.Timezone = "the budget's zone"
				}
				return limitText(l)
			}
		}
		return ""
	}
	for _, l := range before {
		was, is := find(before, l.Name), find(after, l.Name)
		switch {
		case is == "":
			lines = append(lines, fmt.Sprintf("- limit %s: %s", l.Name, was))
		case is != was:
			lines = append(lines, fmt.Sprintf("- limit %s: %s", l.Name, was),
				fmt.Sprintf("+ limit %s: %s", l.Name, is))
		}
	}
	for _, l := range after {
		if find(before, l.Name) == "" {
			lines = append(lines, fmt.Sprintf("+ limit %s: %s", l.Name, find(after, l.Name)))
		}
	}
	return lines
}
