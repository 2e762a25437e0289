package strictjson

import (
	"fmt"
	"time"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/iana"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// named holds the checks that a tag can name. Each returns what is wrong with a text, or "".
var named = map[string]func(string) string{
	"id":           budget.CheckRequestID,
	"key":          budget.CheckKey,
	"optional_key": CheckOptionalKey,
	"name":         budget.CheckName,
	"word":         checkWord,
	"zone":         checkZone,
	"late_refund":  checkLateRefund,
	"status":       checkStatus,
	"unit":         checkUnit,
	"measure":      checkMeasure,
	"length":       func(text string) (why string) { _, why = ParseDuration(text); return why },
	"hold_ttl":     checkHoldTTL,
	"above":        checkAbove,
	"expires_as":   checkExpiresAs,
	"principal":    access.CheckPrincipal,
	"role":         checkRole,
	"overlap":      checkOverlap,
}

// bounds holds the numbers that a tag can name.
var bounds = map[string]int64{
	"max":        budget.MaxAmount,
	"-max":       -budget.MaxAmount,
	"buckets":    budget.MaxBuckets,
	"dimensions": budget.MaxDimensions,
	"combined":   limit.MaxDimensions,
	"limits":     limit.MaxLimits,
	"overrides":  limit.MaxOverrideList,
	"legs":       api.MaxLegs,
	"sources":    api.MaxSources,
	"steps":      ledger.MostSteps,
	"charges":    budget.MaxCharges,
	"bulk":       api.MaxBulk,
	"windows":    allocation.MaxWindows,
	"thresholds": alert.MaxThresholds,
	"types":      int64(len(alert.Types())),
	"patterns":   access.MaxPatterns,
}

// CheckOptionalKey is budget.CheckKey for the key of an earlier deduction, which is "" if that had
// none.
func CheckOptionalKey(text string) string {
	if text == "" {
		return ""
	}
	return budget.CheckKey(text)
}

// checkWord checks a word that must be absent rather than empty.
func checkWord(word string) string {
	if word == "" {
		return "must not be empty: leave it out"
	}
	return ""
}

// checkUnit and checkMeasure check what is left out if it is empty.
func checkUnit(unit string) string {
	if unit == "" {
		return `must be "count" or "amount"`
	}
	return ""
}

func checkMeasure(measure string) string {
	if measure == "" {
		return `must be "amount" or "count"`
	}
	return ""
}

func checkZone(name string) string {
	if _, err := iana.Zone(name); err != nil || name == "" {
		return `must be an IANA time zone, such as "UTC" or "Asia/Shanghai"; this node has release ` +
			iana.Release()
	}
	return ""
}

func checkLateRefund(where string) string {
	switch budget.Where(where) {
	case budget.ToTotal, budget.Next, budget.Forfeit:
		return ""
	}
	return `must be "total", "next" or "forfeit"`
}

// checkStatus checks the status that a change asks for.
func checkStatus(status string) string {
	switch budget.Status(status) {
	case budget.Paused, budget.Effective:
		return ""
	}
	return `must be "paused" or "effective"`
}

func checkAbove(text string) string {
	switch ledger.Above(text) {
	case ledger.AboveRefuse, ledger.AboveAvailable:
		return ""
	}
	return `must be "refuse" or "available"`
}

func checkExpiresAs(text string) string {
	switch ledger.ExpiresAs(text) {
	case ledger.ExpiresReleased, ledger.ExpiresUsed:
		return ""
	}
	return `must be "released" or "used"`
}

func checkHoldTTL(text string) string {
	length, why := ParseDuration(text)
	if why == "" && !budget.ValidHoldTTL(length) {
		return fmt.Sprintf("must be whole milliseconds, %s to %s",
			FormatDuration(budget.MinHoldTTL), FormatDuration(budget.MaxHoldTTL))
	}
	return why
}

func checkRole(text string) string {
	if _, ok := access.ParseRole(text); !ok {
		return "must be read, deduct, rollback, operator, admin or delegate"
	}
	return ""
}

// maxOverlap bounds how long a rotated key stays valid.
const maxOverlap = 30 * 24 * time.Hour

func checkOverlap(text string) string {
	overlap, err := time.ParseDuration(text)
	if err != nil || overlap < 0 || overlap > maxOverlap {
		return "must be a duration of 0s to " + maxOverlap.String() + ", such as 24h"
	}
	return ""
}
