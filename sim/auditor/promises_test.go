package auditor

import (
	"slices"
	"testing"
	"time"
)

// book is a budget in store mode with a total of 100 in one bucket, and what callers are told of "x".
type book struct {
	a    *Auditor
	rows map[string]Row
	now  time.Time
}

func newBook() *book {
	b := &book{rows: map[string]Row{}, now: time.Unix(1000, 0)}
	b.a = New(func(_ int64, id string) (Row, bool) { row, known := b.rows[id]; return row, known }, time.Hour)
	b.write(EpochColumns{Number: 1, Outstanding: 100, Live: true})
	return b
}

// write is a commit that leaves these epochs; the rest of the total is undistributed.
func (b *book) write(epochs ...EpochColumns) {
	c := Columns{Budget: 1, Total: 100, Undistributed: 100, StoreMode: true, Epochs: slices.Values(epochs),
		Buckets: slices.Values([]BucketColumns{{}}), Fresh: slices.Values([]Fresh(nil)),
		Counted: func(id string) bool { row, known := b.rows[id]; return known && row.State != "void" }}
	for _, e := range epochs {
		c.Quarantined += e.Quarantined
		c.Undistributed -= e.Quarantined + e.Outstanding + e.Used
	}
	b.a.Written(c)
}

// lose ends the first epoch with all that it has in quarantine, and begins the second.
func (b *book) lose() {
	b.write(EpochColumns{Number: 1, Quarantined: 60}, EpochColumns{Number: 2, Outstanding: 40, Live: true})
}

// count brings 3 units for "x" into the ledger, in the second epoch.
func (b *book) count() {
	b.rows["x"] = Row{ID: "x", State: "used", Payload: "p", Amount: 3, Epoch: 2, Seq: 1}
	b.write(EpochColumns{Number: 1, Quarantined: 60},
		EpochColumns{Number: 2, Outstanding: 37, Used: 3, Live: true})
}

// ask begins a call and returns how it ends: accepted in an epoch.
func (b *book) ask(payload string) func(epoch int64, replayed bool) {
	c := &Call{Budget: 1, ID: "x", Amount: 3, Payload: payload, Began: b.now}
	b.a.Began(c)
	return func(epoch int64, replayed bool) {
		b.a.Ended(c, Answer{ID: "x", Amount: 3, Epoch: epoch, Seq: 1, Replayed: replayed}, b.now)
	}
}

// TestAcceptedAnew: an id that was lost with its store may be accepted anew, once for each loss, also
// when the ledger has it before its caller; and neither without a loss nor after the ledger had it.
func TestAcceptedAnew(t *testing.T) {
	for _, test := range []struct {
		name   string
		story  func(b *book)
		faults int
	}{
		{"lost, then counted before it is told", func(b *book) {
			b.ask("p")(1, false)
			b.lose()
			end := b.ask("p")
			b.count()
			end(2, false)
			b.ask("p")(2, true)
		}, 0},
		{"lost, then told before it is counted", func(b *book) {
			b.ask("p")(1, false)
			b.lose()
			b.ask("p")(2, false)
			b.count()
		}, 0},
		{"lost, then accepted with another payload", func(b *book) {
			b.ask("q")(1, false)
			b.lose()
			end := b.ask("p")
			b.count()
			end(2, false)
		}, 0},
		{"twice after one loss", func(b *book) {
			b.ask("p")(1, false)
			b.lose()
			first, second := b.ask("p"), b.ask("p")
			b.count()
			first(2, false)
			second(2, false)
		}, 1},
		{"after the ledger had it", func(b *book) {
			b.ask("p")(1, false)
			b.lose()
			b.count()
			b.ask("p")(2, false)
		}, 1},
		{"without a loss", func(b *book) {
			b.ask("p")(1, false)
			b.ask("p")(1, false)
		}, 1},
		{"with another payload, without a loss", func(b *book) {
			b.ask("q")(1, false)
			b.ask("p")(1, true)
		}, 1},
		{"after the record window", func(b *book) {
			b.ask("p")(1, false)
			b.now = b.now.Add(2 * time.Hour)
			b.ask("p")(1, false)
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBook()
			test.story(b)
			if got := b.a.Faults(); len(got) != test.faults {
				t.Errorf("%d faults, want %d: %q", len(got), test.faults, got)
			}
		})
	}
}

// TestRollbackThatFindsNothing: one that was sent after "accepted" finds the deduction, unless that was lost with
// its store; that it was accepted anew later does not count against a rollback sent before.
func TestRollbackThatFindsNothing(t *testing.T) {
	for _, test := range []struct {
		name   string
		story  func(b *book) (sent time.Time)
		faults int
	}{
		{"sent after it was told", func(b *book) time.Time {
			b.ask("p")(1, false)
			return b.later()
		}, 1},
		{"sent before it was told", func(b *book) time.Time {
			sent := b.now
			b.later()
			b.ask("p")(1, false)
			return sent
		}, 0},
		{"lost", func(b *book) time.Time {
			b.ask("p")(1, false)
			b.lose()
			return b.later()
		}, 0},
		{"lost, then accepted anew while it was under way", func(b *book) time.Time {
			b.ask("p")(1, false)
			b.lose()
			sent := b.later()
			b.later()
			b.ask("p")(2, false)
			return sent
		}, 0},
		{"lost, accepted anew, then sent", func(b *book) time.Time {
			b.ask("p")(1, false)
			b.lose()
			b.ask("p")(2, false)
			return b.later()
		}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBook()
			sent := test.story(b)
			b.a.RolledBack(1, "x", "back", "deduction_not_found", 0, 0, sent)
			if got := b.a.Faults(); len(got) != test.faults {
				t.Errorf("%d faults, want %d: %q", len(got), test.faults, got)
			}
		})
	}
}

// later lets a second pass.
func (b *book) later() time.Time {
	b.now = b.now.Add(time.Second)
	return b.now
}

// TestAcceptedWhilePaused: a pause holds within a second; on a node that goes on without the database, in store mode,
// within the window's time more.
func TestAcceptedWhilePaused(t *testing.T) {
	for _, test := range []struct {
		name      string
		after     time.Duration
		remembers bool
		faults    int
	}{
		{"within a second", time.Second, false, 0},
		{"after a second", time.Second + 1, false, 1},
		{"within the window, without the database", time.Second + rememberedFor, true, 0},
		{"after the window, without the database", time.Second + rememberedFor + 1, true, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBook()
			b.a.Paused(1, b.now)
			c := &Call{Budget: 1, ID: "x", Amount: 3, Payload: "p", Began: b.now.Add(test.after), Remembers: test.remembers}
			b.a.Began(c)
			b.a.Ended(c, Answer{ID: "x", Amount: 3, Epoch: 1, Seq: 1}, c.Began)
			if got := b.a.Faults(); len(got) != test.faults {
				t.Errorf("%d faults, want %d: %q", len(got), test.faults, got)
			}
		})
	}
}
