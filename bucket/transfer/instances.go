package transfer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/placement"
	"github.com/budgetd/budgetd/budget"
)

// pingTime bounds one check whether stores answer.
const pingTime = time.Second

// Partitions lists the partitions of the configured instances, with whether their stores answer
// this node and how many buckets they have. It works even if the database or a store does not
// answer.
func (s *Service) Partitions(ctx context.Context) ([]bucket.PartitionView, error) {
	step, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	problems := s.problems(step)
	rows, err := s.Ledger.PartitionRows(step)
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("partitions shown without their buckets", "error", err)
	}
	known := map[bucket.Partition]PartitionRow{}
	for _, row := range rows {
		known[row.Partition] = row
	}
	risks := s.risks.read(step, s.Ledger, s.Now())
	views := make([]bucket.PartitionView, 0, len(s.Config.Partitions))
	for _, partition := range s.Config.Partitions {
		row := known[partition]
		view := bucket.PartitionView{Partition: partition, Incarnation: row.Incarnation,
			Draining: row.Draining, Reachable: problems[partition] == "", Problem: problems[partition],
			Role: row.Role, Cause: row.Cause, BeganAt: row.BeganAt}
		if risks != nil {
			units := risks[partition]
			view.AtRisk = &units
		}
		if err == nil {
			n := row.Buckets
			view.Buckets = &n
		}
		views = append(views, view)
	}
	return views, nil
}

// risks keeps what is at risk on each partition. Reading it takes time in proportion to the budgets
// in store mode, and pages ask for it every second.
type risks struct {
	mu    sync.Mutex
	at    time.Time
	units map[bucket.Partition]int64
}

// read returns what is at risk, as of the last risksFor, or nil if the database does not say.
func (r *risks) read(ctx context.Context, from *Ledger,
	now time.Time) map[bucket.Partition]int64 {
	const risksFor = 5 * time.Second
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.at) >= risksFor || now.Before(r.at) {
		units, err := from.AtRisk(ctx)
		if err != nil {
			return nil
		}
		r.units, r.at = units, now
	}
	return r.units
}

// problems pings the stores of all partitions concurrently. It returns why a store does not answer;
// a partition whose store answers has no entry.
func (s *Service) problems(ctx context.Context) map[bucket.Partition]string {
	out := make(map[bucket.Partition]string, len(s.Config.Partitions))
	if s.Health == nil {
		return out
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, partition := range s.Config.Partitions {
		all.Go(func() {
			if err := s.Health.Ping(ctx, partition); err != nil {
				mu.Lock()
				defer mu.Unlock()
				out[partition] = err.Error()
			}
		})
	}
	all.Wait()
	return out
}

// Missing describes the partitions that have buckets but whose instance is not configured. It
// returns nothing if the database does not answer.
func (s *Service) Missing(ctx context.Context) (reasons []string) {
	rows, err := s.Ledger.PartitionRows(ctx)
	if err != nil {
		return nil
	}
	for _, row := range rows {
		if row.Buckets > 0 && !slices.Contains(s.Config.Partitions, row.Partition) {
			reasons = append(reasons, "partition "+row.Partition.String()+" has "+strconv.Itoa(row.Buckets)+
				" buckets, and its instance is not in the configuration: add it, or rebalance")
		}
	}
	return reasons
}

// Recover returns the instance's partitions. Error: InstanceNotFound.
func (s *Service) Recover(ctx context.Context, name string) ([]bucket.PartitionView, error) {
	if _, err := s.partitionsOf("recover", name); err != nil {
		return nil, err
	}
	views, err := s.Partitions(ctx)
	return slices.DeleteFunc(views,
		func(v bucket.PartitionView) bool { return v.Partition.Instance != name }), err
}

// partitionsOf returns the partitions of a configured instance. Error: InstanceNotFound.
func (s *Service) partitionsOf(op, name string) (out []bucket.Partition, err error) {
	for _, partition := range s.Config.Partitions {
		if partition.Instance == name {
			out = append(out, partition)
		}
	}
	if out == nil {
		return nil, budget.Refuse(budget.InstanceNotFound, op,
			"this node has no instance %q in its configuration", name)
	}
	return out, nil
}

// Drain moves every bucket of an instance to others. A bucket is copied, and its requests are
// unavailable meanwhile. The drain loop moves what cannot be moved at once. New buckets are placed
// elsewhere until Undrain. Repeating it is harmless and reports the progress.
//
// Errors: InstanceNotFound; LastInstance if no other instance accepts buckets; Unavailable;
// OutcomeUnknown.
func (s *Service) Drain(ctx context.Context, name string) (bucket.DrainView, error) {
	partitions, err := s.partitionsOf("drain", name)
	if err != nil {
		return bucket.DrainView{}, err
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	rows, err := s.Ledger.PartitionRows(step)
	if err != nil {
		return bucket.DrainView{}, err
	}
	accepts := s.accepting(step, rows)
	other := func(partition bucket.Partition) bool {
		return partition.Instance != name &&
			accepts(partition)
	}
	if !slices.ContainsFunc(s.Config.Partitions, other) {
		return bucket.DrainView{}, budget.Refuse(budget.LastInstance, "drain",
			"no other instance can take the buckets of %q: "+
				"the others, if any, are down or being drained", name)
	}
	if err := s.Ledger.SetDraining(step, partitions, true); err != nil {
		return bucket.DrainView{}, err
	}
	s.Log.Info("instance is being drained", "instance", name)
	moved, err := s.drain(step)
	if err != nil {
		s.Log.Warn("drain continues in the background", "instance", name, "error", err)
	}
	view, err := s.drainView(step, name, partitions)
	view.Moved = moved
	return view, afterWrite("drain", true, err)
}

// Undrain allows buckets on an instance again. Buckets that have left stay where they are.
// Repeating it is harmless. Errors: InstanceNotFound; Unavailable; OutcomeUnknown.
func (s *Service) Undrain(ctx context.Context, name string) (bucket.DrainView, error) {
	partitions, err := s.partitionsOf("undrain", name)
	if err != nil {
		return bucket.DrainView{}, err
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.Ledger.SetDraining(step, partitions, false); err != nil {
		return bucket.DrainView{}, err
	}
	s.Log.Info("instance accepts buckets again", "instance", name)
	view, err := s.drainView(step, name, partitions)
	return view, afterWrite("undrain", true, err)
}

// drainView returns the progress of draining an instance.
func (s *Service) drainView(ctx context.Context, name string, partitions []bucket.Partition) (
	bucket.DrainView, error) {
	view := bucket.DrainView{Instance: name}
	rows, err := s.Ledger.PartitionRows(ctx)
	if err != nil {
		return view, err
	}
	for _, row := range rows {
		if slices.Contains(partitions, row.Partition) {
			view.Draining = view.Draining || row.Draining
			view.Left += row.Buckets
		}
	}
	view.Done = view.Draining && view.Left == 0
	if view.Draining && !view.Done {
		view.Problem = s.waitsFor(ctx, name, partitions, view.Left)
	}
	return view, nil
}

// waitsFor returns what buckets that cannot be drained wait for and what to do, or "". Buckets in
// store mode leave only a store that answers.
func (s *Service) waitsFor(ctx context.Context, name string, partitions []bucket.Partition,
	left int) string {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	problems := s.problems(ctx)
	for _, partition := range partitions {
		if why := problems[partition]; why != "" {
			return fmt.Sprintf("%d buckets wait for %s, whose store does not answer: %s. "+
				"Bring it back, or, if it is lost for good, give it up: "+
				"budgetctl instances give-up %s", left, partition, why, name)
		}
	}
	return ""
}

// accepting returns a function that reports whether a partition accepts buckets: its instance is
// configured, it is not being drained, and its store answers.
func (s *Service) accepting(ctx context.Context, rows []PartitionRow) func(bucket.Partition) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	problems := s.problems(ctx)
	for _, row := range rows {
		if row.Draining {
			problems[row.Partition] = "it is being drained"
		}
	}
	return func(partition bucket.Partition) bool {
		return problems[partition] == "" && slices.Contains(s.Config.Partitions, partition)
	}
}

// eachPlaced calls do for the budgets with buckets on partitions, or for all budgets if partitions
// is empty.
func (s *Service) eachPlaced(ctx context.Context, partitions []bucket.Partition,
	do func(*Placed) error) error {
	const page = 100
	for after := int64(0); ; {
		list, err := s.Ledger.PlacedAfter(ctx, partitions, after, page)
		if err != nil {
			return err
		}
		for i := range list {
			after = list[i].Budget
			if err := do(&list[i]); err != nil {
				return err
			}
		}
		if len(list) < page {
			return nil
		}
	}
}

// misplaced returns the moves that bring a budget's buckets to where the shared placement says.
// leaving restricts them to buckets on those partitions. If it is nil, buckets that are spread
// evenly stay.
func (s *Service) misplaced(p *Placed, accepts func(bucket.Partition) bool,
	leaving func(bucket.Partition) bool) []Placement {
	keys, have := make([]string, len(p.Buckets)), make([]bucket.Partition, len(p.Buckets))
	buckets := slices.SortedFunc(slices.Values(p.Buckets),
		func(a, b PlacedBucket) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	for i, b := range buckets {
		keys[i], have[i] = placement.Key(p.Tenant, p.key(b.Ordinal)), b.Partition
	}
	var partitions []bucket.Partition
	var ok bool
	if leaving == nil {
		partitions, ok = s.Places.Rebalance(keys, have, accepts)
	} else {
		partitions, ok = s.Places.Partitions(keys, accepts)
	}
	if !ok {
		return nil
	}
	var out []Placement
	for i, b := range buckets {
		if b.Partition != partitions[i] && (leaving == nil || leaving(b.Partition)) {
			out = append(out, Placement{Bucket: b.ID, From: b.Partition, To: partitions[i]})
		}
	}
	return out
}

// key returns the public name of one of the budget's buckets.
func (p *Placed) key(ordinal int) string { return p.Name + ":bucket-" + strconv.Itoa(ordinal) }

// drain moves the buckets of all partitions that are being drained. It returns how many it moved.
func (s *Service) drain(ctx context.Context) (moved int, err error) {
	rows, err := s.Ledger.PartitionRows(ctx)
	if err != nil {
		return 0, err
	}
	var partitions []bucket.Partition
	for _, row := range rows {
		if row.Draining && row.Buckets > 0 {
			partitions = append(partitions, row.Partition)
		}
	}
	if len(partitions) == 0 {
		return 0, nil
	}
	accepts := s.accepting(ctx, rows)
	leaving := func(partition bucket.Partition) bool { return slices.Contains(partitions, partition) }
	err = s.eachPlaced(ctx, partitions, func(p *Placed) error {
		n, err := s.move(ctx, p, s.misplaced(p, accepts, leaving))
		moved += n
		return err
	})
	return moved, err
}

// move moves buckets of one budget, one after the other. It skips one that cannot be moved, for
// example because it is busy; the drain loop tries it again.
func (s *Service) move(ctx context.Context, p *Placed, list []Placement) (n int, err error) {
	if s.Stores == nil {
		return 0, nil
	}
	for _, one := range list {
		if ctx.Err() != nil {
			break
		}
		step, cancel := s.bounded(ctx)
		err := s.Stores.Move(step, p.Budget, one.Bucket, one.To)
		cancel()
		if err != nil {
			s.Log.Warn("bucket not moved", "budget", p.Name, "bucket", one.Bucket, "error", err)
			continue
		}
		n++
	}
	if n > 0 {
		s.Log.Info("buckets moved", "budget", p.Name, "buckets", n)
	}
	return n, ctx.Err()
}

// DrainLoop continues drains.
type DrainLoop struct{ s *Service }

// RunOnce moves what is left on partitions that are being drained.
func (l *DrainLoop) RunOnce(ctx context.Context) error {
	_, err := l.s.drain(ctx)
	return err
}
