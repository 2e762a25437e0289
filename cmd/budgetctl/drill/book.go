package drill

import (
	"fmt"
	"sync"

	"github.com/budgetd/budgetd/client"
)

// order is one request id and what the answers said about it.
type order struct {
	amount   int64
	accepted bool
	open     bool // sent, with an outcome that is not known yet
}

// tally counts answers, and orders without one.
type tally struct {
	accepted, refused, notNow int // answers; notNow changed nothing and is repeated
	unclear, settled          int // orders that lost an answer, and those of them that are known now
}

// book records the answers about one budget. It is safe for concurrent use.
type book struct {
	name  string
	store bool // whether the durability is "store"

	mu     sync.Mutex
	orders map[string]*order
	tally  tally
	total  int64
	units  int64 // accepted
	// twice bounds the units that may have been taken twice: those of ids that were repeated after
	// a Redis of store mode had lost its record of them.
	twice int64
	wrong []string // answers that no correct service gives
}

func (b *book) open(id string, amount int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.orders[id] = &order{amount: amount, open: true}
}

// close records the outcome of an order. unclear is how many calls had no answer; again bounds the
// attempts after the first.
func (b *book) close(id string, accepted bool, unclear, again int, memoryLost bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.orders[id]
	o.open, o.accepted = false, accepted
	if accepted {
		b.tally.accepted++
		b.units += o.amount
	} else {
		b.tally.refused++
	}
	if unclear > 0 {
		b.tally.settled++
	}
	if memoryLost && b.store {
		b.twice += o.amount * int64(again)
	}
}

func (b *book) count(change func(*tally)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.tally)
}

func (b *book) complain(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
}

func (b *book) read() (tally, int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tally, b.units
}

// compare returns every contradiction between the book and the service's audit and ledger. Call it
// when all callers have stopped and the budget is sold out. In ledger mode, ledger has what each
// request id has taken.
func (b *book) compare(audit *client.AuditReport, ledger map[string]int64) (wrong []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for _, text := range b.wrong {
		say("%s", text)
	}
	for _, d := range audit.Discrepancies {
		say("the audit found %+v", d)
	}
	if !audit.OK || len(audit.Unchecked) > 0 {
		say("the audit is not complete and clean: ok %t, unchecked %v", audit.OK, audit.Unchecked)
	}
	left := client.Units(audit.Undistributed) + client.Units(audit.NotFunded) + audit.InTransit +
		client.Units(audit.InBuckets)
	total := client.Units(audit.Total)
	if total != b.total {
		say("the total is %d units, and should be %d", total, b.total)
	}
	sum := left + audit.Held + audit.Used + audit.Quarantined + audit.Forfeited +
		audit.WithChildren
	if sum != total {
		say("the audit's parts make %d of %d units", sum, total)
	}
	if left != 0 {
		say("an answer said \"sold out\" while %d units were left", left)
	}
	for id, o := range b.orders {
		if o.open {
			say("%s: its outcome is unknown", id)
		}
	}
	lost, extra := max(0, b.units-audit.Used), max(0, audit.Used-b.units)
	switch {
	case !b.store && audit.Used != b.units:
		say("by the answers %d units are used, by the service %d", b.units, audit.Used)
	case lost > audit.Quarantined:
		say("%d accepted units are neither used nor quarantined",
			lost-audit.Quarantined)
	case extra > b.twice:
		say("%d units are used that no answer accounts for", extra-b.twice)
	}
	if !b.store {
		b.compareIDs(audit, ledger, say)
	}
	return wrong
}

// compareIDs compares the ledger with the book, id by id. The caller holds b.mu.
func (b *book) compareIDs(
	audit *client.AuditReport, ledger map[string]int64, say func(string, ...any),
) {
	if audit.Quarantined != 0 {
		say("%d units are quarantined in ledger mode", audit.Quarantined)
	}
	for id, o := range b.orders {
		told := int64(0)
		if o.accepted {
			told = o.amount
		}
		if ledger[id] != told {
			say("%s: the caller was told %d units, the ledger has %d", id, told, ledger[id])
		}
	}
	for id, taken := range ledger {
		if b.orders[id] == nil {
			say("%s: the ledger has %d units of an id that was never sent", id, taken)
		}
	}
}
