package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// Exit statuses. Scripts rely on them; the root command's help explains them.
const (
	exitDone        = 0
	exitError       = 1
	exitUsage       = 2
	exitRefused     = 3
	exitDiscrepancy = 4
	exitUnknown     = 5
)

// usageError means that the command line is wrong and nothing was sent.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// statusError is an error with its own exit status.
type statusError struct {
	error
	status int
}

func (e statusError) Unwrap() error { return e.error }

// advised adds advice to an error. The advice is shown only if the call is worth repeating.
type advised struct {
	error
	repeat string
}

func (e advised) Unwrap() error { return e.error }

// exitStatus returns the exit status for err.
func exitStatus(err error) int {
	var usage usageError
	var own statusError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &own):
		return own.status
	}
	switch kind := client.KindOf(err); {
	case kind == budget.Refused || kind == budget.Conflict:
		return exitRefused
	case kind == budget.MayBeDone:
		return exitUnknown
	case kind == budget.NotDone && client.CodeOf(err) != budget.Internal &&
		!errors.Is(err, context.Canceled):
		return exitUnknown
	}
	return exitError
}

// explain returns the message for a person: what is wrong, field by field, and what to do next.
func explain(command string, err error) string {
	list := faults{err}
	errors.As(err, &list)
	text := ""
	for _, one := range list {
		text += describe(command, one)
	}
	if next := nextStep(command, err); next != "" {
		text += printable(next) + "\n"
	}
	return text
}

// describe returns what is wrong, field by field.
func describe(command string, err error) string {
	var text strings.Builder
	line := func(format string, args ...any) {
		text.WriteString(printable(fmt.Sprintf(format, args...)) + "\n")
	}
	var p *client.Problem
	var unknown *client.UnknownOutcome
	if errors.As(err, &p) && !errors.As(err, &unknown) {
		about, _ := strings.CutSuffix(err.Error(), p.Error()) // such as the budget of a file
		if about == err.Error() {
			about = ""
		}
		line("%s: %s%s", command, about, headline(p))
		for _, f := range p.Errors {
			line("  %s: %s", f.Field, f.Message)
		}
		if p.Available != nil {
			line("  available: %s", grouped(*p.Available))
		}
		if p.Limit != nil {
			line("  limit %s: %s", p.Limit.Name, stateText(*p.Limit))
		}
		if p.RetryAfter > 0 && (p.Code == budget.PeriodExhausted || p.Code == budget.LimitExceeded) {
			line("  retry after: %s", max(p.RetryAfter.Round(time.Second), time.Second))
		}
		if p.CorrelationID != "" {
			line("  correlation id: %s", p.CorrelationID)
		}
	} else {
		line("%s: %s", command, withoutOp(err))
	}
	return text.String()
}

// withoutOp returns err's message without the name of the call, which the command already says.
func withoutOp(err error) string {
	op := ""
	var t *client.TransportError
	var unknown *client.UnknownOutcome
	switch {
	case errors.As(err, &unknown):
		op = unknown.Op
	case errors.As(err, &t):
		op = t.Op
	}
	return strings.TrimPrefix(err.Error(), op+": ")
}

func headline(p *client.Problem) string {
	parts := []string{string(p.Code)}
	if p.Code == "" {
		parts[0] = fmt.Sprintf("HTTP status %d", p.Status)
	}
	switch {
	case p.Detail != "":
		parts = append(parts, p.Detail)
	case p.Title != "":
		parts = append(parts, p.Title)
	}
	return strings.Join(parts, ": ")
}

// nextSteps says what to do about refusals whose message does not.
var nextSteps = map[budget.Code]string{
	budget.BudgetNotFound: "'budgetctl list' shows the budgets of the tenant; " +
		"--tenant names another one",
	budget.BucketNotFound: "'budgetctl buckets' shows the buckets of a budget",
	budget.DeductionNotFound: "this is not final, the deduction may still arrive; " +
		"'budgetctl cancel' makes certain that it has no effect",
	budget.BudgetPaused:    "'budgetctl resume' makes it effective again",
	budget.BudgetExhausted: "deduct less, or add to it with 'budgetctl append'",
	budget.PeriodExhausted: "deduct less, or try again in the next period; 'budgetctl get' shows " +
		"when this one ends, 'budgetctl set' changes the rule",
	budget.LimitExceeded: "try again when the window is over; 'budgetctl get' shows the limits, " +
		"'budgetctl set' changes them or makes an exception for one value",
	budget.RequestConflict:  "repeat it exactly as it was, or use another id for another request",
	budget.RequestVoid:      "the id was cancelled for good; use another one",
	budget.NameTaken:        "'budgetctl get' shows the budget that has the name",
	budget.VersionConflict:  "somebody changed the budget; see 'budgetctl get' and decide again",
	budget.LastBucket:       "bring another bucket online first, or pause the budget",
	budget.LastInstance:     "first add an instance to the configuration, or bring another one back",
	budget.InstanceNotFound: "'budgetctl instances' shows the instances",
	"unauthenticated": "'budgetctl login' keeps a key; --token-file or BUDGETCTL_TOKEN give " +
		"one for a command",
	"forbidden":        "'budgetctl whoami' shows what you may do; ask an administrator for more",
	"key_not_found":    "'budgetctl keys' shows the keys",
	"too_many_keys":    "'budgetctl keys revoke' ends one of them",
	"rate_limited":     "nothing was done; try again when this key makes fewer requests",
	budget.Unavailable: "nothing was done; repeat the command in a moment",
}

const (
	afterCancel = "Next: an answer was lost, so the request id was cancelled; use another one."
	whichServer = "Next: is budgetd running there? --server and BUDGETCTL_SERVER name another."
)

func nextStep(command string, err error) string {
	var usage usageError
	if errors.As(err, &usage) {
		return fmt.Sprintf("Run '%s --help' for usage.", command)
	}
	kind := client.KindOf(err)
	var p *client.Problem
	if errors.As(err, &p) && p.Cancelled {
		return afterCancel
	}
	var a advised
	if errors.As(err, &a) && (kind == budget.MayBeDone || kind == budget.NotDone) {
		if client.Unreachable(err) {
			return whichServer + " " + a.repeat
		}
		return "Next: " + a.repeat
	}
	switch {
	case client.Unreachable(err):
		return whichServer
	case kind == budget.MayBeDone:
		return "Next: it may have happened; check, or repeat the command."
	}
	if next := nextSteps[client.CodeOf(err)]; next != "" {
		return "Next: " + next + "."
	}
	return ""
}
