package limit_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/iana"
)

// steps are how far the clock moves at a time, in ms.
var steps = []int64{0, 1, 900, 20_000, 1_000_000, 4_000_000, 30_000_000, 300_000_000}

// starts are near clock changes: New York in spring and autumn, Lord Howe by half an hour,
// midnights that Sao Paulo skipped, the end of a year.
var starts = []time.Time{
	time.Date(2025, 3, 8, 20, 0, 0, 0, time.UTC), time.Date(2025, 11, 1, 20, 0, 0, 0, time.UTC),
	time.Date(2025, 4, 5, 10, 0, 0, 0, time.UTC), time.Date(2018, 11, 3, 22, 0, 0, 0, time.UTC),
	time.Date(2024, 12, 29, 12, 0, 0, 0, time.UTC), time.Date(2025, 10, 25, 18, 0, 0, 0, time.UTC),
}

var zoneNames = []string{"", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Europe/Berlin", "Asia/Kolkata"}

var zones = func() map[string]*time.Location {
	out := map[string]*time.Location{}
	for _, name := range zoneNames {
		zone, err := iana.Zone(name)
		if err != nil {
			panic(err)
		}
		out[name] = zone
	}
	return out
}()

func drawLimits(random *rand.Rand) []budget.Limit {
	var list []budget.Limit
	for i := range 1 + random.IntN(3) {
		list = append(list, drawLimit(random, fmt.Sprint("l", i)))
	}
	return list
}

func drawLimit(random *rand.Rand, name string) budget.Limit {
	l := budget.Limit{Name: name, Dimension: []string{"user", "user+ad", "ad"}[random.IntN(3)],
		Max: random.Int64N(8), Measure: budget.MeasureCount, Enforce: random.IntN(8) > 0}
	if random.IntN(2) == 0 {
		l.Measure, l.Max = budget.MeasureAmount, random.Int64N(40)
	}
	switch random.IntN(5) {
	case 0:
		l.Window = budget.LimitWindow{Kind: budget.WindowSliding,
			Length: []time.Duration{5 * time.Second, time.Minute, 90*time.Minute + time.Millisecond, 8 * time.Hour, 72 * time.Hour}[random.IntN(5)]}
		l.Window.Slot = l.Window.Length / time.Duration(1+random.IntN(20)) / time.Millisecond * time.Millisecond
	case 1:
		l.Window = budget.LimitWindow{Kind: budget.WindowFirstHit,
			Length: []time.Duration{time.Second, 5 * time.Minute, 3 * time.Hour, 100 * time.Hour}[random.IntN(4)]}
	case 2:
		l.Window = budget.LimitWindow{Kind: budget.WindowLifetime}
		l.Max *= 5
	default:
		l.Window = drawCalendar(random)
	}
	if random.IntN(4) == 0 && l.Dimension == "user" {
		l.Overrides = []budget.Override{{Value: "u0", Max: random.Int64N(5)}, {Value: "u1", Exempt: true}}
	}
	return l
}

// drawCalendar returns a calendar window. Half of the windows that may have an anchor have one.
func drawCalendar(random *rand.Rand) budget.LimitWindow {
	every := []budget.Every{budget.Second, budget.Minute, budget.Hour, budget.Day, budget.Week, budget.Month, budget.Year}
	w := budget.LimitWindow{Kind: budget.WindowCalendar, Every: every[random.IntN(len(every))],
		Timezone: zoneNames[random.IntN(len(zoneNames))]}
	if clock := w.Every == budget.Second || w.Every == budget.Minute || w.Every == budget.Hour; clock || random.IntN(2) == 0 {
		return w
	}
	switch w.Anchor.Hour = random.IntN(24); w.Every {
	case budget.Week:
		w.Anchor.Weekday = []budget.Weekday{"", "monday", "wednesday", "saturday", "sunday"}[random.IntN(5)]
	case budget.Month:
		w.Anchor.Day = []int{0, 1, 8, 28, 30, 31}[random.IntN(6)]
	}
	return w
}

// steady replaces first_hit windows in worlds in which the clock steps back.
func steady(list []budget.Limit, stepsBack bool) []budget.Limit {
	for i := range list {
		if w := &list[i].Window; stepsBack && w.Kind == budget.WindowFirstHit {
			w.Kind, w.Slot = budget.WindowSliding, time.Second
			w.Length = min(w.Length, time.Hour)
		}
	}
	return list
}

// changed returns another list of limits: with another maximum, another definition under the same
// name, one limit more or one less.
func changed(random *rand.Rand, limits *budget.Limits) []budget.Limit {
	if limits == nil || len(limits.List) == 0 {
		return drawLimits(random)
	}
	list := slices.Clone(limits.List)
	i := random.IntN(len(list))
	switch random.IntN(4) {
	case 0:
		list[i].Max++
	case 1:
		list[i] = drawLimit(random, list[i].Name)
	case 2:
		list = append(list[:i:i], list[i+1:]...)
	default:
		list = append(list, drawLimit(random, fmt.Sprint("m", random.IntN(1_000_000))))
	}
	return list
}

func draw(random *rand.Rand, now int64) *deduction {
	d := &deduction{atMS: now, amount: 1 + random.Int64N(9), dimensions: map[string]string{
		"user": fmt.Sprint("u", random.IntN(3)), "ad": fmt.Sprint("a", random.IntN(2))}}
	if random.IntN(8) == 0 {
		d.counts = map[string]int64{"l0": random.Int64N(4)}
	}
	return d
}
