package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/internal/safeguard"
)

// ErrReadAgain says that the ledger is ahead of the log that was read: another node drained more
// meanwhile. Read again from the position in the epoch row.
var ErrReadAgain = errors.New("the ledger is ahead of this read of the log")

// ErrEnded says that the epoch is closed or lost: nothing of it can be committed any more, so
// whatever of it is not in the ledger has no effect.
var ErrEnded = errors.New("the epoch has ended")

// ErrFenced says that the epoch is fenced: nothing moves until it is recovered.
var ErrFenced = errors.New("the bucket is fenced")

// Mismatch is a disagreement between a bucket's log and the ledger. The bucket must be fenced and
// recovered; the others serve on.
type Mismatch struct {
	Why string
	// Back says that the log is not a continuation of what was drained: the store went back or
	// forked, so its whole lane must be recovered and not only this bucket.
	Back bool
}

func (m *Mismatch) Error() string { return "log match: " + m.Why }

func mismatch(format string, args ...any) error { return &Mismatch{Why: fmt.Sprintf(format, args...)} }

func wentBack(format string, args ...any) error {
	return &Mismatch{Why: fmt.Sprintf(format, args...), Back: true}
}

// Log is a part of one epoch's log as read from the store.
type Log struct {
	Bucket, Epoch int64
	// From is the drained position that was known when the read began; the read starts there,
	// inclusive.
	From    int64
	Entries []Entry
	// Granted has the amounts of grants by their numbers, as grant_log has them: at least those whose
	// entries are not drained yet (UndrainedGrants). A log's own amounts are never trusted.
	Granted map[int64]int64
}

// UndrainedGrants lists the numbers of the grants that a log shows after a drained position.
func (l *Log) UndrainedGrants(drained int64) (numbers []int64) {
	for i := range l.Entries {
		if e := &l.Entries[i]; e.Kind == KindGrant && e.Seq > drained {
			numbers = append(numbers, e.Number)
		}
	}
	return numbers
}

// Drained is what committing a log changes: the epoch row after it and the rows to insert.
type Drained struct {
	Before, After Epoch
	Deductions    []Deduction
	Duplicates    []Duplicate
	// Arrived lists the numbers of the grants that the log shows as arrived.
	Arrived []int64
	// Outcomes has one element per deduct entry, in log order.
	Outcomes []Outcome
	// Close is the entry that ends the epoch, when the log was read up to it. It is not drained
	// here: see CloseAmount.
	Close *Entry
}

// Changed reports whether there is anything to write.
func (d *Drained) Changed() bool { return d.After.DrainedSeq > d.Before.DrainedSeq }

// Drain decides what the entries of a log that follow the drained position become (DESIGN 5.5): a
// deduction, or a duplicate whose units go to R when the id is known already, is void, or when the
// epoch's period is over at SQL's time now. known returns the ledger's row of an id, nil if there is
// none; Drain calls remember for each new deduction so that the next entry, also of another bucket
// of the same transaction, sees it. judge, where it is not nil, decides by the budget's limits and counts
// what it lets through: a refused entry's units go to R too, and its id stays free.
//
// Errors: ErrEnded, ErrFenced, ErrReadAgain, or *Mismatch when the log is not a continuation of what
// was drained, an entry's chain value is wrong, a grant is not the one that SQL made, or more was
// deducted than was outstanding. With an error nothing may be written; Deductions are those remembered until then. Draining the same log again changes nothing (keeps I1, I4, I7).
func Drain(row Epoch, now time.Time, log Log, known func(id string) *Deduction,
	remember func(*Deduction), judge Judge) (Drained, error) {
	out := Drained{Before: row, After: row}
	if row.Status != Open && row.Status != Closing && !safeguard.Off(safeguard.EndedEpoch) {
		if row.Status == Opening {
			return out, nil
		}
		return out, ErrEnded
	}
	if row.Fenced != "" && !safeguard.Off(safeguard.FencedEpoch) {
		return out, ErrFenced
	}
	entries, err := undrained(row, log)
	if err != nil {
		return out, err
	}
	after := &out.After
	for i := range entries {
		e := &entries[i]
		if e.Seq != after.DrainedSeq+1 {
			return out, mismatch("entry %d follows entry %d", e.Seq, after.DrainedSeq)
		}
		if !e.continues(after.DrainedChain) && !safeguard.Off(safeguard.EntryChain) {
			return out, mismatch("entry %d does not continue the chain", e.Seq)
		}
		switch e.Kind {
		case KindGrant:
			amount, made := log.Granted[e.Number]
			if !made || e.Number >= row.NextGrant {
				return out, mismatch("entry %d is a grant that SQL never made", e.Seq)
			}
			if e.Amount != amount {
				return out, mismatch("entry %d is a grant of %d, which SQL made of %d", e.Seq, e.Amount, amount)
			}
			out.Arrived = append(out.Arrived, e.Number)
		case KindDeduct:
			if why := e.unfit(); why != "" {
				return out, mismatch("entry %d %s", e.Seq, why)
			}
			if e.Amount > after.Outstanding && !safeguard.Off(safeguard.Outstanding) {
				return out, mismatch("entry %d deducts %d of %d outstanding", e.Seq, e.Amount,
					after.Outstanding)
			}
			if out.Outcomes == nil { // as many as can be, once: growing copies each several times
				out.Outcomes = make([]Outcome, 0, len(entries)-i)
			}
			out.deduct(e, now, known, remember, judge)
		case KindClose:
			out.Close = e
			return out, nil
		default:
			return out, mismatch("entry %d is of kind %q", e.Seq, byte(e.Kind))
		}
		after.DrainedSeq, after.DrainedChain = e.Seq, e.Chain
	}
	return out, nil
}

// undrained checks that the log holds the drained entry and returns what follows it.
func undrained(row Epoch, log Log) ([]Entry, error) {
	last := log.From - 1
	for i := range log.Entries {
		e := &log.Entries[i]
		if e.Seq == row.DrainedSeq {
			if e.Chain != row.DrainedChain && !safeguard.Off(safeguard.LogMatch) {
				return nil, wentBack("entry %d is not the one that was drained", e.Seq)
			}
			return log.Entries[i+1:], nil
		}
		last = e.Seq
	}
	if row.DrainedSeq > log.From && last < row.DrainedSeq {
		return nil, ErrReadAgain
	}
	return nil, wentBack("the drained entry %d is missing, the log ends at %d", row.DrainedSeq, last)
}

// deduct turns one admitted entry into a deduction or a duplicate.
func (d *Drained) deduct(e *Entry, now time.Time, known func(string) *Deduction,
	remember func(*Deduction), judge Judge) {
	row := &d.After
	row.Outstanding -= e.Amount
	at := Position{Bucket: row.Bucket, Epoch: row.Number, Seq: e.Seq}
	recorded := known(e.Request.ID)
	reason, verdict := Reason(""), Verdict{}
	switch {
	case recorded != nil && recorded.State == StateVoid:
		reason = ReasonVoid
	case recorded != nil && !safeguard.Off(safeguard.KnownIDs):
		reason = ReasonDuplicate
	case !row.EndAt.IsZero() && !now.Before(row.EndAt) && !safeguard.Off(safeguard.PeriodEnd):
		reason = ReasonExpired
	case judge != nil && e.Request.At == 0: // otherwise its store has judged it
		verdict = judge(&e.Request, e.Amount)
		if reason = verdict.Reason; verdict.Refusal != "" {
			reason = ReasonLimit
		}
	}
	if reason != "" {
		if !safeguard.Off(safeguard.DuplicateUnits) {
			row.Returning += e.Amount
		}
		dup := Duplicate{Budget: row.Budget, RequestID: e.Request.ID, Position: at,
			Amount: e.Amount, Nonce: e.Request.Nonce, Reason: reason, Figures: verdict.Refusal}
		d.Duplicates = append(d.Duplicates, dup)
		d.Outcomes = append(d.Outcomes, Outcome{Position: at, Duplicate: &dup, Deduction: recorded})
		return
	}
	if d.Deductions == nil { // as many as can be: the outcomes point into it
		d.Deductions = make([]Deduction, 0, cap(d.Outcomes))
	}
	d.Deductions = append(d.Deductions, Deduction{
		Budget: row.Budget, RequestID: e.Request.ID, Amount: e.Amount, State: StateUsed,
		Fingerprint: e.Request.Fingerprint, Nonce: e.Request.Nonce, Reference: e.Request.Reference,
		Dimensions: e.Request.Dimensions, Group: e.Request.Group, Counts: e.Request.Counts, Position: at,
		Entry: row.NextEntry, CountedAt: now,
	})
	made := &d.Deductions[len(d.Deductions)-1]
	if e.Request.HoldTTL > 0 {
		made.State, made.HoldUntil = StateHeld, now.Add(time.Duration(e.Request.HoldTTL)*time.Millisecond)
		row.Held += e.Amount
	} else {
		row.Used += e.Amount
	}
	if e.Request.At > 0 {
		made.CountedAt = time.UnixMilli(e.Request.At).UTC() // its limits were counted then
	}
	row.NextEntry++
	remember(made)
	d.Outcomes = append(d.Outcomes, Outcome{Position: at, Deduction: made, Limits: verdict.States})
}

// CloseAmount returns what a closing epoch gives back: SQL's own O. close is the entry that follows
// the drained position; missing is the sum of the grants that SQL made and the log never saw arrive.
// The store's balance only has to agree: O must equal it plus missing, otherwise *Mismatch, and the
// epoch must be fenced and recovered (DESIGN 6, offline). ErrEnded when the epoch has ended already.
func CloseAmount(row Epoch, close Entry, missing int64) (int64, error) {
	switch {
	case row.Status == Closed || row.Status == Lost:
		return 0, ErrEnded
	case row.Fenced != "":
		return 0, ErrFenced
	case row.Status != Closing:
		return 0, mismatch("a close entry in an epoch that is %s", row.Status)
	case close.Seq != row.DrainedSeq+1 || close.Chain != Chain(row.DrainedChain, close.Line):
		return 0, mismatch("the close entry %d does not follow entry %d", close.Seq, row.DrainedSeq)
	case safeguard.Off(safeguard.CloseAmount):
		return close.Amount + missing, nil
	case close.Amount+missing != row.Outstanding:
		return 0, mismatch("the store closed with %d and %d never arrived, but %d are outstanding",
			close.Amount, missing, row.Outstanding)
	}
	return row.Outstanding, nil
}
