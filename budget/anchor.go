package budget

import "fmt"

// Anchor says when the days, weeks and months of a calendar begin, in local time. The zero value is
// midnight, Monday and the first of the month.
type Anchor struct {
	// Day is the day on which a month begins, 1 … 31; 0 means 1. A shorter month begins on its last
	// day.
	Day int `json:"day,omitzero" check:"1..31"`
	// Weekday is the day on which a week begins; "" means Monday.
	Weekday Weekday `json:"weekday,omitzero" check:"word"`
	// Hour is the hour at which the first day begins, 0 … 23.
	Hour int `json:"hour,omitzero" check:"0..23"`
}

// Weekday is the lower-case English name of a day.
type Weekday string

// weekdays is in ISO 8601 order.
var weekdays = [...]Weekday{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday",
	"sunday"}

// Index returns the number of days from Monday to w, 0 … 6; "" is Monday. ok is false for any other
// text.
func (w Weekday) Index() (days int, ok bool) {
	if w == "" {
		return 0, true
	}
	for i, name := range weekdays {
		if w == name {
			return i, true
		}
	}
	return 0, false
}

// Check returns the faults of an anchor for a calendar with periods of length every, or nil. The
// fields are `anchor.day`, `anchor.weekday` and `anchor.hour`.
func (a Anchor) Check(every Every) []FieldError {
	var faults []FieldError
	fault := func(field, format string, args ...any) {
		faults = append(faults, FieldError{Field: "anchor." + field,
			Message: fmt.Sprintf(format, args...)})
	}
	_, known := a.Weekday.Index()
	switch {
	case a.Day != 0 && every != Month:
		fault("day", `belongs to every "month" only`)
	case a.Day < 0 || a.Day > 31:
		fault("day", "must be 1 to 31; a month that is shorter begins with its last day")
	}
	switch {
	case a.Weekday != "" && every != Week:
		fault("weekday", `belongs to every "week" only`)
	case !known:
		fault("weekday", `must be "monday" to "sunday"`)
	}
	switch {
	case a.Hour != 0 && every != Day && every != Week && every != Month && every != Year:
		fault("hour", "belongs to days and longer periods only")
	case a.Hour < 0 || a.Hour > 23:
		fault("hour", "must be 0 to 23")
	}
	return faults
}
