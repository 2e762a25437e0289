package config

import (
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"github.com/adhocore/gronx"
)

// Recycle says when budgets are recycled without being asked to.
type Recycle struct {
	// Schedule is a cron expression of five fields, in Timezone; "": there is no schedule.
	Schedule, Timezone string
	// StrandedShare is the part of a budget's units above which stranded ones start a recycle; 0:
	// never.
	StrandedShare float64
}

// Next returns the first time of the schedule after an instant, zero where there is none. A time
// that a change of the clocks leaves out is left out or moved to the next hour. Safe for concurrent
// use.
func (r Recycle) Next(after time.Time) time.Time {
	zone, err := time.LoadLocation(r.Timezone)
	if r.Schedule == "" || err != nil {
		return time.Time{}
	}
	next, err := gronx.NextTickAfter(r.Schedule, after.In(zone), false)
	if err != nil {
		return time.Time{}
	}
	return next
}

// schedule is a cron expression. Its times must come: the 30th of February does not.
func schedule(into *string) rule {
	const want = `must be a cron expression of five fields (minute hour day month weekday), ` +
		`such as "0 4 * * *", or empty`
	return rule{want: want, target: into, set: func(value any) bool {
		text, ok := value.(string)
		*into = text
		if !ok || text == "" {
			return ok
		}
		someday := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
		return len(strings.Fields(text)) == 5 && gronx.New().IsValid(text) &&
			!Recycle{Schedule: text, Timezone: "UTC"}.Next(someday).IsZero()
	}}
}

func timezone(into *string) rule {
	return rule{want: "must be the name of a time zone, such as Europe/Berlin", target: into,
		set: func(value any) bool {
			text, ok := value.(string)
			*into = text
			_, err := time.LoadLocation(text)
			return ok && err == nil && text != "" && text != "Local"
		}}
}

// share is a part of a whole.
func share(into *float64) rule {
	const bounds = "0 to 1"
	return rule{want: "must be a number of " + bounds + ", such as 0.2", bounds: bounds, target: into,
		set: func(value any) bool {
			switch value := value.(type) {
			case float64:
				*into = value
			case int:
				*into = float64(value)
			case string:
				number, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return false
				}
				*into = number
			default:
				return false
			}
			return *into >= 0 && *into <= 1
		}}
}
