package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

const (
	// overridesAtOnce is the most overrides of a limit in one call.
	overridesAtOnce = 1000
	// overridesShown is how many values a difference, or the view of a budget, shows of a limit.
	overridesShown = 20
)

// ownMaximums is what changes in the overrides of one limit.
type ownMaximums struct {
	limit  string
	set    []client.Override
	remove []client.Override
	// fresh says that the limit gets them only after it is made.
	fresh bool
}

// valueOf returns the values of an override, one per dimension.
func valueOf(o client.Override) []string {
	if len(o.Values) > 0 {
		return o.Values
	}
	return []string{o.Value}
}

func overrideText(o client.Override) string {
	if o.Exempt {
		return "exempt"
	}
	return grouped(client.Units(o.Max))
}

// allOverrides reads all overrides of a limit.
func allOverrides(ctx context.Context, c *client.Client, name, limit string) (
	list []client.Override, err error) {
	query := client.OverrideQuery{PageSize: overridesAtOnce}
	for {
		page, err := c.Overrides(ctx, name, limit, query)
		if err != nil {
			return nil, err
		}
		list = append(list, page.Overrides...)
		if query.PageToken = page.NextPageToken; query.PageToken == "" {
			return list, nil
		}
	}
}

// addOverrides adds the first overrides of each limit, to be shown.
func addOverrides(ctx context.Context, c *client.Client, b *client.Budget) error {
	for i := range b.Limits {
		l := &b.Limits[i]
		if l.OverrideCount == 0 {
			continue
		}
		page, err := c.Overrides(ctx, b.Name, l.Name, client.OverrideQuery{PageSize: overridesShown})
		if err != nil {
			return err
		}
		l.Overrides = page.Overrides
	}
	return nil
}

// differ compares the overrides that a limit has with those that it shall have.
func (m *ownMaximums) differ(before, after []client.Override) (lines []string) {
	key := func(o client.Override) string { return textOf(valueOf(o)) }
	was := make(map[string]client.Override, len(before))
	for _, o := range before {
		was[key(o)] = o
	}
	for _, o := range after {
		old, known := was[key(o)]
		delete(was, key(o))
		switch {
		case !known:
			lines = append(lines, m.line("+", o))
		case overrideText(old) != overrideText(o):
			lines = append(lines, m.line("-", old), m.line("+", o))
		default:
			continue
		}
		m.set = append(m.set, o)
	}
	for _, o := range before {
		if _, left := was[key(o)]; left {
			lines = append(lines, m.line("-", o))
			m.remove = append(m.remove, o)
		}
	}
	return lines
}

// shown cuts a long difference.
func shown(lines []string) []string {
	if len(lines) <= overridesShown {
		return lines
	}
	return append(slices.Clone(lines[:overridesShown]), fmt.Sprintf("… and %s more lines of overrides",
		grouped(int64(len(lines)-overridesShown))))
}

func (m *ownMaximums) line(sign string, o client.Override) string {
	return fmt.Sprintf("%s override %s=%s: %s", sign, m.limit, strings.Join(valueOf(o), "+"),
		overrideText(o))
}

// add sets the overrides of a limit that is fresh, or is not.
func (m *ownMaximums) add(ctx context.Context, c *client.Client, name string, fresh bool) error {
	if m.fresh != fresh {
		return nil
	}
	for chunk := range slices.Chunk(m.set, overridesAtOnce) {
		if _, err := c.SetOverrides(ctx, name, m.limit, chunk...); err != nil {
			return err
		}
	}
	return nil
}

// drop removes overrides.
func (m *ownMaximums) drop(ctx context.Context, c *client.Client, name string) error {
	for _, o := range m.remove {
		if _, err := c.RemoveOverride(ctx, name, m.limit, valueOf(o)...); err != nil {
			return err
		}
	}
	return nil
}

// bare returns limits without overrides, as calls that define limits get them: they keep those that
// they have.
func bare(list []client.Limit) []client.Limit {
	out := slices.Clone(list)
	for i := range out {
		out[i].Overrides, out[i].OverrideCount = nil, 0
	}
	return out
}

// longBare is bare for limits with more overrides than one call takes.
func longBare(list []client.Limit) []client.Limit {
	out := slices.Clone(list)
	for i := range out {
		if len(out[i].Overrides) > overridesAtOnce {
			out[i].Overrides = nil
		}
	}
	return out
}

// overrideDifference determines what changes in the overrides of limits that say which they have.
func overrideDifference(ctx context.Context, c *client.Client, b *client.Budget,
	after []client.Limit) (out []ownMaximums, lines []string, err error) {
	for _, l := range after {
		if l.Overrides == nil {
			continue
		}
		one := ownMaximums{limit: l.Name}
		var before []client.Override
		for _, was := range b.Limits {
			if was.Name == l.Name && was.Dimension == l.Dimension && was.OverrideCount > 0 {
				if before, err = allOverrides(ctx, c, b.Name, l.Name); err != nil {
					return nil, nil, err
				}
			}
		}
		lines = append(lines, shown(one.differ(before, l.Overrides))...)
		if len(one.set)+len(one.remove) > 0 {
			out = append(out, one)
		}
	}
	return out, lines, nil
}

// ownFlags are the flags of set that change single overrides.
type ownFlags struct{ set, remove []string }

func (f *ownFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.set, "override", nil,
		"LIMIT=value:max, or LIMIT=value:exempt: the maximum of one value; repeatable")
	cmd.Flags().StringArrayVar(&f.remove, "remove-override", nil,
		"LIMIT=value: the value has the limit's maximum again; repeatable")
}

func (f *ownFlags) given() bool { return len(f.set)+len(f.remove) > 0 }

// read parses the flags.
func (f *ownFlags) read() (out []ownMaximums, err error) {
	of := func(flag, text string) (*ownMaximums, string, error) {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" || value == "" {
			return nil, "", usagef("--%s %q: must be LIMIT=value", flag, text)
		}
		at := slices.IndexFunc(out, func(m ownMaximums) bool { return m.limit == name })
		if at < 0 {
			at, out = len(out), append(out, ownMaximums{limit: name})
		}
		return &out[at], value, nil
	}
	for _, text := range f.set {
		m, value, err := of("override", text)
		if err != nil {
			return nil, err
		}
		var l client.Limit
		if why := parseOverride(&l, value); why != "" {
			return nil, usagef("--override %q: %s", text, why)
		}
		m.set = append(m.set, l.Overrides...)
	}
	for _, text := range f.remove {
		m, value, err := of("remove-override", text)
		if err != nil {
			return nil, err
		}
		m.remove = append(m.remove, client.Override{Value: value})
	}
	return out, nil
}

// changeOverrides changes single overrides, and first writes what differs to stderr.
func (a *app) changeOverrides(ctx context.Context, c *client.Client, name string,
	changes []ownMaximums) error {
	for i := range changes {
		m := &changes[i]
		if err := m.separate(ctx, c, name); err != nil {
			return err
		}
		var lines []string
		for _, o := range slices.Concat(m.set, m.remove) {
			page, err := c.Overrides(ctx, name, m.limit, client.OverrideQuery{Values: valueOf(o)})
			if err != nil {
				return err
			}
			for _, was := range page.Overrides {
				lines = append(lines, m.line("-", was))
			}
		}
		for _, o := range m.set {
			lines = append(lines, m.line("+", o))
		}
		for _, line := range shown(lines) {
			if _, err := io.WriteString(a.stderr, printable(line)+"\n"); err != nil {
				return fmt.Errorf("output: %w", err)
			}
		}
		if err := m.add(ctx, c, name, m.fresh); err != nil {
			return err
		}
		if err := m.drop(ctx, c, name); err != nil {
			return err
		}
	}
	return nil
}

// separate divides the values of a combined dimension, which a flag joins by +.
func (m *ownMaximums) separate(ctx context.Context, c *client.Client, name string) error {
	b, err := c.Budget(ctx, name)
	if err != nil {
		return err
	}
	combined := slices.ContainsFunc(b.Limits, func(l client.Limit) bool {
		return l.Name == m.limit && strings.Contains(l.Dimension, "+")
	})
	for _, list := range [][]client.Override{m.set, m.remove} {
		for i := range list {
			if o := &list[i]; combined && o.Value != "" {
				o.Values, o.Value = strings.Split(o.Value, "+"), ""
			}
		}
	}
	return nil
}
