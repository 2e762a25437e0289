package bucket

import (
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// DrainView is how far the draining of an instance is.
type DrainView struct {
	Instance string
	Draining bool
	// Left buckets are on it still, Moved ones have left it since this drain began, and the store keeps
	// something of Uncleared ones.
	Left, Moved, Uncleared int
	// Done says that no bucket is left, nor any key, unless the store cannot be reached to remove them.
	Done bool
	// Problem says what keeps it from going on, as this node sees it; "" if nothing.
	Problem string
}

// Drain moves every bucket of an instance to others, while requests go on, and then removes what its
// store keeps of them. It returns at once: any node does the work, bucket by bucket, and again after it
// was stopped. Repeating it is harmless and tells how far it is. New buckets land elsewhere until Undrain.
//
// Errors: InstanceNotFound; LastInstance when no other lane could take the buckets; Unavailable;
// OutcomeUnknown.
func (s *Service) Drain(ctx context.Context, name string) (DrainView, error) {
	lanes, err := s.lanesOf("drain", name)
	if err != nil {
		return DrainView{}, err
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	s.seeLanes(step)
	other := func(id Lane) bool { return id.Instance != name && s.takesBuckets(s.lanes[id]) }
	begun := !slices.ContainsFunc(lanes, func(id Lane) bool { return !s.lanes[id].draining.Load() })
	if !begun && !slices.ContainsFunc(s.laneOrder, other) {
		return DrainView{}, budget.Refuse(budget.LastInstance, "drain",
			"no other instance can take the buckets of %q: each is down, being drained itself, or there is none", name)
	}
	if err := s.sql.SetDraining(step, lanes, true); err != nil {
		return DrainView{}, s.sqlFailed(err)
	}
	if !begun {
		s.log.Info("instance is being drained", "instance", name)
	}
	s.seeLanes(step)
	s.moveAll(step)
	v, err := s.drainView(step, name, lanes)
	return v, afterWrite("drain", true, err)
}

// Undrain lets buckets land on an instance again; those that have left it stay where they are. Repeating
// it is harmless. Errors: InstanceNotFound, Unavailable, OutcomeUnknown.
func (s *Service) Undrain(ctx context.Context, name string) (DrainView, error) {
	lanes, err := s.lanesOf("undrain", name)
	if err != nil {
		return DrainView{}, err
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.sql.SetDraining(step, lanes, false); err != nil {
		return DrainView{}, s.sqlFailed(err)
	}
	s.log.Info("instance takes buckets again", "instance", name)
	s.seeLanes(step)
	s.finishUnfinished(step)
	v, err := s.drainView(step, name, lanes)
	return v, afterWrite("undrain", true, err)
}

// Recover does on demand what is done by itself when an instance loses its memory: its lanes get their
// next activations, the epochs of before are replaced, and what they held is where it is after a loss. In
// ledger mode that costs nothing. Each call does it again. Errors: InstanceNotFound; OutcomeUnknown, when a
// lane cannot be reached or is refused: it is tried again on its own, the lanes after it were not begun.
func (s *Service) Recover(ctx context.Context, name string) ([]LaneView, error) {
	lanes, err := s.lanesOf("recover", name)
	if err != nil {
		return nil, err
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	for _, id := range lanes {
		l := s.lanes[id]
		l.mu.Lock()
		if l.activation > 0 {
			l.down, l.problem, l.lostUnder = true, "an operator asked for its recovery", l.activation
		}
		l.mu.Unlock()
		if !s.ensureLane(step, l) {
			l.mu.Lock()
			problem := l.problem
			l.mu.Unlock()
			return nil, budget.Refuse(budget.OutcomeUnknown, "recover", "lane %s: %s; its recovery goes on by itself", id, problem)
		}
	}
	s.log.Info("instance recovered on demand", "instance", name)
	s.finishUnfinished(step)
	views, err := s.Lanes(step)
	if err != nil {
		return nil, afterWrite("recover", true, err)
	}
	return slices.DeleteFunc(views, func(v LaneView) bool { return v.Lane.Instance != name }), nil
}

// lanesOf returns the lanes of a configured instance. Error: InstanceNotFound.
func (s *Service) lanesOf(op, name string) (out []Lane, err error) {
	for _, id := range s.laneOrder {
		if id.Instance == name {
			out = append(out, id)
		}
	}
	if out == nil {
		return nil, budget.Refuse(budget.InstanceNotFound, op, "this node has no instance %q in its configuration", name)
	}
	return out, nil
}

func (s *Service) drainView(ctx context.Context, name string, lanes []Lane) (DrainView, error) {
	rows, err := s.sql.LaneRows(ctx, lanes)
	if err != nil {
		return DrainView{}, s.sqlFailed(err)
	}
	loads, err := s.sql.LaneLoads(ctx, lanes)
	if err != nil {
		return DrainView{}, s.sqlFailed(err)
	}
	v := DrainView{Instance: name, Draining: true}
	cleared := true
	for _, id := range lanes {
		load := loads[id]
		v.Draining = v.Draining && rows[id].Draining
		v.Left, v.Moved, v.Uncleared = v.Left+load.Buckets, v.Moved+load.Moved, v.Uncleared+load.Uncleared
		l := s.lanes[id]
		l.mu.Lock()
		down, problem := l.down || l.activation == 0, l.problem
		l.mu.Unlock()
		cleared = cleared && (load.Uncleared == 0 || down)
		if down && load.Buckets+load.Uncleared > 0 && v.Problem == "" {
			v.Problem = "lane " + id.String() + ": " + problem
		}
	}
	v.Done = v.Draining && v.Left == 0 && cleared
	if v.Draining && v.Left > 0 && !slices.ContainsFunc(s.laneOrder, func(id Lane) bool { return s.takesBuckets(s.lanes[id]) }) {
		v.Problem = "no lane can take its buckets now"
	}
	return v, nil
}

// missingEvery is how often buckets on lanes without an instance are looked for.
const missingEvery = 10 * time.Second

// seeLanes reads from SQL which lanes are being drained, so that all nodes know within a second, and
// whether there are buckets on lanes that this node has no instance for.
func (s *Service) seeLanes(ctx context.Context) {
	step, cancel := s.bounded(ctx)
	defer cancel()
	rows, err := s.sql.KnownLanes(step)
	if err != nil {
		s.failed("sql", err)
		return
	}
	var foreign []Lane
	for _, row := range rows {
		l := s.lanes[row.Lane]
		if l == nil {
			foreign = append(foreign, row.Lane)
			continue
		}
		l.draining.Store(row.Draining)
		s.usable(l, row.Activation) // verifies it where another node moved it on
		if s.forgets(l) {
			s.seeMended(step, l)
		}
	}
	s.seeMissing(step, foreign)
}

// seeMended looks again at a store that answered writes before they were on its disk.
func (s *Service) seeMended(ctx context.Context, l *lane) {
	inspected, ok := l.instance.(Inspected)
	if !ok {
		return
	}
	if condition, err := inspected.Condition(ctx, l.id); err == nil && condition.Persistent {
		l.forgetful.Store(false)
		s.log.Info("every write is on this instance's disk before it is answered: its buckets in store mode serve",
			"lane", l.id.String())
	}
}

// seeMissing notes which lanes without an instance have buckets, and says so when that changes.
func (s *Service) seeMissing(ctx context.Context, foreign []Lane) {
	was := s.missing.Load()
	now := s.now()
	if was != nil && now-time.Duration(s.missingAt.Load()) < missingEvery {
		return
	}
	found := []string{}
	if len(foreign) > 0 {
		loads, err := s.sql.LaneLoads(ctx, foreign)
		if err != nil {
			s.failed("sql", err)
			return
		}
		for _, id := range foreign {
			if loads[id].Buckets > 0 {
				found = append(found, id.String())
			}
		}
	}
	s.missingAt.Store(int64(now))
	s.missing.Store(&found)
	if len(found) > 0 && (was == nil || !slices.Equal(*was, found)) {
		s.log.Error("buckets are on lanes whose instance is not in this node's configuration; their units are out of reach",
			"lanes", found)
	}
}

// Missing says of which lanes with buckets the instance is not in this node's configuration: their units
// are out of its reach. At most 10 s old.
func (s *Service) Missing() (reasons []string) {
	found := s.missing.Load()
	if found == nil {
		return nil
	}
	for _, id := range *found {
		reasons = append(reasons, "lane "+id+" has buckets, and its instance is not in the configuration: add it, or drain it first")
	}
	return reasons
}
