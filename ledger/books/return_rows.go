package books

import (
	"cmp"
	"fmt"

	"github.com/budgetd/budgetd/ledger"
)

// Deduction is a row of deduction. Its hold and what came back of it change only under its lock.
type Deduction struct {
	Budget      int64   `db:"budget_id" key:""`
	RequestID   string  `db:"request_id" key:""`
	Bucket      int64   `db:"bucket_id"`
	Epoch       int64   `db:"epoch"`
	Amount      int64   `db:"amount"`
	Fingerprint string  `db:"fingerprint"`
	Nonce       string  `db:"nonce"`
	CountedAt   int64   `db:"counted_at"`
	Note        *string `db:"note"`
}

// Hold is a row of hold.
type Hold struct {
	Budget    int64   `db:"budget_id" key:""`
	RequestID string  `db:"request_id" key:""`
	State     Word    `db:"state"`
	Group     *string `db:"hold_group"`
	UntilMS   int64   `db:"hold_until_ms"`
	DueMS     *int64  `db:"due_ms"`
	Confirmed int64   `db:"confirmed"`
	Bucket    int64   `db:"bucket_id"`
	Epoch     int64   `db:"epoch"`
	Above     Word    `db:"above"`
	ExpiresAs Word    `db:"expires_as"`
	Expired   int64   `db:"expired"`
	// Extra and Uncollected are those of ledger.Deduction.
	Extra       int64 `db:"extra"`
	Uncollected int64 `db:"uncollected"`
	OverLimit   int64 `db:"over_limit"`
	Late        int64 `db:"late"`
	// Used and Asked are those of ledger.Deduction.
	Used  int64 `db:"used"`
	Asked int64 `db:"asked"`
	// Step and the next ones are those of the last renewal.
	Step      int64  `db:"step"`
	StepPrint string `db:"step_print"`
	StepUsed  int64  `db:"step_used"`
	StepHeld  int64  `db:"step_held"`
	IsFinal   int64  `db:"step_final"`
}

// ExtraID identifies a row of extra.
type ExtraID struct {
	ID
	Number int64
}

// Extra is a row of extra. It changes only under the lock of its deduction.
type Extra struct {
	Budget    int64  `db:"budget_id" key:""`
	RequestID string `db:"request_id" key:""`
	Number    int64  `db:"number" key:""`
	Bucket    int64  `db:"bucket_id"`
	Epoch     int64  `db:"epoch"`
	Amount    int64  `db:"amount"`
	Back      int64  `db:"back_quantity"`
	Used      int64  `db:"used_quantity"`
	Late      int64  `db:"is_late"`
	CreatedAt int64  `db:"created_at"`
}

// Value is a row of deduction_value.
type Value struct {
	Budget    int64  `db:"budget_id" key:""`
	Dimension string `db:"dimension" key:""`
	Value     string `db:"value" key:""`
	CountedAt int64  `db:"counted_at" key:""`
	RequestID string `db:"request_id" key:""`
}

// Group is a row of group_of_holds.
type Group struct {
	Budget    int64  `db:"budget_id" key:""`
	Name      string `db:"hold_group" key:""`
	State     Word   `db:"state"`
	CreatedAt int64  `db:"created_at"`
}

// BackID identifies a return: the rows of give_back that have these columns. Kind is a
// ledger.FeedKind.
type BackID struct {
	ID
	Kind       Word
	RollbackID string
}

// PartID identifies a row of give_back: the part of a return that one extra gave back, or for 0
// what the deduction took first.
type PartID struct {
	BackID
	Number int64
}

// GiveBack is a row of give_back.
type GiveBack struct {
	Budget     int64  `db:"budget_id" key:""`
	RequestID  string `db:"request_id" key:""`
	Kind       Word   `db:"kind" key:""`
	RollbackID string `db:"rollback_id" key:""`
	Number     int64  `db:"number" key:""`
	Amount     int64  `db:"amount"`
	IsWhole    int64  `db:"is_whole"`
	IsDirect   int64  `db:"is_direct"`
	Bucket     int64  `db:"bucket_id"`
	Epoch      int64  `db:"epoch"`
	CreatedAt  int64  `db:"created_at"`
}

// CounterID identifies a row of limit_counter. Dimension is that of the limits, as in the
// definition if it is a combined one; Value is limit.Charge.Key.
type CounterID struct {
	Budget           int64
	Dimension, Value string
}

// Compare orders keys as rows are locked.
func (k CounterID) Compare(o CounterID) int {
	return cmp.Or(cmp.Compare(k.Budget, o.Budget), cmp.Compare(k.Dimension, o.Dimension),
		cmp.Compare(k.Value, o.Value))
}

// Counter is a row of limit_counter. Version increases by one with each write.
type Counter struct {
	Budget    int64  `db:"budget_id" key:""`
	Dimension string `db:"dimension" key:""`
	Value     string `db:"value" key:""`
	Version   int64  `db:"version"`
	Counts    string `db:"counts"`
	ExpiresMS int64  `db:"expires_ms"`
}

// Feed is a row of feed.
type Feed struct {
	Bucket    int64  `db:"bucket_id" key:""`
	First     int64  `db:"first_entry" key:""`
	Entries   int64  `db:"entries"`
	Units     int64  `db:"units"`
	Body      string `db:"body"`
	CreatedAt int64  `db:"created_at"`
}

func (r *GiveBack) id() PartID {
	return PartID{BackID{ID{r.Budget, r.RequestID}, r.Kind, r.RollbackID}, r.Number}
}

// ID returns the deduction's id.
func (r *Deduction) ID() ID { return ID{r.Budget, r.RequestID} }

// DeductionOf returns a loaded deduction with its hold and with what came back of it: see
// Deduction.Ledger.
func (b *Books) DeductionOf(r *Deduction) (ledger.Deduction, error) {
	return r.Ledger(b.Holds.Get(r.ID()), b.Back[r.ID()])
}

// Ledger returns a deduction as the other packages know it, with its hold, if it is or was one, and
// with the units that came back. Error: its note cannot be read.
func (r *Deduction) Ledger(h *Hold, back int64) (ledger.Deduction, error) {
	d := ledger.Deduction{Budget: r.Budget, RequestID: r.RequestID, Amount: r.Amount,
		RolledBack: back, State: ledger.StateUsed, Fingerprint: r.Fingerprint, Nonce: r.Nonce,
		Bucket: r.Bucket, Epoch: r.Epoch, CountedAt: at(r.CountedAt)}
	note, readable := ledger.ReadNote(textOf(r.Note))
	if !readable {
		return d, fmt.Errorf("the note of request %q of budget %d cannot be read", r.RequestID,
			r.Budget)
	}
	d.Reference, d.Dimensions, d.Counts = note.Reference, note.Dimensions, note.Counts
	d.By, d.VoidFor = note.By, note.VoidFor
	d.Legs = note.Legs
	switch {
	case r.Bucket == 0 && d.Legs == "":
		d.State = ledger.StateVoid
	case h != nil:
		d.State = ledger.State(h.State)
		d.Confirmed, d.Used, d.Asked = h.Confirmed, h.Used, h.Asked
		d.Step, d.StepPrint, d.IsFinal = h.Step, h.StepPrint, h.IsFinal == 1
		d.StepUsed, d.StepHeld = h.StepUsed, h.StepHeld
		d.HoldUntil = at(h.UntilMS)
		d.Extra, d.Uncollected = h.Extra, h.Uncollected
		d.OverLimit, d.Late = h.OverLimit == 1, h.Late == 1
		if h.Above != Word(ledger.AboveRefuse) {
			d.Above = ledger.Above(h.Above)
		}
		if h.ExpiresAs == Word(ledger.ExpiresUsed) {
			d.ExpiresAs = ledger.ExpiresUsed
		}
		d.Expired = h.Expired
		d.Group = textOf(h.Group)
	case back == r.Amount && r.Bucket != 0:
		d.State = ledger.StateRolledBack
	}
	return d, nil
}

// checkDeductions compares what moved with its new rows: the sum of H and S of an epoch rises by
// what was deducted there, extras included, and falls by what came back. No more came back of a
// deduction than it took.
func (b *Books) checkDeductions() error {
	taken := map[Position]int64{}
	for i, g := range b.GiveBacks.now {
		if b.GiveBacks.was[i] == nil {
			taken[Position{g.Bucket, g.Epoch}] -= g.Amount
		}
	}
	extras := map[ID]int64{}
	for i, x := range b.Extras.now {
		id := ID{x.Budget, x.RequestID}
		extras[id] += x.Amount
		if b.Extras.was[i] == nil {
			taken[Position{x.Bucket, x.Epoch}] += x.Amount
		}
	}
	for i, d := range b.Deductions.now {
		if b.Back[d.ID()] > d.Amount+extras[d.ID()] {
			return fmt.Errorf("request %q of budget %d: more came back than was deducted", d.RequestID,
				d.Budget)
		}
		if d.Bucket != 0 && b.Deductions.was[i] == nil {
			taken[Position{d.Bucket, d.Epoch}] += d.Amount
		}
	}
	for i, now := range b.Epochs.now {
		units, moved := taken[now.Position()]
		delete(taken, now.Position())
		if !moved || b.isUnlimited(now.Budget) {
			continue
		}
		was := orZero(b.Epochs.was[i])
		if got := now.Held + now.Used - was.Held - was.Used; got != units {
			return fmt.Errorf("epoch %v: H and S changed by %d, their rows explain %d", now.Position(),
				got, units)
		}
	}
	for at := range taken {
		return fmt.Errorf("epoch %v has a deduction and was not loaded", at)
	}
	return nil
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
