package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/strictyaml"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

const limitsHelp = `
--limit bounds what each value of a dimension may take in a window, as a list of NAME=VALUE:
  name=per-user      what refusals call it (required)
  dimension=user     what is bounded; user+ad bounds each pair (required)
  window=day         second, minute, hour, day, week, month or year by the clock of timezone=ZONE
                     (default the budget's); day=31, weekday=sunday, hour=6 say when they begin;
                     sliding:8h/10m, the last 8 hours in slots of 10 minutes;
                     first_hit:5s, 5 seconds from the first deduction; lifetime (required)
  max=5              the most per value and window (required)
  measure=count      count (calls, the default) or amount (minor units)
  optional=true      a deduction that does not carry the dimension is not counted
  enforce=false      count only, never refuse
  override=vip:50    another maximum for one value, or vip:exempt; repeatable
--limits-file is a file of limits in YAML or JSON, in the form of the API (limits: [{name: ...}]).
Values with a comma and overrides of combined dimensions need it.`

// limitFlags are the flags that define the limits of a budget.
type limitFlags struct {
	list []string
	file string
}

func (f *limitFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.list, "limit", nil,
		"a limit: name=per-user,dimension=user,window=day,max=5; repeatable")
	flags.StringVar(&f.file, "limits-file", "", "file with the limits, YAML or JSON")
	must(cmd.MarkFlagFilename("limits-file", "yaml", "yml", "json"))
	must(cmd.RegisterFlagCompletionFunc("limit", completeLimit))
}

// limitKeys are the members of --limit.
var limitKeys = []string{"name", "dimension", "window", "max", "measure", "timezone", "day",
	"weekday", "hour", "optional", "enforce", "override"}

// completeLimit completes the missing members of a limit, and the values of members with few
// values.
func completeLimit(_ *cobra.Command, _ []string, so string) ([]string, cobra.ShellCompDirective) {
	const more = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	head, last := "", so
	if at := strings.LastIndexByte(so, ','); at >= 0 {
		head, last = so[:at+1], so[at+1:]
	}
	var offers []string
	for _, key := range limitKeys {
		switch {
		case strings.HasPrefix(last, key+"="):
			for _, value := range limitValues[key] {
				offers = append(offers, head+key+"="+value)
			}
		case strings.HasPrefix(key, last) &&
			(key == "override" || !strings.Contains(","+head, ","+key+"=")):
			offers = append(offers, head+key+"=")
		}
	}
	return offers, more
}

var limitValues = map[string][]string{
	"window": {"second", "minute", "hour", "day", "week", "month", "year", "sliding:", "first_hit:",
		"lifetime"},
	"measure": {"count", "amount"}, "optional": {"true", "false"}, "enforce": {"true", "false"},
}

// read returns the limits that the flags define, or nil if no flag is given.
func (f *limitFlags) read(cmd *cobra.Command) ([]client.Limit, error) {
	given := cmd.Flags().Changed
	switch {
	case given("limits-file") && (given("limit") || given("remove-limit")):
		return nil, usagef("--limits-file and --limit or --remove-limit do not go together: the file " +
			"has all limits")
	case given("limits-file"):
		return readLimits(f.file)
	case !given("limit"):
		return nil, nil
	}
	limits := make([]client.Limit, len(f.list))
	for i, text := range f.list {
		var err error
		if limits[i], err = parseLimit(text); err != nil {
			return nil, err
		}
	}
	return limits, nil
}

// readLimits reads a file with a list of limits, or with an object that has one.
func readLimits(path string) ([]client.Limit, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, usagef("--limits-file: %v", err)
	}
	if text, err = strictyaml.JSON(text); err != nil {
		return nil, usagef("--limits-file %s: %v", path, err)
	}
	var limits []client.Limit // nil, not empty, if the file has no list
	if strings.HasPrefix(strings.TrimSpace(string(text)), "[") {
		err = json.Unmarshal(text, &limits, json.RejectUnknownMembers(true))
	} else {
		var file struct {
			Limits []client.Limit `json:"limits"`
		}
		err = json.Unmarshal(text, &file, json.RejectUnknownMembers(true))
		limits = file.Limits
	}
	if err != nil {
		return nil, usagef("--limits-file %s: %v", path, err)
	}
	if limits == nil {
		return nil, usagef("--limits-file %s: it has no limits; an empty list is []", path)
	}
	return limits, nil
}

// parseLimit parses one --limit. The service checks which members go together.
func parseLimit(text string) (client.Limit, error) {
	l := client.Limit{Measure: budget.MeasureCount}
	fault := func(format string, args ...any) error {
		return usagef("--limit %q: %s", text, fmt.Sprintf(format, args...))
	}
	seen := map[string]bool{}
	for _, member := range members(text) {
		key, value, found := strings.Cut(member, "=")
		if !found || value == "" {
			return l, fault("%q must be NAME=VALUE, such as window=day", member)
		}
		if seen[key] && key != "override" {
			return l, fault("%s appears twice", key)
		}
		seen[key] = true
		if why := setMember(&l, key, value); why != "" {
			return l, fault("%s", why)
		}
	}
	for _, key := range []string{"name", "dimension", "window", "max"} {
		if !seen[key] {
			return l, fault("%s is missing", key)
		}
	}
	return l, nil
}

// members splits a --limit at its commas, except at those between the thousands of a number.
func members(text string) (out []string) {
	for i, member := range strings.Split(text, ",") {
		if i > 0 && len(member) == 3 && strings.Trim(member, "0123456789") == "" {
			out[len(out)-1] += "," + member
			continue
		}
		out = append(out, member)
	}
	return out
}

// setMember sets one member of a limit. It returns what is wrong with it, or "".
func setMember(l *client.Limit, key, value string) (why string) {
	switch key {
	case "name":
		if why := budget.CheckName(value); why != "" {
			return "name " + why
		}
		l.Name = value
	case "dimension":
		l.Dimension = value
	case "window":
		return parseWindow(&l.Window, value)
	case "timezone":
		l.Window.Timezone = value
	case "day", "weekday", "hour":
		if why := setAnchor(&l.Window.Anchor, key, value); why != "" {
			return key + " " + why
		}
	case "max":
		return parseMax(&l.Max, value)
	case "measure":
		l.Measure = budget.Measure(value)
		if l.Measure != budget.MeasureCount && l.Measure != budget.MeasureAmount {
			return "measure must be count or amount"
		}
	case "optional", "enforce":
		on := value == "true"
		if !on && value != "false" {
			return key + " must be true or false"
		}
		if l.Optional = l.Optional || key == "optional" && on; key == "enforce" {
			l.Enforce = &on
		}
	case "override":
		return parseOverride(l, value)
	default:
		return fmt.Sprintf("there is no %q; it takes %s", key, strings.Join(limitKeys, ", "))
	}
	return ""
}

func parseWindow(w *client.Window, text string) (why string) {
	kind, length, given := strings.Cut(text, ":")
	w.Kind = budget.WindowKind(kind)
	switch w.Kind {
	case budget.WindowSliding:
		var cut bool
		if w.Length, w.Slot, cut = strings.Cut(length, "/"); !cut || w.Length == "" || w.Slot == "" {
			return "window must be sliding:LENGTH/SLOT, such as sliding:8h/10m"
		}
	case budget.WindowFirstHit:
		if w.Length = length; length == "" {
			return "window must be first_hit:LENGTH, such as first_hit:5s"
		}
	case budget.WindowLifetime:
		if given {
			return "window lifetime has no length"
		}
	default:
		if given {
			return fmt.Sprintf("window has no kind %q: sliding and first_hit have a length", kind)
		}
		w.Kind, w.Every = budget.WindowCalendar, budget.Every(text)
	}
	return ""
}

func parseMax(into *int64, text string) (why string) {
	n, ok := budget.ParseAmount(ungrouped(text))
	if !ok && text != "0" {
		return fmt.Sprintf("max must be a whole number from 0 to %d", budget.MaxAmount)
	}
	*into = n
	return ""
}

func parseOverride(l *client.Limit, text string) (why string) {
	at := strings.LastIndexByte(text, ':')
	if at < 1 || at == len(text)-1 {
		return "override must be VALUE:MAX or VALUE:exempt"
	}
	o := client.Override{Value: text[:at], Exempt: text[at+1:] == "exempt"}
	if !o.Exempt {
		o.Max = new(int64)
		if why := parseMax(o.Max, text[at+1:]); why != "" {
			return "override: " + why
		}
	}
	l.Overrides = append(l.Overrides, o)
	return ""
}

// limitText writes a limit in one line.
func limitText(l client.Limit) string {
	w := l.Window
	window := string(w.Every)
	switch w.Kind {
	case budget.WindowSliding:
		window = "last " + w.Length + ", in slots of " + w.Slot
	case budget.WindowFirstHit:
		window = w.Length + " from the first"
	case budget.WindowLifetime:
		window = "lifetime"
	default:
		if at := anchorText(w.Anchor); at != "" {
			window += " from " + at
		}
		if w.Timezone != "" {
			window += " of " + w.Timezone
		}
	}
	what := "calls"
	if l.Measure == budget.MeasureAmount {
		what = "units"
	}
	parts := []string{fmt.Sprintf("%s %s per %s and %s", grouped(l.Max), what, l.Dimension, window)}
	if l.Optional {
		parts = append(parts, "optional")
	}
	if l.Enforce != nil && !*l.Enforce {
		parts = append(parts, "counted only")
	}
	if n := max(int64(len(l.Overrides)), l.OverrideCount); n > 0 {
		parts = append(parts, "overrides "+grouped(n))
	}
	return strings.Join(parts, "; ")
}

// stateText formats the usage of a limit.
func stateText(s client.LimitState) string {
	most := "exempt"
	if s.Max != nil {
		most = grouped(*s.Max)
	}
	text := fmt.Sprintf("%s of %s for %s %s", grouped(s.Used), most, s.Dimension, s.Value)
	if s.Exempt {
		text = fmt.Sprintf("%s, exempt, for %s %s", grouped(s.Used), s.Dimension, s.Value)
	}
	if !s.ResetAt.IsZero() {
		text += " until " + s.ResetAt.Format(time.RFC3339)
	}
	return text
}

// stateFields formats limits, a line for each.
func stateFields(states []client.LimitState) (fields []field) {
	for _, s := range states {
		fields = append(fields, field{"limit " + s.Name, stateText(s)})
	}
	return fields
}
