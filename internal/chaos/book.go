package chaos

import (
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
)

// record is what callers know of one request id. It belongs to one goroutine at a time.
type record struct {
	id     string
	amount int64
	key    string
	// user is the user of the request if its budget has a limit; "" otherwise.
	user string
	// accepted means that an answer said so, or that a cancel found the deduction; bucket is where.
	accepted bool
	bucket   string
	// open means that an attempt had no certain outcome, and nothing has settled it since.
	open bool
	// cancel is the progress of a cancel.
	cancel cancelled
	// parts are the requested rollbacks by id; "" is the whole.
	parts map[string]*part
}

type cancelled int

const (
	notCancelled cancelled = iota
	cancelOpen             // asked for, no certain answer
	cancelVoid             // it never happened and never will
	cancelBack             // what it had taken was given back
)

// part is a rollback: done, refused (neither) or open.
type part struct {
	amount     int64 // 0: the whole
	done, open bool
}

// returned returns how much callers were told was given back.
func (r *record) returned() (units int64) {
	if r.cancel == cancelBack {
		return r.amount
	}
	for _, p := range r.parts {
		switch {
		case p.done && p.amount == 0:
			return r.amount
		case p.done:
			units += p.amount
		}
	}
	return units
}

// settled reports whether nothing about the id is open.
func (r *record) settled() bool {
	if r.open || r.cancel == cancelOpen {
		return false
	}
	for _, p := range r.parts {
		if p.open {
			return false
		}
	}
	return true
}

// dimensions returns the dimensions of its requests.
func (r *record) dimensions() map[string]string {
	if r.user == "" {
		return nil
	}
	return map[string]string{"user": r.user}
}

// adjustment is an append or, negative, a shrink.
type adjustment struct {
	id         string
	quantity   int64
	done, open bool
}

// book is what callers were told about one budget. Its maps are safe for concurrent use, the
// records in them are not.
type book struct {
	name  string
	store bool // durability "store"
	first int64
	// plenty marks a budget that cannot run out, so that every refusal is wrong.
	plenty bool
	// limited marks a budget where each user may take perMinute units a minute.
	limited bool
	// releases counts releases from quarantine.
	releases int

	mu          sync.Mutex
	records     map[string]*record
	adjustments map[string]*adjustment
	// wrong lists answers that no correct service gives.
	wrong []string
}

func newBook(name string, total int64) *book {
	return &book{name: name, first: total, records: map[string]*record{},
		adjustments: map[string]*adjustment{}}
}

// add adds the record of a new id.
func (b *book) add(id string, amount int64, key string) *record {
	r := &record{id: id, amount: amount, key: key, parts: map[string]*part{}}
	if b.limited {
		const users = 4
		h := fnv.New32a()
		_, _ = h.Write([]byte(id))
		r.user = fmt.Sprint("u", h.Sum32()%users)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.records[id] = r
	return r
}

func (b *book) adjust(id string, quantity int64) *adjustment {
	a := &adjustment{id: id, quantity: quantity}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.adjustments[id] = a
	return a
}

// violation records an answer that no correct service gives.
func (b *book) violation(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = append(b.wrong, b.name+": "+fmt.Sprintf(format, args...))
}

// total returns the budget's total according to the answers.
func (b *book) total() int64 {
	total := b.first
	for _, a := range b.adjustments {
		if a.done {
			total += a.quantity
		}
	}
	return total
}

// used returns the used units according to the answers.
func (b *book) used() (units int64) {
	for _, r := range b.records {
		if r.accepted {
			units += r.amount - r.returned()
		}
	}
	return units
}

// row is a request id in the ledger.
type row struct {
	// isVoid marks a tombstone: the id was cancelled before it had an effect.
	isVoid             bool
	amount, rolledBack int64
}

// books is one budget in the ledger.
type books struct {
	rows        map[string]row
	adjustments map[string]string // id -> status; without the creation
	// Figures of the budget's own rows.
	total, undistributed, quarantined, forfeited int64
	outstanding, held, used, returning           int64
	pendingShrink                                int64
}

// compare returns all differences between the ledger and the answers. All records must be settled.
// lost is the number of units that were acknowledged but are missing in the ledger: always 0 in
// ledger mode, at most the quarantined units in store mode.
func (b *book) compare(ledger books) (differences []string, lost int64) {
	say := func(format string, args ...any) {
		differences = append(differences, b.name+": "+fmt.Sprintf(format, args...))
	}
	var used int64
	for id, told := range b.records {
		found, has := ledger.rows[id]
		if b.store && told.accepted && !has {
			lost += told.amount - told.returned()
			continue
		}
		for _, difference := range told.compare(found, has) {
			say("%s", difference)
		}
	}
	for id, found := range ledger.rows {
		used += found.amount - found.rolledBack
		if b.records[id] == nil {
			say("the ledger has id %s, which nobody sent: %+v", id, found)
		}
	}
	if want := b.used() - lost; used != want || ledger.used != want {
		say("used: callers were told %d, rows say %d, the epochs %d (lost %d)", b.used(), used,
			ledger.used, lost)
	}
	if lost > ledger.quarantined {
		say("lost %d, quarantined %d", lost, ledger.quarantined)
	}
	b.compareTotal(ledger, say)
	slices.Sort(differences)
	return differences, lost
}

func (b *book) compareTotal(ledger books, say func(string, ...any)) {
	if ledger.total != b.total() {
		say("total: callers were told %d, the ledger has %d", b.total(), ledger.total)
	}
	for id, a := range b.adjustments {
		if done := ledger.adjustments[id] == "done"; done != a.done {
			say("adjustment %s of %d: told %t, the ledger has %q", id, a.quantity, a.done,
				ledger.adjustments[id])
		}
	}
	for id := range ledger.adjustments {
		if b.adjustments[id] == nil {
			say("the ledger has adjustment %s, which nobody sent", id)
		}
	}
	sum := ledger.undistributed + ledger.outstanding + ledger.held + ledger.used + ledger.returning +
		ledger.quarantined + ledger.forfeited
	if sum != ledger.total {
		say("total %d, its parts add up to %d: %+v", ledger.total, sum, ledger.figures())
	}
	if !b.store && ledger.quarantined != 0 {
		say("%d units are quarantined in ledger mode", ledger.quarantined)
	}
	if ledger.used+ledger.held > ledger.total {
		say("oversold: used %d, held %d, total %d", ledger.used, ledger.held, ledger.total)
	}
}

// figures returns everything but the rows.
func (l books) figures() books {
	l.rows, l.adjustments = nil, nil
	return l
}

// compare returns the differences between the ledger's row of an id and the answers.
func (r *record) compare(found row, has bool) (differences []string) {
	say := func(format string, args ...any) {
		differences = append(differences, fmt.Sprintf("id %s of %d units: ", r.id, r.amount)+
			fmt.Sprintf(format, args...)+fmt.Sprintf(" (told %+v, the ledger has %+v)", *r, found))
	}
	if !r.settled() {
		say("not settled")
		return differences
	}
	switch {
	case r.cancel == cancelVoid:
		if !has || !found.isVoid || found.amount != 0 {
			say("cancelled before it happened, and no tombstone")
		}
		return differences
	case !r.accepted:
		if has {
			say("never accepted, but there")
		}
		return differences
	case !has:
		say("accepted and not there")
		return differences
	}
	if found.amount != r.amount || found.rolledBack != r.returned() || found.isVoid {
		say("another amount, state or part given back")
	}
	return differences
}
