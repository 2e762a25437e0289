package bucket

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
)

// mark is a log entry whose fate somebody waits for.
type mark struct {
	lane   *lane
	ref    Ref
	seq    int64
	budget int64
	// id and nonce are the attempt's: after a store went back, another one's entry may stand at this
	// position.
	id, nonce string
}

// is reports whether an outcome is that of the mark's own entry.
func (m mark) is(o ledger.Outcome) bool {
	if safeguard.Off(safeguard.Nonce) {
		return true
	}
	if o.Duplicate != nil {
		return o.Duplicate.RequestID == m.id && o.Duplicate.Nonce == m.nonce
	}
	return o.Deduction != nil && o.Deduction.RequestID == m.id && o.Deduction.Nonce == m.nonce
}

// answer is what a mark is told of the outcome at its position.
func (m mark) answer(o ledger.Outcome) result[committed] {
	if !m.is(o) {
		return result[committed]{err: unknown("commit", errReplaced)}
	}
	return result[committed]{answer: committed{outcome: o}}
}

func (m mark) position() ledger.Position {
	return ledger.Position{Bucket: m.ref.Bucket, Epoch: m.ref.Epoch, Seq: m.seq}
}

// committed is what became of it. Ended means that the epoch is over and the entry is not in the
// ledger, nor will it ever be: it had no effect.
type committed struct {
	outcome ledger.Outcome
	ended   bool
}

// marksAtOnce is how many entries one commit is asked for at most; more than it takes for the cost of the
// transaction itself not to matter. commitPatience is how long one commit may take before another one,
// of other buckets, begins beside it: a store that hangs must not hold up the others.
const marksAtOnce, commitPatience = 4096, 50 * time.Millisecond

// gatherMarks: a commit of 62 entries takes hardly longer than one of 32, and with 64 callers those would take turns. One
// of more than mostMarks is large enough, and while it is under way the stores are asked for the others.
const (
	manyMarks, mostMarks = 8, 128
	markPatience         = 3 * time.Millisecond
)

func (s *Service) gatherMarks() *gather {
	return &gather{many: manyMarks, most: mostMarks, patience: markPatience, now: s.now, sleep: s.clock.Sleep,
		last: new(atomic.Pointer[gathered])}
}

// bucket is what two commits of a node must not both work on: they would wait for each other's epoch row.
func (m mark) bucket() int64 { return m.ref.Bucket }

// commitWait waits until an entry is in the ledger. This node's commits take whatever waits; other nodes may
// commit the same bucket at the same time, and the compare-and-set on drained_seq lets each entry through once.
func (s *Service) commitWait(ctx context.Context, m mark) (committed, error) {
	return s.committer.do(ctx, m)
}

// commitRounds bounds how often a commit reads the logs again because another node was ahead, or
// because a log was longer than one read.
const commitRounds = 20

// readLimit is the most entries of one bucket read at once; readTotal is about how many a transaction
// takes over all its buckets, readLeast what each gets however many there are.
const readLimit, readTotal, readLeast = 4000, 16_000, 32

// commitMarks brings the logs of all marks into the ledger, and answers each mark.
func (s *Service) commitMarks(marks []mark) []result[committed] {
	ctx, cancel := s.bounded(context.Background())
	defer cancel()
	d := newDraining(s)
	d.early = s.early
	out := failAll[committed](len(marks), unknown("commit", errors.New("nobody answered for this entry")))
	for i, m := range marks {
		if o, ok := s.early.Get(m.position()); ok {
			out[i] = m.answer(o)
			continue
		}
		d.want(i, m)
	}
	for round := 0; len(d.epochs) > 0; round++ {
		if round == commitRounds {
			d.fail(&budget.Error{Code: budget.OutcomeUnknown, Op: "commit",
				Message: "the log kept moving; repeat the same request id"})
		}
		d.round(ctx)
		for i, r := range d.answers {
			out[i] = r
		}
		clear(d.answers)
	}
	return out
}

// draining is the commit of several epochs' logs.
type draining struct {
	s       *Service
	epochs  map[Ref]*drainEpoch
	answers map[int]result[committed]
	// closes collects the close entries that were reached, rows the rows after the last commit.
	closes map[Ref]ledger.Entry
	rows   map[Ref]ledger.Epoch
	errs   map[Ref]error
	// total is about how many entries a transaction takes over all its buckets.
	total int
	// unread says that a store could not be read or SQL not be written.
	unread bool
	// early gets what became of the entries that nobody waits for yet; nil: nobody ever will.
	early *lru.Cache[ledger.Position, ledger.Outcome]
}

// mostEarly is how many outcomes are kept for whoever comes to wait for them: as many as a transaction takes.
const mostEarly = readTotal

type drainEpoch struct {
	lane *lane
	ref  Ref
	from int64
	// upTo is the position that somebody waits for.
	upTo    int64
	waiting map[int]mark
	// toClose drains on until the close entry, toEnd until nothing more is there that continues what
	// was drained.
	toClose, toEnd bool
}

func newDraining(s *Service) *draining {
	return &draining{s: s, total: readTotal, epochs: map[Ref]*drainEpoch{}, answers: map[int]result[committed]{},
		closes: map[Ref]ledger.Entry{}, rows: map[Ref]ledger.Epoch{}, errs: map[Ref]error{}}
}

// epoch adds an epoch to what is drained.
func (d *draining) epoch(l *lane, ref Ref) *drainEpoch {
	e := d.epochs[ref]
	if e == nil {
		e = &drainEpoch{lane: l, ref: ref, from: -1, waiting: map[int]mark{}}
		if from, ok := d.s.drained.Get(ref); ok {
			e.from = from
		}
		d.epochs[ref] = e
	}
	return e
}

func (d *draining) want(i int, m mark) {
	e := d.epoch(m.lane, m.ref)
	e.upTo = max(e.upTo, m.seq)
	e.waiting[i] = m
}

// fail ends everything that is left with one error.
func (d *draining) fail(err error) {
	for ref, e := range d.epochs {
		d.end(e, err)
		delete(d.epochs, ref)
	}
}

// end answers an epoch's waiters with an error.
func (d *draining) end(e *drainEpoch, err error) {
	for i := range e.waiting {
		d.answers[i] = result[committed]{err: err}
	}
	d.errs[e.ref] = err
	delete(d.epochs, e.ref)
}

// round reads the logs and commits them once.
func (d *draining) round(ctx context.Context) {
	if err := d.positions(ctx); err != nil {
		d.unread = true
		d.fail(unknown("commit", err))
		return
	}
	logs, refs := d.read(ctx)
	if len(logs) == 0 {
		return
	}
	began := d.s.clock.Now()
	report, err := d.s.sql.Commit(ctx, logs)
	if err != nil {
		d.s.failed("sql", err)
		d.unread = true
		for _, ref := range refs {
			if e := d.epochs[ref]; e != nil {
				d.end(e, unknown("commit", err))
			}
		}
		return
	}
	rows, duplicates, returned := 0, 0, int64(0)
	var missed []ledger.Position
	for i, r := range report.Epochs {
		e := d.epochs[refs[i]]
		for _, o := range r.Outcomes {
			rows++
			if o.Duplicate != nil {
				duplicates++
				returned += o.Duplicate.Amount
			}
			if o.Deduction != nil {
				d.s.recent.add(ID{Budget: o.Deduction.Budget, RequestID: o.Deduction.RequestID})
			}
		}
		if e != nil { // its waiters may have been answered while another lane was read
			missed = append(missed, d.settle(e, r)...)
		}
	}
	d.s.observer.Commit(rows, duplicates, returned, d.s.clock.Now().Sub(began))
	if len(missed) > 0 {
		d.lookBack(ctx, missed)
	}
}

// positions reads the drained positions that this node does not know.
func (d *draining) positions(ctx context.Context) error {
	var unknownRefs []Ref
	for ref, e := range d.epochs {
		if e.from < 0 {
			unknownRefs = append(unknownRefs, ref)
		}
	}
	if len(unknownRefs) == 0 {
		return nil
	}
	slices.SortFunc(unknownRefs, compareRefs)
	rows, err := d.s.sql.Epochs(ctx, unknownRefs)
	if err != nil {
		return err
	}
	for _, ref := range unknownRefs {
		row, ok := rows[ref]
		if !ok {
			d.end(d.epochs[ref], budget.Refuse(budget.OutcomeUnknown, "commit",
				"bucket %d has no epoch %d", ref.Bucket, ref.Epoch))
			continue
		}
		d.epochs[ref].from = row.DrainedSeq
	}
	return nil
}

// read reads every log from its drained position, inclusive; what cannot be read ends here. The lanes
// are read side by side, so that one that hangs does not hold up the others for longer than its call.
func (d *draining) read(ctx context.Context) (logs []ledger.Log, refs []Ref) {
	byLane := map[Lane][]*drainEpoch{}
	for _, ref := range refsInOrder(d.epochs) {
		e := d.epochs[ref]
		byLane[e.lane.id] = append(byLane[e.lane.id], e)
	}
	limit := min(max(d.total/max(len(d.epochs), 1), readLeast), readLimit)
	type reading struct {
		lane     *lane
		epochs   []*drainEpoch
		extracts []Extract
		err      error
	}
	readings := make(chan reading, len(byLane))
	for _, id := range inOrder(byLane) {
		epochs, place := byLane[id], d.s.turns.take()
		l := epochs[0].lane
		go func() {
			d.s.turns.wait(place)
			cursors := make([]Cursor, len(epochs))
			for i, e := range epochs {
				cursors[i] = Cursor{Ref: e.ref, From: e.from}
			}
			under := l.current()
			extracts, err := l.instance.Read(ctx, l.id, cursors, limit)
			if err != nil {
				err = d.s.laneFailed(ctx, l, under, err)
			}
			readings <- reading{l, epochs, extracts, err}
		}()
	}
	for range len(byLane) {
		r := <-readings
		for i, e := range r.epochs {
			switch {
			case r.err != nil:
				d.unread = true
				d.unreadable(ctx, e, r.err)
			case r.extracts[i].Err != nil && e.toEnd:
				d.end(e, r.extracts[i].Err)
			case r.extracts[i].Err != nil:
				d.s.fence(ctx, e.ref, r.extracts[i].Err.Error())
				d.end(e, unknown("commit", r.extracts[i].Err))
			default:
				logs = append(logs, ledger.Log{Bucket: e.ref.Bucket, Epoch: e.ref.Epoch, From: e.from,
					Entries: r.extracts[i].Entries})
				refs = append(refs, e.ref)
			}
		}
	}
	return logs, refs
}

// settle answers the waiters whose entries a commit covered. It returns the positions that another
// node committed: their rows have to be looked up.
func (d *draining) settle(e *drainEpoch, r EpochReport) (missed []ledger.Position) {
	d.rows[e.ref] = r.Row
	var bySeq map[int64]int
	if len(e.waiting) > 0 {
		bySeq = make(map[int64]int, len(r.Outcomes))
		for i := range r.Outcomes {
			bySeq[r.Outcomes[i].Position.Seq] = i
		}
	}
	told := make([]bool, len(r.Outcomes))
	before := e.from
	e.from = max(e.from, r.Row.DrainedSeq)
	d.s.noteDrained(e.lane, e.ref, before, e.from)
	ended := errors.Is(r.Err, ledger.ErrEnded)
	for i, m := range e.waiting {
		switch at, here := bySeq[m.seq]; {
		case here:
			d.answers[i], told[at] = m.answer(r.Outcomes[at]), true
			delete(e.waiting, i)
		case m.seq <= r.Row.DrainedSeq || ended:
			missed = append(missed, m.position())
		}
	}
	for i := range r.Outcomes {
		if !told[i] && d.early != nil {
			o := r.Outcomes[i]
			if o.Deduction != nil { // it is one of a list, which would stay as long as this one
				alone := *o.Deduction
				o.Deduction = &alone
			}
			d.early.Add(o.Position, o)
		}
	}
	var wrong *ledger.Mismatch
	switch {
	case errors.As(r.Err, &wrong) && e.toEnd:
		d.end(e, r.Err)
	case errors.As(r.Err, &wrong):
		d.mismatch(e, wrong)
	case errors.Is(r.Err, ledger.ErrFenced):
		d.end(e, unknown("commit", r.Err))
	case ended, r.Close != nil:
		if r.Close != nil {
			d.closes[e.ref] = *r.Close
		}
		e.toClose = false
		if len(e.waiting) == 0 {
			delete(d.epochs, e.ref)
		}
	case r.Err == nil && e.toEnd && e.from == before:
		delete(d.epochs, e.ref)
	case r.Err == nil && !e.toEnd && e.upTo <= r.Row.DrainedSeq && !e.toClose && len(e.waiting) == 0:
		delete(d.epochs, e.ref)
	}
	return missed
}

// mismatch acts on a log that does not match the ledger: a store that went back loses its lane's
// epochs, a bucket broken by itself is fenced alone.
func (d *draining) mismatch(e *drainEpoch, wrong *ledger.Mismatch) {
	if wrong.Back {
		d.s.log.Warn("log match failed", "lane", e.lane.id.String(), "bucket", e.ref.Bucket, "why", wrong.Why)
		d.s.memoryLost(e.lane, e.ref.Activation, "log match: "+wrong.Why)
	} else {
		d.s.fence(context.Background(), e.ref, wrong.Why)
	}
	d.end(e, unknown("commit", wrong))
}

// lookBack answers the waiters whose entries another transaction committed, from the rows at their
// positions. A position without a row in an ended epoch had no effect.
func (d *draining) lookBack(ctx context.Context, positions []ledger.Position) {
	asked := make(map[ledger.Position]bool, len(positions))
	for _, p := range positions {
		asked[p] = true
	}
	slices.SortFunc(positions, func(a, b ledger.Position) int {
		return cmp.Or(cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Seq, b.Seq))
	})
	found, err := d.s.sql.At(ctx, positions)
	if err != nil {
		d.s.failed("sql", err)
	}
	for _, ref := range refsInOrder(d.epochs) { // fence calls SQL
		e, answered := d.epochs[ref], false
		for i, m := range e.waiting {
			if !asked[m.position()] {
				continue
			}
			answered = true
			delete(e.waiting, i)
			switch o, ok := found[m.position()]; {
			case err != nil:
				d.answers[i] = result[committed]{err: unknown("commit", err)}
			case ok:
				d.answers[i] = m.answer(o)
			case !d.rows[ref].Status.Live():
				d.answers[i] = result[committed]{answer: committed{ended: true}}
			default:
				d.answers[i] = result[committed]{err: unknown("commit", errMissingRow)}
				d.s.fence(ctx, ref, errMissingRow.Error())
			}
		}
		if answered && len(e.waiting) == 0 && !e.toClose {
			delete(d.epochs, ref)
		}
	}
}

var (
	errMissingRow = errors.New("a drained log entry has no row in the ledger")
	errReplaced   = errors.New("the store went back: another request stands at this position of the log")
)

// unreadable ends an epoch whose store cannot be read. Entries of an epoch that has ended in SQL had
// no effect unless they are in the ledger; otherwise nobody knows.
func (d *draining) unreadable(ctx context.Context, e *drainEpoch, cause error) {
	rows, err := d.s.sql.Epochs(ctx, []Ref{e.ref})
	row, ok := rows[e.ref]
	if err != nil || !ok || row.Status.Live() {
		d.end(e, unknown("commit", cause))
		return
	}
	d.rows[e.ref] = row
	e.toClose = false
	positions := make([]ledger.Position, 0, len(e.waiting))
	for _, m := range e.waiting {
		positions = append(positions, m.position())
	}
	d.lookBack(ctx, positions)
	delete(d.epochs, e.ref)
}

// noteDrained remembers the position, and now and then trims the log below it: the last drained
// entry stays in the store for the log match.
func (s *Service) noteDrained(l *lane, ref Ref, before, now int64) {
	const trimEvery = 512
	l.acks.forget(ref, now)
	s.drainedMu.Lock()
	if old, ok := s.drained.Get(ref); !ok || old < now {
		s.drained.Add(ref, now)
	}
	s.drainedMu.Unlock()
	if before >= 0 && before/trimEvery != now/trimEvery {
		s.later("trim", func(ctx context.Context) {
			if err := l.instance.Trim(ctx, l.id, []Cursor{{Ref: ref, From: now}}); err != nil {
				s.failed("store", err)
			}
		})
	}
}

// knownSeq is the highest log position of an epoch that this node knows to exist.
func (s *Service) knownSeq(ref Ref, row int64) int64 {
	if seq, ok := s.drained.Get(ref); ok {
		return max(seq, row)
	}
	return row
}

// unknown wraps a cause as "may have been done".
func unknown(op string, cause error) error {
	return &budget.Error{Code: budget.OutcomeUnknown, Op: op,
		Message: "whether it happened is not known; repeat the same request id", Err: cause}
}

// fence stops a bucket that is broken by itself while the others serve; the loop that recovers fenced
// buckets replaces its epoch. Many requests may find the same thing: one of them says so.
func (s *Service) fence(ctx context.Context, ref Ref, why string) {
	if known, _ := s.fencedHere.ContainsOrAdd(ref, struct{}{}); known {
		return
	}
	s.observer.Fenced()
	s.noteFence(ref, why)
	s.log.Error("bucket fenced", "bucket", ref.Bucket, "epoch", ref.Epoch, "why", why)
	step, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.sql.Fence(step, ref, why); err != nil {
		s.fencedHere.Remove(ref) // whoever finds it next tries again
		s.failed("sql", err)
	}
}
