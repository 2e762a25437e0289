package config

import (
	"strconv"
	"strings"
	"time"

	"github.com/adhocore/gronx"

	"github.com/budgetd/budgetd/iana"
)

// Recycle configures automatic recycles.
type Recycle struct {
	// Schedule is a cron expression of five fields in Timezone; "" means no schedule.
	Schedule, Timezone string
	// StrandedShare is the stranded share of a budget's units above which a recycle starts; 0 means
	// never.
	StrandedShare float64
}

// Next returns the first scheduled time after an instant, or the zero time without a schedule. A
// time that a change of the clocks skips is skipped or moved to the next hour. It is safe for
// concurrent use.
func (r Recycle) Next(after time.Time) time.Time {
	zone, err := iana.Zone(r.Timezone)
	if r.Schedule == "" || err != nil {
		return time.Time{}
	}
	next, err := gronx.NextTickAfter(r.Schedule, after.In(zone), false)
	if err != nil {
		return time.Time{}
	}
	return next
}

// schedule accepts a cron expression that has at least one time, unlike one for the 30th of
// February.
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
			_, err := iana.Zone(text)
			return ok && err == nil && text != ""
		}}
}

// share accepts a share of a whole.
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
