package main

import (
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/spf13/cobra"
)

// arguments checks the number of arguments against the command's Use line.
func arguments(cmd *cobra.Command, args []string) error {
	names := strings.Fields(cmd.Use)[1:]
	if len(args) < len(names) {
		return usagef("%s is missing", names[len(args)])
	}
	if len(args) > len(names) {
		return usagef("%q is one argument too many", args[len(names)])
	}
	return nil
}

// amount reads an amount or quantity of minor units.
func amount(text string) (int64, error) {
	n, ok := budget.ParseAmount(ungrouped(text))
	if !ok {
		return 0, usagef("amount %q: must be a whole number from 1 to %d",
			text, budget.MaxAmount)
	}
	return n, nil
}

// ungrouped removes the commas between thousands, as in 1,000,000. A text with other commas keeps
// them.
func ungrouped(text string) string {
	parts := strings.Split(text, ",")
	for i, part := range parts {
		if i > 0 && len(part) != 3 || i == 0 && (len(part) == 0 || len(part) > 3 && len(parts) > 1) {
			return text
		}
	}
	return strings.Join(parts, "")
}

// reference checks a budget's name or id.
func reference(text string) error {
	if _, isID := budget.ParseAmount(text); isID {
		return nil
	}
	if why := budget.CheckName(text); why != "" {
		return usagef("budget %q: %s", text, why)
	}
	return nil
}

// requestID checks a request or rollback id.
func requestID(text string) error {
	if why := budget.CheckRequestID(text); why != "" {
		return usagef("request id %q: %s", text, why)
	}
	return nil
}

// optionalText checks the value of an optional flag for a key, dimension or reference.
func optionalText(flag, text string) error {
	if why := budget.CheckKey(text); text != "" && why != "" {
		return usagef("--%s %q: %s", flag, text, why)
	}
	return nil
}

// quantityOrNone reads a bound in minor units; 0 means no bound.
func quantityOrNone(flag, text string) (int64, error) {
	n, ok := budget.ParseAmount(ungrouped(text))
	if !ok && text != "0" {
		return 0, usagef("--%s %q: must be a whole number from 0 to %d", flag, text, budget.MaxAmount)
	}
	return n, nil
}

// instant reads an RFC 3339 time with zone; "never" is the zero time.
func instant(flag, text string) (time.Time, error) {
	if text == "never" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, usagef(
			"--%s %q: must be a time with zone such as 2027-01-01T00:00:00Z, or never", flag, text)
	}
	return at, nil
}

// firstOf returns the first error.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
