package alert_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/alert"
)

var start = time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)

// book holds the states that a database would have stored.
type book struct {
	states []alert.State
	next   int64
	// announced holds the states that fire and had a message of their own.
	announced map[int64]bool
}

// apply decides and stores the result, as the database does.
func (b *book) apply(f alert.Figures, list []alert.Threshold) []alert.Transition {
	out := alert.Decide(b.states, f, list, f.At.Add(time.Millisecond))
	top := int64(0)
	for i := range out {
		s := &out[i].State
		if s.Firing() {
			b.next++
			s.ID = b.next
			if out[i].Top == s.Threshold {
				top = s.ID
			}
			s.ToldBy = top
			b.states = append(b.states, *s)
			continue
		}
		for j := range b.states {
			if b.states[j].ID == s.ID {
				b.states[j] = *s
			}
		}
	}
	return out
}

func (b *book) firing() (names []string) {
	for _, s := range b.states {
		if s.Firing() {
			names = append(names, s.Threshold)
		}
	}
	slices.Sort(names)
	return names
}

// figures are those of a budget of one period.
func figures(at time.Time, total, spent int64) alert.Figures {
	units := alert.Units{Total: total, Spent: spent, Left: total - spent}
	return alert.Figures{At: at, Period: 1, Of: map[string]alert.Units{"total": units, "period": units}}
}

// text formats transitions, one for each message.
func text(list []alert.Transition) string {
	var out []string
	for _, t := range list {
		if t.Top != t.State.Threshold {
			continue
		}
		one := "fires " + t.State.Threshold
		if !t.State.Firing() {
			one = string(t.State.Reason) + " " + t.State.Threshold
		}
		out = append(out, strings.TrimSpace(one+" +"+strings.Join(t.Also, "+")))
	}
	return strings.Join(out, "; ")
}

func shares(percents ...int) (out []alert.Threshold) {
	for _, p := range percents {
		out = append(out, alert.Threshold{Kind: alert.UsedShare, Of: alert.Total, Percent: p})
	}
	return append(out, alert.Threshold{Kind: alert.Exhausted, Of: alert.Total})
}

// TestStory checks the transitions of budgets step by step.
func TestStory(t *testing.T) {
	type step struct {
		name         string
		total, spent int64
		change       func(f *alert.Figures)
		want         string
	}
	for name, story := range map[string]struct {
		thresholds []alert.Threshold
		steps      []step
	}{
		"three at once, then a raised total": {shares(50, 80, 95), []step{
			{"below", 1000, 499, nil, ""},
			{"three", 1000, 950, nil, "fires used_share/total/95 +used_share/total/80+used_share/total/50"},
			{"more of it", 1000, 980, nil, ""},
			{"the last", 1000, 1000, nil, "fires exhausted/total +"},
			{"a refund is within the margin", 1000, 993, nil, ""},
			{"raised", 1500, 1000, nil,
				"total_raised exhausted/total +; total_raised used_share/total/95 +used_share/total/80"},
			{"crossed again", 1500, 1200, nil, "fires used_share/total/80 +"}}},
		"the last unit at once": {shares(50), []step{
			{"all", 1000, 1000, nil, "fires exhausted/total +used_share/total/50"},
			{"units come back", 1000, 900, nil, "recovered exhausted/total +"},
			{"more", 1000, 449, nil, "recovered used_share/total/50 +"},
			{"again", 1000, 500, nil, "fires used_share/total/50 +"}}},
		"raised, but not enough": {shares(80), []step{
			{"crossed", 1000, 990, nil, "fires used_share/total/80 +"},
			{"raised by little", 1010, 990, nil, ""},
			{"raised to below", 1300, 990, nil, "total_raised used_share/total/80 +"}}},
		"a rollover": {[]alert.Threshold{{Kind: alert.UsedShare, Of: alert.Period, Percent: 80},
			{Kind: alert.Exhausted, Of: alert.Period}}, []step{
			{"crossed", 100, 100, nil, "fires exhausted/period +used_share/period/80"},
			{"the next", 100, 0, func(f *alert.Figures) { f.Period = 2 },
				"rolled_over exhausted/period +used_share/period/80"},
			{"crossed in it", 100, 85, func(f *alert.Figures) { f.Period = 2 },
				"fires used_share/period/80 +"},
			{"the one after, crossed as well", 100, 90, func(f *alert.Figures) { f.Period = 3 },
				"rolled_over used_share/period/80 +; fires used_share/period/80 +"},
			{"none is open", 100, 90, func(f *alert.Figures) { f.Period = 0; delete(f.Of, "period") },
				"rolled_over used_share/period/80 +"}}},
		"quarantine and stranded units": {[]alert.Threshold{{Kind: alert.Quarantine},
			{Kind: alert.StrandedShare, Percent: 25}}, []step{
			{"not known", 100, 10, nil, ""},
			{"both", 100, 10, func(f *alert.Figures) { f.Quarantined, f.Stranded, f.Sampled = 1, 25, true },
				"fires quarantine +; fires stranded_share/25 +"},
			{"not known any more", 100, 10, func(f *alert.Figures) { f.Quarantined = 1 }, ""},
			{"released", 100, 10, func(f *alert.Figures) { f.Stranded, f.Sampled = 21, true },
				"recovered quarantine +"},
			{"again", 100, 10, func(f *alert.Figures) { f.Quarantined = 5 }, "fires quarantine +"}}},
		"projection": {[]alert.Threshold{{Kind: alert.Projected, Of: alert.Total},
			{Kind: alert.Exhausted, Of: alert.Total}}, []step{
			{"no rate", 1000, 0, nil, ""},
			{"slow", 1000, 0, rate(0.009), ""},
			{"fast", 1000, 0, rate(0.02), "fires projected/total +"},
			{"a little slower", 1000, 0, rate(0.0105), ""},
			{"used up", 1000, 1000, rate(0.0105), "fires exhausted/total +"},
			{"raised and slow", 2000, 1000, rate(0.001), "total_raised exhausted/total +; total_raised projected/total +"},
			{"at rest", 2000, 1000, rate(0), ""}}},
		"it ends": {shares(80), []step{
			{"crossed", 100, 90, nil, "fires used_share/total/80 +"},
			{"ended", 100, 100, func(f *alert.Figures) { f.Ended = true }, "budget_ended used_share/total/80 +"},
			{"after it", 100, 100, func(f *alert.Figures) { f.Ended = true }, ""}}},
		"unlimited": {alert.Defaults(), []step{
			{"any", 0, 0, func(f *alert.Figures) { f.Of = nil; f.Stranded, f.Sampled, f.HasRate = 5, true, true }, ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			var b book
			for i, s := range story.steps {
				f := figures(start.Add(time.Duration(i)*time.Second), s.total, s.spent)
				if s.change != nil {
					s.change(&f)
				}
				if got := strings.ReplaceAll(text(b.apply(f, story.thresholds)), "  ", " "); got != s.want {
					t.Fatalf("%s: %q, want %q", s.name, got, s.want)
				}
			}
		})
	}
}

// rate lets 1000 units last for 100,000 s at 0.01; the units end after 100,000 s.
func rate(r float64) func(*alert.Figures) {
	return func(f *alert.Figures) {
		f.Rate, f.HasRate = r, true
		for key, u := range f.Of {
			u.End = f.At.Add(100_000 * time.Second)
			f.Of[key] = u
		}
	}
}

func TestRemovedThresholds(t *testing.T) {
	var b book
	b.apply(figures(start, 100, 96), shares(50, 80, 95))
	got := text(b.apply(figures(start.Add(time.Second), 100, 96), shares(80)))
	if got != "threshold_removed used_share/total/50 +; threshold_removed used_share/total/95 +" {
		t.Error(got)
	}
	if got := fmt.Sprint(b.firing()); got != "[used_share/total/80]" {
		t.Error(got)
	}
}

// TestProperties changes budgets at random and checks the invariants after every decision.
func TestProperties(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		l := life{T: t, seed: seed, random: random, at: start, total: 1000, period: 1}
		for range 60 {
			l.step()
		}
	}
}

type life struct {
	*testing.T
	seed         uint64
	random       *rand.Rand
	b            book
	at           time.Time
	total, spent int64
	period       int64
}

// choose returns a random selection of thresholds.
func (l *life) choose() (list []alert.Threshold) {
	all := append(shares(10, 50, 80, 95, 100), alert.Defaults()[3:]...)
	for _, p := range []int{50, 90} {
		all = append(all, alert.Threshold{Kind: alert.UsedShare, Of: alert.Period, Percent: p})
	}
	for _, one := range all {
		if l.random.IntN(8) > 0 {
			list = append(list, one)
		}
	}
	return list
}

func (l *life) figures() alert.Figures {
	f := figures(l.at, l.total, l.spent)
	f.Period = l.period
	f.Quarantined = int64(l.random.IntN(3) / 2)
	f.Sampled, f.HasRate = l.random.IntN(2) == 0, l.random.IntN(2) == 0
	f.Stranded, f.Rate = l.random.Int64N(500), l.random.Float64()/100
	return f
}

func (l *life) step() {
	l.at = l.at.Add(time.Second)
	total, period := l.total, l.period
	switch l.random.IntN(10) {
	case 0:
		l.total += l.random.Int64N(1000)
	case 1:
		l.period++
	case 2:
		l.spent = max(l.spent-l.random.Int64N(300), 0)
	default:
		l.spent = min(l.spent+l.random.Int64N(200), l.total)
	}
	list, f, before := l.choose(), l.figures(), slices.Clone(l.b.states)
	changes := l.b.apply(f, list)
	l.checkTelling(changes)
	l.checkStates(before)
	if again := l.b.apply(f, list); len(again) > 0 {
		l.Fatalf("seed %d: the same figures change %v again", l.seed, again)
	}
	f.At = f.At.Add(time.Second)
	l.at = f.At
	if again := l.b.apply(f, list); len(again) > 0 {
		l.Fatalf("seed %d: equal figures change %v a second later", l.seed, again)
	}
	old := figures(start.Add(-time.Hour), 10, 10)
	if got := alert.Decide(l.b.states, old, list, l.at); len(got) > 0 {
		for _, one := range got {
			if one.State.Episode > 1 || !one.State.Firing() {
				l.Fatalf("seed %d: old figures change %v", l.seed, one)
			}
		}
	}
	for _, c := range changes {
		raised, rolled := c.State.Reason == alert.TotalRaised, c.State.Reason == alert.RolledOver
		if raised && l.total <= c.State.Units.Total || rolled && period == l.period && c.State.Period == l.period {
			l.Fatalf("seed %d: %v, total %d before %d", l.seed, c, l.total, total)
		}
	}
}

// checkTelling checks that every transition is reported once: by its own message or in a list.
func (l *life) checkTelling(changes []alert.Transition) {
	told := map[string]int{}
	for _, c := range changes {
		key := fmt.Sprint(c.State.Firing(), c.State.Period)
		if c.Top == c.State.Threshold {
			told[key+c.State.Threshold]++
			for _, also := range c.Also {
				told[key+also]++
			}
		} else if len(c.Also) > 0 {
			l.Fatalf("seed %d: %v has no message and lists others", l.seed, c)
		}
	}
	if l.b.announced == nil {
		l.b.announced = map[int64]bool{}
	}
	for _, c := range changes {
		own := c.Top == c.State.Threshold
		if !c.State.Firing() && l.b.announced[c.State.ID] && !own {
			l.Fatalf("seed %d: %v was announced and is not resolved by its id", l.seed, c)
		}
		l.b.announced[c.State.ID] = own
	}
	for _, c := range changes {
		key := fmt.Sprint(c.State.Firing(), c.State.Period) + c.State.Threshold
		if told[key] != 1 {
			l.Fatalf("seed %d: %v is told %d times in %v", l.seed, c, told[key], changes)
		}
	}
}

// checkStates checks that resolved states never change, that a threshold has at most one firing
// state, and that episodes count up.
func (l *life) checkStates(before []alert.State) {
	for i, s := range before {
		if !s.Firing() && l.b.states[i] != s {
			l.Fatalf("seed %d: %v became %v", l.seed, s, l.b.states[i])
		}
	}
	firing, episodes := map[string]bool{}, map[string]int64{}
	for _, s := range l.b.states {
		if s.Firing() {
			if firing[s.Threshold] {
				l.Fatalf("seed %d: %s fires twice", l.seed, s.Threshold)
			}
			firing[s.Threshold] = true
		} else if s.ResolvedAt.Before(s.FiredAt) || s.Reason == "" {
			l.Fatalf("seed %d: %v", l.seed, s)
		}
		key := fmt.Sprint(s.Threshold, s.Period)
		if episodes[key]++; episodes[key] != s.Episode {
			l.Fatalf("seed %d: %v is episode %d", l.seed, s, episodes[key])
		}
	}
}

// TestUnitsOfAlerts checks that an alert that watches no units of its own has those of the total, as
// its message does.
func TestUnitsOfAlerts(t *testing.T) {
	f := figures(start, 100, 10)
	f.Quarantined, f.Stranded, f.Sampled = 5, 30, true
	list := []alert.Threshold{{Kind: alert.Quarantine}, {Kind: alert.StrandedShare, Percent: 25}}
	changes := alert.Decide(nil, f, list, start)
	if len(changes) != 2 {
		t.Fatal(changes)
	}
	s := alert.Subject{Thresholds: list, Figures: f}
	for _, c := range changes {
		_, body := s.Tell(c)
		if u := c.State.Units; u.Total != 100 || u.Spent != 10 || u.Left != 90 ||
			!strings.Contains(string(body), `"total":100,"spent":10,"left":90,"quarantined":5`) {
			t.Errorf("%s: %+v in the list, %s in the message", c.State.Threshold, u, body)
		}
	}
}
