package bucket

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
)

// Epochs of store-mode budgets whose lane lost its memory are settled (DESIGN 6, recover a lane):
// what is left of their logs is drained, every node says how far it told callers "accepted", and then
// what they held returns to the total if the ledger has all of that, or is quarantined if it has not.

// settleLanes reports what this node acknowledged, and settles what waits on the lanes that it can
// use.
func (s *Service) settleLanes(ctx context.Context) {
	if s.usesAny() {
		s.reportUses(ctx, false)
	}
	for _, id := range s.laneOrder {
		l := s.lanes[id]
		if activation := l.current(); l.unsettled.Load() > 0 && s.usable(l, activation) {
			s.settleLane(ctx, l, activation)
		}
	}
}

// settleLane settles a page of a lane's epochs.
func (s *Service) settleLane(ctx context.Context, l *lane, activation int64) {
	const page = 200
	epochs, err := s.sql.Unsettled(ctx, l.id, activation, page)
	if err != nil {
		s.failed("sql", err)
		return
	}
	if len(epochs) == 0 {
		// Under a later activation, that was verified meanwhile, there may be more.
		l.unsettled.CompareAndSwap(activation, 0)
		l.unsettledSince = nil
		return
	}
	since := map[int64]time.Duration{}
	for _, e := range epochs {
		began, seen := l.unsettledSince[e.Row.Activation]
		if !seen {
			began = s.now()
		}
		since[e.Row.Activation] = began
	}
	l.unsettledSince = since
	if !s.drainWhatIsLeft(ctx, l, epochs) {
		return // the store cannot be read: what it may still have is not given up
	}
	settled := map[int64]bool{}
	for _, e := range epochs {
		ref := Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation}
		if s.settle(ctx, e, ref, s.now()-since[ref.Activation] > s.set.ReportWait) {
			settled[e.Budget] = true
		}
	}
	if len(settled) > 0 {
		s.settleBudgets(ctx, slices.Sorted(maps.Keys(settled)))
	}
}

// settle ends one epoch, whose log was drained; false while it waits for nodes to report, and where it cannot be
// drained again.
func (s *Service) settle(ctx context.Context, e EpochOf, ref Ref, force bool) bool {
	got, err := s.sql.EndLost(ctx, LostOrder{Ref: ref, Force: force})
	if err == nil && got.Beyond {
		if !safeguard.Off(safeguard.DrainedAgain) && !s.drainAgain(ctx, e, ref) {
			return false
		}
		got, err = s.sql.EndLost(ctx, LostOrder{Ref: ref, Force: force, Drained: true})
	}
	if err != nil {
		s.failed("sql", err)
		return false
	}
	if !got.Ended {
		return len(got.Unheard) == 0
	}
	s.observer.Moved("lose", got.Returned)
	s.observer.Moved("quarantine", got.Quarantined)
	if got.Quarantined > 0 {
		s.log.Error("units quarantined: their store lost its memory", "budget", e.Budget,
			"bucket", ref.Bucket, "epoch", ref.Epoch, "units", got.Quarantined, "unheard", got.Unheard)
	} else {
		s.log.Info("epoch lost; its units returned to the total", "budget", e.Budget, "bucket", ref.Bucket,
			"epoch", ref.Epoch, "units", got.Returned)
	}
	return true
}

// drainAgain drains an epoch of which a node had acknowledged more, when it reported, than the drain before found: the node
// went on under the old activation meanwhile. After its report it does not.
func (s *Service) drainAgain(ctx context.Context, e EpochOf, ref Ref) bool {
	rows, err := s.sql.Epochs(ctx, []Ref{ref})
	if err != nil {
		s.failed("sql", err)
		return false
	}
	l, row := s.lanes[e.Lane], rows[ref]
	if l == nil || !row.Status.Live() {
		return false
	}
	return s.drainWhatIsLeft(ctx, l, []EpochOf{{Budget: e.Budget, Lane: e.Lane, Row: row}})
}

// drainWhatIsLeft brings into the ledger what of the epochs' logs continues what was drained. false:
// the store could not be read, or SQL not be written.
func (s *Service) drainWhatIsLeft(ctx context.Context, l *lane, epochs []EpochOf) bool {
	if l.direct != nil {
		return true
	}
	d := newDraining(s)
	for _, e := range epochs {
		if e.Row.Status == ledger.Opening || e.Row.Fenced != "" {
			continue
		}
		ref := Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation}
		p := d.epoch(l, ref)
		p.from, p.toEnd = e.Row.DrainedSeq, true
	}
	const longest = 10_000 // reads of readLimit entries: more than a log ever holds beyond the ledger
	for range longest {
		if len(d.epochs) == 0 {
			break
		}
		d.round(ctx)
	}
	return !d.unread && len(d.epochs) == 0
}

// releaseProven releases quarantined units whose nodes have all reported meanwhile.
func (s *Service) releaseProven(ctx context.Context) {
	const page = 100
	units, err := s.sql.ReleaseProven(ctx, page)
	if err != nil {
		s.failed("sql", err)
		return
	}
	if units > 0 {
		s.observer.Moved("release", units)
		s.log.Info("quarantined units released: every node has reported", "units", units)
	}
}

// ReleaseRequest is an operator's decision on quarantined units.
type ReleaseRequest struct {
	Budget    BudgetRef
	RequestID string
	// Quantity 0 asks for all that is in quarantine.
	Quantity   int64
	Reason, By string
}

// ReleaseAnswer is what a release did.
type ReleaseAnswer struct {
	Released, Quarantined int64
	Replayed              bool
}

// Release moves quarantined units back to the total, as an operator decides who has made sure that
// they were not sold. Who, when and why is kept. Repeating the request id answers the same. Errors:
// BudgetNotFound, RequestConflict, AmountExceedsRemaining with what is in quarantine, Unavailable,
// OutcomeUnknown.
func (s *Service) Release(ctx context.Context, r ReleaseRequest) (ReleaseAnswer, error) {
	entry, err := s.budgets.find(ctx, r.Budget)
	if err != nil {
		return ReleaseAnswer{}, err
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	units, replayed, err := s.sql.Release(step, ReleaseOrder{Budget: entry.id, RequestID: r.RequestID,
		Quantity: r.Quantity, Reason: r.Reason, By: r.By})
	if err != nil {
		return ReleaseAnswer{}, s.sqlFailed(err)
	}
	if !replayed {
		s.observer.Moved("release", units)
		s.log.Info("quarantined units released by an operator", "budget", entry.id, "units", units,
			"by", r.By, "reason", r.Reason)
		if err := s.handOut(step, entry.id); err != nil {
			s.log.Warn("units not handed out yet", "budget", entry.id, "error", err)
		}
	}
	answer := ReleaseAnswer{Released: units, Replayed: replayed}
	f, err := s.sql.Figures(step, entry.id)
	answer.Quarantined = f.Quarantined
	return answer, afterWrite("release", true, err)
}

// Quarantines lists what is and was in quarantine of a budget. Errors: BudgetNotFound, Unavailable.
func (s *Service) Quarantines(ctx context.Context, ref BudgetRef) ([]Quarantine, error) {
	const limit = 1000
	entry, err := s.budgets.find(ctx, ref)
	if err != nil {
		return nil, err
	}
	list, err := s.sql.Quarantined(ctx, entry.id, limit)
	if err != nil {
		return nil, s.sqlFailed(err)
	}
	return list, nil
}

// drainEpochs brings the logs of live epochs into the ledger up to where they stand. Unavailable when
// that cannot be had, as where this node has no instance for a lane.
func (s *Service) drainEpochs(ctx context.Context, epochs []EpochOf) error {
	for _, e := range epochs {
		if s.lanes[e.Lane] == nil && e.Row.Status.Live() && e.Row.Status != ledger.Opening {
			return budget.Refuse(budget.Unavailable, "drain",
				"the log of bucket %d cannot be read: this node has no instance for its lane %s", e.Row.Bucket, e.Lane)
		}
	}
	d := newDraining(s)
	for _, id := range s.laneOrder {
		l := s.lanes[id]
		if l.direct != nil {
			continue
		}
		if err := s.wantDrained(ctx, d, l, epochs); err != nil {
			return err
		}
	}
	for range commitRounds {
		if len(d.epochs) == 0 {
			break
		}
		d.round(ctx)
	}
	for _, ref := range refsInOrder(d.errs) {
		return unavailable("drain", d.errs[ref])
	}
	if len(d.epochs) > 0 {
		return budget.Refuse(budget.Unavailable, "drain", "the log kept moving; repeat later")
	}
	return nil
}

// wantDrained adds a lane's epochs to what is drained, up to where their logs stand now.
func (s *Service) wantDrained(ctx context.Context, d *draining, l *lane, epochs []EpochOf) error {
	var refs []Ref
	for _, e := range epochs {
		if e.Lane != l.id || e.Row.Status == ledger.Opening || !e.Row.Status.Live() {
			continue
		}
		ref := Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation}
		switch {
		case e.Row.Fenced != "" || s.isDown(l.id):
			return budget.Refuse(budget.Unavailable, "drain",
				"the log of bucket %d cannot be read: its store cannot be reached, or it is fenced", ref.Bucket)
		case !s.usable(l, ref.Activation):
			return recovering("drain", ref)
		}
		refs = append(refs, ref)
	}
	if len(refs) == 0 {
		return nil
	}
	under := l.current()
	balances, err := l.instance.Balances(ctx, l.id, refs)
	if err != nil {
		return unavailable("drain", s.laneFailed(ctx, l, under, err))
	}
	for i, b := range balances {
		switch b.Verdict {
		case OK:
			e := d.epoch(l, refs[i])
			e.upTo = max(e.upTo, b.Seq)
		case Broken:
			s.fence(ctx, refs[i], b.Why)
			return budget.Refuse(budget.Unavailable, "drain", "bucket %d is fenced: %s", refs[i].Bucket, b.Why)
		default:
			s.standsAfterAll(ctx, l, refs[i])
			return recovering("drain", refs[i])
		}
	}
	return nil
}

// errRecovering says that a bucket will serve again soon, without anybody's doing.
var errRecovering = errors.New("its store is being recovered")

func recovering(op string, ref Ref) error {
	return &budget.Error{Code: budget.Unavailable, Op: op,
		Message: fmt.Sprintf("bucket %d cannot be read now", ref.Bucket), Err: errRecovering}
}

// patiently repeats a step while what it needs is being recovered, until the deadline of a request.
func (s *Service) patiently(ctx context.Context, step func(context.Context) error) error {
	const pause = 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, s.set.Deadline)
	defer cancel()
	for {
		err := step(ctx)
		if !errors.Is(err, errRecovering) || s.clock.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// drainBudget is drainEpochs for all live epochs of a budget, shared by all requests that wait for it.
func (s *Service) drainBudget(budgetID int64, waiting []*cached) []result[struct{}] {
	ctx, cancel := s.bounded(context.Background())
	defer cancel()
	out := make([]result[struct{}], len(waiting))
	epochs, err := s.liveOf(ctx, budgetID)
	if err == nil {
		err = s.drainEpochs(ctx, epochs)
	}
	if err != nil {
		return failAll[struct{}](len(waiting), err)
	}
	return out
}

// liveOf reads a budget's newest epochs that are live.
func (s *Service) liveOf(ctx context.Context, budgetID int64) ([]EpochOf, error) {
	b, err := s.sql.Budget(ctx, BudgetRef{ID: budgetID})
	if err != nil {
		return nil, s.sqlFailed(err)
	}
	return b.live(), nil
}

func (b *Budget) live() (out []EpochOf) {
	for i := range b.Buckets {
		if bk := &b.Buckets[i]; bk.Epoch.Status.Live() {
			out = append(out, EpochOf{Budget: b.ID, Lane: bk.Lane, Row: bk.Epoch})
		}
	}
	return out
}

// storeMode reports whether a budget is in store mode, by what this node remembers of it.
func (s *Service) storeMode(ctx context.Context, budgetID int64) (bool, error) {
	if entry, ok := s.budgets.byID.Peek(budgetID); ok {
		return entry.value.Load().inStoreMode(), nil
	}
	entry, err := s.budgets.find(ctx, BudgetRef{ID: budgetID})
	if err != nil {
		return false, err
	}
	return entry.value.Load().inStoreMode(), nil
}

// LeastRecordWindow is the shortest record window that can be configured.
const LeastRecordWindow = time.Second

const (
	defaultReportWait   = 5 * time.Second
	defaultWindowTime   = 5 * time.Second
	defaultRecordWindow = 10 * time.Minute
	defaultWindowUnits  = 1_000_000
)
