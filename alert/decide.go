package alert

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// Units are the units that a threshold is about, in minor units.
type Units struct {
	// Total is all of them, Spent what is used or held, Left what can still be deducted.
	Total, Spent, Left int64
	// End is the first instant at which they can no longer be deducted; zero: never.
	End time.Time
}

// Figures are how a budget stands.
type Figures struct {
	// At is not later than any of the figures.
	At time.Time
	// Of are the units by what Threshold.Of says, for a limit "limit/NAME/VALUE". What is missing is
	// not known.
	Of map[string]Units
	// Period is the number of the open period; 0: none is open.
	Period int64
	// Ended means that nothing can be deducted ever again.
	Ended bool
	// Quarantined and Stranded are in minor units. Sampled says that Stranded is known.
	Quarantined, Stranded int64
	Sampled               bool
	// Rate is how much was spent a second lately; HasRate says that it is known.
	Rate    float64
	HasRate bool
}

// State is a threshold that was crossed.
type State struct {
	// ID is unique within the installation; 0 until it is stored.
	ID        int64
	Threshold string
	// Period is the number of the period; 0: the state is of no period. Episode counts from 1.
	Period, Episode int64
	FiredAt         time.Time
	// ResolvedAt is zero while it is firing. Reason says why it is resolved.
	ResolvedAt time.Time
	Reason     Reason
	// Units are those of the threshold when it fired, zero where it has none.
	Units Units
}

// Firing reports whether the state is not resolved.
func (s *State) Firing() bool { return s.ResolvedAt.IsZero() }

// changed returns the instant of its last change.
func (s *State) changed() time.Time {
	if s.Firing() {
		return s.FiredAt
	}
	return s.ResolvedAt
}

// Reason says why a state is resolved.
type Reason string

// The reasons, in order of precedence.
const (
	BudgetEnded      Reason = "budget_ended"
	ThresholdRemoved Reason = "threshold_removed"
	RolledOver       Reason = "rolled_over"
	TotalRaised      Reason = "total_raised"
	Recovered        Reason = "recovered"
)

// The states that a query asks for.
const (
	StateFiring   = "firing"
	StateResolved = "resolved"
)

// Query selects alerts; what is zero does not matter.
type Query struct {
	Tenant string
	// Budget is the number of a budget. State is StateFiring or StateResolved.
	Budget int64
	State  string
	// Before is the number of the alert after the first one, Limit the most alerts.
	Before int64
	Limit  int
}

// View is an alert as it is shown. ToldBy is the number of the alert whose message lists it; its
// own if it had a message.
type View struct {
	Budget       int64
	Tenant, Name string
	State
	ToldBy int64
}

// Transition is a state that begins to fire or is resolved.
type Transition struct {
	// State is as it becomes; its ID is 0 when it begins to fire.
	State State
	// Top is the name of the threshold whose message tells this; its own if it has a message.
	Top string
	// Also are the other thresholds that its message lists, the highest first.
	Also []string

	threshold Threshold
}

// easing is by how many percent points a share must be below its threshold before it is resolved.
const easing = 5

// horizon is how far a projection looks where the units have no end.
const horizon = 24 * time.Hour

// Decide returns the transitions of a budget, the highest of each ladder first, resolutions before
// new states. states are all that fire and the latest resolved one of each threshold and period;
// others do no harm. Deciding again with what it returned changes nothing. now is at or after
// f.At.
func Decide(states []State, f Figures, thresholds []Threshold, now time.Time) []Transition {
	latest := map[string]*State{}
	for i := range states {
		s := &states[i]
		known := latest[s.Threshold]
		if known == nil || later(s, known) {
			latest[s.Threshold] = s
		}
	}
	var resolved, fired []Transition
	known := map[string]bool{}
	for _, t := range thresholds {
		name := t.Name()
		known[name] = true
		s := latest[name]
		if s != nil && !f.At.After(s.changed()) {
			continue
		}
		episode := int64(1)
		if s != nil && s.Firing() {
			reason := f.resolves(t, s)
			if reason == "" {
				continue
			}
			resolved = append(resolved, resolve(*s, t, reason, now))
		}
		if s != nil && s.Period == f.periodOf(t) {
			episode = s.Episode + 1
		}
		if crossed, ok := f.crosses(t, nil); ok && crossed && !f.Ended {
			fired = append(fired, Transition{threshold: t, State: State{Threshold: name,
				Period: f.periodOf(t), Episode: episode, FiredAt: now, Units: f.Of[t.Units()]}})
		}
	}
	for name, s := range latest {
		if !known[name] && s.Firing() && f.At.After(s.changed()) {
			resolved = append(resolved, resolve(*s, Threshold{Kind: Kind(name)}, ThresholdRemoved, now))
		}
	}
	return append(told(resolved), told(fired)...)
}

// later reports whether a state of the same threshold is newer; a firing one is the newest.
func later(a, b *State) bool {
	if a.Firing() != b.Firing() {
		return a.Firing()
	}
	return cmp.Or(a.changed().Compare(b.changed()), cmp.Compare(a.Period, b.Period),
		cmp.Compare(a.Episode, b.Episode)) > 0
}

func resolve(s State, t Threshold, reason Reason, now time.Time) Transition {
	s.ResolvedAt, s.Reason = now, reason
	return Transition{State: s, threshold: t}
}

// periodOf returns the period whose states a threshold has now.
func (f *Figures) periodOf(t Threshold) int64 {
	if t.Of == Period {
		return f.Period
	}
	return 0
}

// resolves returns why a firing state ends now; "" if it does not.
func (f *Figures) resolves(t Threshold, s *State) Reason {
	switch crossed, known := f.crosses(t, s); {
	case f.Ended:
		return BudgetEnded
	case s.Period != f.periodOf(t):
		return RolledOver
	case !known || crossed:
		return ""
	case f.Of[t.Units()].Total > s.Units.Total && t.Of != "":
		return TotalRaised
	}
	return Recovered
}

// crosses reports whether a threshold is crossed, for a firing state whether it still is. known is
// false where the figures do not say.
func (f *Figures) crosses(t Threshold, firing *State) (crossed, known bool) {
	units, known := f.Of[t.Units()]
	// A raised total ends a state at once, everything else by a margin.
	eased := firing != nil && units.Total <= firing.Units.Total
	switch t.Kind {
	case UsedShare:
		return reaches(units.Spent, units.Total, t.Percent, eased), known
	case Exhausted:
		if eased {
			return units.Total > 0 && units.Left < units.Total/100+1, known
		}
		return units.Total > 0 && units.Left <= 0, known
	case Projected:
		return f.runsOut(units, firing != nil, eased), known && f.HasRate
	case StrandedShare:
		total := f.Of[string(Total)].Total
		return reaches(f.Stranded, total, t.Percent, firing != nil), f.Sampled
	case Quarantine:
		return f.Quarantined > 0, true
	}
	return false, false
}

// reaches reports whether units are so many percent of all, or eased: nearly as many.
func reaches(units, all int64, percent int, eased bool) bool {
	if eased {
		percent -= min(easing, (percent+1)/2)
	}
	return all > 0 && units > 0 && units*100 >= int64(percent)*all // below 2^60
}

// runsOut reports whether units run out before their end, eased: or shortly after it. Units that
// have run out count for a state that fires already: their exhaustion is told by its own threshold.
func (f *Figures) runsOut(u Units, firing, eased bool) bool {
	left := horizon
	if !u.End.IsZero() {
		left = u.End.Sub(f.At)
	}
	rate := f.Rate
	if eased {
		rate *= 1.25
	}
	if u.Left <= 0 {
		return firing
	}
	return u.Total > 0 && float64(u.Left) < rate*max(left.Seconds(), 0)
}

// told gives each transition its message: one for those of a ladder that change alike.
func told(list []Transition) []Transition {
	slices.SortFunc(list, func(a, b Transition) int {
		return cmp.Or(cmp.Compare(a.group(), b.group()),
			cmp.Compare(b.threshold.rank(), a.threshold.rank()),
			cmp.Compare(a.State.Threshold, b.State.Threshold))
	})
	top := -1
	for i := range list {
		if top < 0 || list[i].group() != list[top].group() {
			top = i
		} else {
			list[top].Also = append(list[top].Also, list[i].State.Threshold)
		}
		list[i].Top = list[top].State.Threshold
	}
	return list
}

// group is the ladder, the period and the reason: what is told together.
func (t *Transition) group() string {
	return t.threshold.Units() + " " + string(t.State.Reason) + " " +
		strconv.FormatInt(t.State.Period, 10)
}
