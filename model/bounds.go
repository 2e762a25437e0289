package main

import (
	"fmt"
	"slices"
	"strings"
)

// The modes, and how a budget starts.
const (
	ledgerMode, storeMode = "ledger", "store"

	// created is what Create leaves: everything handed out, the epochs opening, the grants pending.
	created = "created"
	// applying is a budget whose buckets are open and have applied for nothing yet.
	applying = "applying"
)

// total is the budget's total before any adjustment, in units.
const total = 3

// limitMax is how many of ids 0 and 1, which are one user's, may be deducted at a time.
const limitMax = 1

// Bounds say how much is looked at. Everything within them is looked at.
type Bounds struct {
	Mode    string
	IDs     int
	Amounts string // one digit per id
	Buckets int
	// Epochs per bucket, Grants per epoch, Length of an epoch's log with its open and its close.
	Epochs, Grants, Length int
	Faults                 int
	Kinds                  string // of faults, see fault.go
	// Attempts are the nonces per id, Nodes those that acknowledge in store mode.
	Attempts, Nodes int
	// Undo are the ids that may be rolled back or cancelled, one digit each.
	Undo           string
	Limit          bool
	Append, Shrink bool
	// Hold are the ids that are holds, one digit each.
	Hold string
	// Turn: the budget is daily, and its first period ends. Unused and Late are where unused units and
	// late refunds go then. Lag: transactions may go by a clock from before the end.
	Turn         bool
	Unused, Late string
	Lag          bool
	Start        string
	MaxStates    int
}

// defaultBounds are those of a mode that mutants start from.
func defaultBounds(mode string) Bounds {
	b := Bounds{Mode: mode, IDs: 2, Amounts: "21", Buckets: 2, Epochs: 1, Grants: 2, Length: 5,
		Faults: 1, Kinds: "restart,flush,split,down,tamper", Attempts: 1, Nodes: 2, Undo: "0",
		Unused: toTotal, Late: toTotal, Start: created, MaxStates: 100_000_000}
	if mode == storeMode {
		b.Buckets, b.Epochs, b.Kinds = 1, 2, "restart,split"
	}
	return b
}

// model is a protocol within bounds, with one safeguard taken out or none.
type model struct {
	Bounds
	mutant  mutant
	amounts [maxIDs]int8
	kinds   map[string]bool
	undo    [maxIDs]bool
	hold    [maxIDs]bool
}

func newModel(b Bounds, without mutant) (*model, error) {
	m := &model{Bounds: b, mutant: without, kinds: map[string]bool{}}
	if err := b.check(); err != nil {
		return nil, err
	}
	for id := range b.IDs {
		m.amounts[id] = int8(b.Amounts[id] - '0')
		m.hold[id] = strings.ContainsRune(b.Hold, rune('0'+id))
		m.undo[id] = strings.ContainsRune(b.Undo, rune('0'+id))
	}
	for _, kind := range strings.Split(b.Kinds, ",") {
		if !slices.Contains([]string{"", restart, flush, split, down, tamper}, kind) {
			return nil, fmt.Errorf("kind of fault %q is not known", kind)
		}
		if b.Mode == storeMode && (kind == flush || kind == down || kind == tamper) {
			return nil, fmt.Errorf("kind of fault %q is ledger mode's: see doc.go", kind)
		}
		m.kinds[kind] = true
	}
	return m, nil
}

func (b *Bounds) check() error {
	for _, figure := range []struct {
		name               string
		value, least, most int
	}{
		{"ids", b.IDs, 1, maxIDs}, {"amounts", len(b.Amounts), b.IDs, maxIDs},
		{"buckets", b.Buckets, 1, maxBuckets}, {"epochs", b.Epochs, 1, maxEpochs - 1},
		{"grants", b.Grants, 1, maxGrants}, {"log", b.Length, 4, maxLog},
		{"faults", b.Faults, 0, 100}, {"attempts", b.Attempts, 1, 2}, {"nodes", b.Nodes, 1, maxNodes},
	} {
		if figure.value < figure.least || figure.value > figure.most {
			return fmt.Errorf("%s is %d, not %d to %d", figure.name, figure.value, figure.least,
				figure.most)
		}
	}
	switch {
	case b.Mode != ledgerMode && b.Mode != storeMode:
		return fmt.Errorf("mode %q is not known", b.Mode)
	case b.Start != created && b.Start != applying:
		return fmt.Errorf("start %q is not known", b.Start)
	case strings.Trim(b.Amounts, "12") != "":
		return fmt.Errorf("amounts %q are not 1 and 2", b.Amounts)
	case b.Limit && b.Mode == storeMode:
		return fmt.Errorf("the limit is ledger mode's: see doc.go")
	case b.Turn && (b.Append || b.Shrink):
		return fmt.Errorf("a turn goes with no adjustment: see doc.go")
	case !slices.Contains(wheres, b.Unused) || !slices.Contains(wheres, b.Late):
		return fmt.Errorf("unused %q, late %q are not of %q", b.Unused, b.Late, wheres)
	}
	return nil
}

func (m *model) limited(id int8) bool  { return m.Limit && id < 2 }
func (m *model) undoable(id int8) bool { return m.undo[id] }

// home is the bucket of an id: in store mode requests never move.
func (m *model) home(id int8) int8 { return id % int8(m.Buckets) }

// start is the first state.
func (m *model) start() State {
	s := State{T: total, U: total}
	if m.Turn {
		s.U, s.books.F = quantity, total-quantity
	}
	units := s.U
	for b := range int8(m.Buckets) {
		c := &s.bucket[b]
		c.scripts, c.verified = 1, true
		c.epoch[0] = m.newEpoch(&s, 0)
		x := c.newest()
		if m.Start == applying {
			x.status = open
			x.log.append(entryOpen)
			continue
		}
		share := (units + int8(m.Buckets) - 1 - b) / int8(m.Buckets)
		s.U -= share
		x.take(share)
	}
	return s
}
