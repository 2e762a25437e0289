package bucket

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/ledger"
)

// Bounds of the recount.
const (
	// recountPart is how many ledger rows one statement counts at most, recountLeast what an epoch costs
	// of the rate however few it has.
	recountPart, recountLeast = 5_000, 20
)

// recounting is how far the recount has come. One loop has it.
type recounting struct {
	// after is the last epoch listed; listed are those still to be counted.
	after  Ref
	listed []EpochOf
	// at is the position that the first of them is counted up to, sums what its rows gave so far. again
	// says that it did not agree and is counted a second time.
	at    int64
	sums  ledger.EpochFigures
	again bool
	// stretch is how many rows were added while those before were counted; 0: none yet. empty says that the last
	// part had no rows.
	stretch int64
	empty   bool
	// credit is how many rows may be counted now; it grows with the time since `last`.
	credit int64
	last   time.Duration
	// began is when this round through all epochs began; -1: none is under way.
	began time.Duration
}

// recount counts the rows of every epoch, those that have ended too, and compares its columns with
// them (I1): about Settings.AuditRows a second, at most for half of the time between two looks, and
// each row once in a call. Each comparison is of one moment. What was counted up to a position of an
// epoch's log before stays true: amounts in the ledger never change.
func (s *Service) recount(ctx context.Context) {
	c, now := &s.recounting, s.now()
	rate := int64(s.set.AuditRows)
	c.credit = min(c.credit+int64(float64(rate)*max(now-c.last, 0).Seconds()), rate)
	c.last = now
	for c.credit > 0 && s.now()-now <= s.set.Audit/2 && ctx.Err() == nil {
		if len(c.listed) == 0 {
			if more := s.listEpochs(ctx); !more {
				return
			}
		}
		s.recountNext(ctx)
	}
}

// listEpochs lists the epochs that come next. more is false when all have been counted.
func (s *Service) listEpochs(ctx context.Context) (more bool) {
	c := &s.recounting
	if c.after == (Ref{}) {
		c.began = s.now()
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	listed, err := s.sql.EpochsAfter(step, c.after, lookPage)
	if err != nil {
		s.failed("sql", err)
		return false
	}
	if len(listed) == 0 {
		s.observer.Recounted(s.now() - c.began)
		c.after = Ref{}
		return false
	}
	c.listed, c.after = listed, refOf(&listed[len(listed)-1].Row)
	return true
}

// recountNext counts the next part of the epoch that is first in the list.
func (s *Service) recountNext(ctx context.Context) {
	c := &s.recounting
	e := &c.listed[0]
	part := Part{Ref: refOf(&e.Row), From: c.at, UpTo: c.at + recountPart}
	if c.empty { // of a position that was changed by hand there may be no end
		part.UpTo = max(part.UpTo, e.Row.DrainedSeq)
	}
	part.End = part.UpTo >= e.Row.DrainedSeq
	c.credit -= max(min(e.Row.DrainedSeq-c.at, recountPart), recountLeast)
	step, cancel := s.bounded(ctx)
	defer cancel()
	r, found, err := s.sql.Recount(step, part)
	if err != nil {
		s.failed("sql", err)
		c.credit = 0
		return // the same part the next time
	}
	c.sums.Deducted += r.Figures.Deducted
	c.sums.Duplicates += r.Figures.Duplicates
	whole := part.End && r.Figures.Row.DrainedSeq <= part.UpTo
	wrong := c.compare(part, r, whole)
	c.empty = r.Figures.Deducted == 0 && r.Figures.Duplicates == 0
	switch {
	case !found:
	case wrong != nil && !c.again:
		c.at, c.sums, c.again, c.stretch, c.empty = 0, ledger.EpochFigures{}, true, 0, false
		return
	case wrong != nil:
		s.discovered(ctx, e.Budget, part.Ref.Bucket, wrong)
	case !whole && (!part.End || c.follow(part.UpTo, r.Figures.Row.DrainedSeq)):
		c.at = part.UpTo
		return
	}
	c.listed = c.listed[1:]
	c.at, c.sums, c.again, c.stretch, c.empty = 0, ledger.EpochFigures{}, false, 0, false
}

// follow goes on to count what was added up to a position, unless that is no less than the time before.
func (c *recounting) follow(at, upTo int64) bool {
	before := c.stretch
	c.stretch, c.listed[0].Row.DrainedSeq = upTo-at, upTo
	return before == 0 || c.stretch < before
}

// compare compares what was counted: the rollbacks of a part's deductions with what these have noted,
// and, with the whole of the epoch counted, all of its columns.
func (c *recounting) compare(part Part, r Recounted, whole bool) []ledger.Discrepancy {
	f := r.Figures
	if !whole {
		f = ledger.EpochFigures{Row: ledger.Epoch{Number: part.Ref.Epoch}, Noted: f.Noted, RolledBack: r.Returned}
		return ledger.CheckRollbacks(&f)
	}
	f.Deducted, f.Duplicates = c.sums.Deducted, c.sums.Duplicates
	if part.From > 0 { // the parts before were right, each at its moment
		f.Noted += f.RolledBack - r.Returned
	}
	return ledger.CheckEpoch(&f)
}
