package alert

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Units are the units that a threshold watches, in minor units.
type Units struct {
	// Total is their sum, Spent what is used or held, Left what can still be deducted.
	Total, Spent, Left int64
	// End is the first instant at which they can no longer be deducted; zero means no end.
	End time.Time
}

// Figures is the state of a budget.
type Figures struct {
	// At is not later than any of the figures.
	At time.Time
	// Of maps Threshold.Of, or "limit/NAME/VALUE" for a limit, to units. A missing key means that
	// its units are not known.
	Of map[string]Units
	// Period is the number of the open period; 0 means that none is open.
	Period int64
	// Ended means that nothing can ever be deducted again.
	Ended bool
	// Quarantined and Stranded are in minor units. Sampled means that Stranded is known.
	Quarantined, Stranded int64
	Sampled               bool
	// Rate is the recent spending in units per second. HasRate means that it is known.
	Rate    float64
	HasRate bool
}

// State is one crossing of a threshold.
type State struct {
	// ID is unique within the installation, or 0 before the state is stored. ToldBy is the ID of the
	// state whose message lists this one, or its own ID if it has a message.
	ID, ToldBy int64
	Threshold  string
	// Period is the number of the period, or 0 if the threshold does not depend on periods. Episode
	// counts from 1.
	Period, Episode int64
	FiredAt         time.Time
	// ResolvedAt is zero while the state fires. Reason says why it was resolved.
	ResolvedAt time.Time
	Reason     Reason
	// Units are those of the threshold when it fired, or those of the total if it watches none.
	Units Units
}

// Firing reports whether the state is not resolved.
func (s *State) Firing() bool { return s.ResolvedAt.IsZero() }

// Kind returns the kind of the state's threshold.
func (s *State) Kind() Kind {
	kind, _, _ := strings.Cut(s.Threshold, "/")
	return Kind(kind)
}

// changed returns the instant of the last change.
func (s *State) changed() time.Time {
	if s.Firing() {
		return s.FiredAt
	}
	return s.ResolvedAt
}

// Reason says why a state was resolved.
type Reason string

// The reasons, in order of precedence.
const (
	BudgetEnded      Reason = "budget_ended"
	ThresholdRemoved Reason = "threshold_removed"
	RolledOver       Reason = "rolled_over"
	TotalRaised      Reason = "total_raised"
	Recovered        Reason = "recovered"
)

// The states that a query can select.
const (
	StateFiring   = "firing"
	StateResolved = "resolved"
)

// Query selects alerts. Zero fields select all of them.
type Query struct {
	Tenant string
	// Budget is the number of a budget. State is StateFiring or StateResolved.
	Budget int64
	State  string
	// Before is the number of the alert after the first one, Limit the most alerts.
	Before int64
	Limit  int
}

// View is an alert for display.
type View struct {
	Tenant, Name string
	State
}

// Transition is a state that begins to fire or is resolved.
type Transition struct {
	// State is the state after the transition. Its ID is 0 when it begins to fire.
	State State
	// Top is the name of the threshold whose message reports the transition, or its own name if it
	// has a message.
	Top string
	// Also lists the other thresholds in its message, highest first.
	Also []string

	threshold Threshold
}

// easing is the number of percentage points by which a share must fall below its threshold before
// the threshold is resolved.
const easing = 5

// horizon bounds a projection of units without an end.
const horizon = 24 * time.Hour

// Decide returns the transitions of a budget: resolutions before new states, the highest of each
// message first. states must contain every firing state and the latest resolved one of each
// threshold and period; Decide ignores others. Deciding again after applying the result changes
// nothing. now is not before f.At.
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
				Period: f.periodOf(t), Episode: episode, FiredAt: now, Units: f.unitsOf(t)}})
		}
	}
	for name, s := range latest {
		if !known[name] && s.Firing() && f.At.After(s.changed()) {
			resolved = append(resolved, resolve(*s, Threshold{Kind: Kind(name)}, ThresholdRemoved, now))
		}
	}
	return append(told(resolved), told(fired)...)
}

// later reports whether a is a newer state of the same threshold than b. A firing state is newest.
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

// periodOf returns the period of a threshold's present states.
func (f *Figures) periodOf(t Threshold) int64 {
	if t.Of == Period {
		return f.Period
	}
	return 0
}

// unitsOf returns the units that an alert shows: those of its threshold, else those of the total.
func (f *Figures) unitsOf(t Threshold) Units {
	if units, known := f.Of[t.Units()]; known {
		return units
	}
	return f.Of[string(Total)]
}

// resolves returns why a firing state ends now, or "" if it does not.
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

// crosses reports whether a threshold is crossed or, given its firing state, still is. known is
// false if the figures do not tell.
func (f *Figures) crosses(t Threshold, firing *State) (crossed, known bool) {
	units, known := f.Of[t.Units()]
	// A raised total resolves a state at once. Any other figure must pass the margin.
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

// reaches reports whether units are at least a percentage of all, or with eased nearly as much.
func reaches(units, all int64, percent int, eased bool) bool {
	if eased {
		percent -= min(easing, (percent+1)/2)
	}
	return all > 0 && units > 0 && units*100 >= int64(percent)*all // below 2^60
}

// runsOut reports whether units run out before their end or, with eased, shortly after it. Units
// that have run out only keep a firing state, because the exhaustion has a threshold of its own.
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

// told assigns transitions to messages: one message for those of a ladder that change alike. States
// that were announced by different messages are resolved by different ones, so that each announced
// state is resolved by its ID.
func told(list []Transition) []Transition {
	slices.SortFunc(list, func(a, b Transition) int {
		return cmp.Or(cmp.Compare(a.group(), b.group()),
			cmp.Compare(b.State.ToldBy, a.State.ToldBy),
			cmp.Compare(b.threshold.rank(), a.threshold.rank()),
			cmp.Compare(a.State.Threshold, b.State.Threshold))
	})
	top := -1
	for i := range list {
		if top < 0 || list[i].group() != list[top].group() ||
			list[i].State.ToldBy != list[top].State.ToldBy {
			top = i
		} else {
			list[top].Also = append(list[top].Also, list[i].State.Threshold)
		}
		list[i].Top = list[top].State.Threshold
	}
	return list
}

// group identifies the transitions that share a message if one message announced them: ladder,
// period and reason.
func (t *Transition) group() string {
	return t.threshold.Units() + " " + string(t.State.Reason) + " " +
		strconv.FormatInt(t.State.Period, 10)
}
