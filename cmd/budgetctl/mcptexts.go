package main

import (
	"errors"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// kindTexts say, for each kind of failure, whether something happened. An agent must not take one
// for another.
var kindTexts = map[budget.Kind]string{
	budget.Faulty:    "Wrong request. Nothing was changed.",
	budget.Refused:   "Refused. Nothing was changed.",
	budget.Conflict:  "Conflict. Nothing was changed.",
	budget.NotDone:   "Not done. Nothing was changed.",
	budget.MayBeDone: "Outcome unknown. It may have happened.",
}

// failureText says what happened, what is there, when to repeat, and what to do.
func failureText(op string, err error) string {
	kind := client.KindOf(err)
	if used := (notAHold{}); errors.As(err, &used) {
		kind = budget.Refused
	}
	return kindTexts[kind] + "\n" + describe(op, err) + "What to do: " + remedy(op, kind, err)
}

// remedy says what an agent does about a failure.
func remedy(op string, kind budget.Kind, err error) string {
	p := problemOf(err)
	if p == nil {
		p = &client.Problem{}
	}
	same, again := "repeat it with the same request_id", ""
	if op == "carve" || op == "close" {
		same = "repeat it exactly as it was"
	}
	if p.RetryAfter > 0 {
		again = " in " + max(p.RetryAfter.Round(time.Second), time.Second).String()
	}
	switch {
	case p.Cancelled:
		return "an answer was lost, so the request_id was cancelled; begin again with another one."
	case kind == budget.MayBeDone && op == "hold":
		return same + ": it takes effect once. To give up, release that request_id: then it " +
			"certainly has no effect."
	case kind == budget.MayBeDone:
		return same + ": it takes effect once."
	case kind == budget.NotDone:
		return same + again + "."
	case op == "explain" && p.Code == "":
		return "check the request_id, or name the budget to see what is recorded there."
	case p.Never:
		return "do not repeat it: as things are it can never be accepted. Ask for less, or tell a " +
			"person."
	}
	if todo := remedies[client.CodeOf(err)]; todo != "" {
		return strings.ReplaceAll(todo, " later", again) + "."
	}
	if again != "" {
		return "repeat it" + again + "."
	}
	return "correct it, or tell a person."
}

// remedies are what to do about a code. " later" stands for when.
var remedies = map[budget.Code]string{
	budget.BudgetExhausted: "ask for at most what is available, or tell a person that the budget " +
		"is used up",
	budget.PeriodExhausted:    "ask for less, or repeat it later, when the next period begins",
	budget.LimitExceeded:      "ask for less, or repeat it later, when the window is over",
	budget.BudgetPaused:       "do not repeat it: a person paused the budget; tell a person",
	budget.BudgetExpired:      "do not repeat it: the budget is over; use another budget",
	budget.BudgetNotEffective: "do not repeat it before the budget begins",
	budget.HoldExpired: "the units went back when the hold ended; begin again with another " +
		"request_id",
	budget.NotHeld: "this request_id holds nothing, or nothing any more; begin again with another " +
		"request_id",
	budget.AlreadyRolledBack:      "nothing is left of it; begin again with another request_id",
	budget.AmountExceedsRemaining: "confirm at most what is held",
	budget.RequestConflict: "another call has this request_id; repeat that one exactly as it was, " +
		"or use another request_id",
	budget.NameTaken: "a budget has this name; repeat its carve exactly as it was, or choose " +
		"another child",
	budget.RequestVoid: "this request_id was released for good; use another one",
	budget.BudgetNotFound: "correct the name; a budget outside the key of this server does not " +
		"exist for it",
	budget.DeductionNotFound: "check the request_id; a hold may still arrive, and release " +
		"excludes it",
	budget.Unauthenticated: "tell a person: the key of this server is missing or not valid",
	budget.Forbidden:       "tell a person: the key of this server may not do that",
	budget.LedgerModeOnly:  "use another budget: this one is in store mode and has no holds",
	budget.RateLimited:     "repeat it later",
}
