package chaos

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/budgetd/budgetd/internal/proof/auditor"
)

// record is what callers know of one request id. It belongs to one goroutine at a time.
type record struct {
	id     string
	amount int64
	key    string
	// user is the user of the request if its budget has a limit; "" otherwise.
	user string
	// accepted means that an answer said so, or that a cancel found the deduction. bucket is the
	// bucket in that answer.
	accepted bool
	bucket   string
	// open means that the outcome of an attempt is still unknown.
	open bool
	// cancel is the progress of a cancel.
	cancel cancelled
	// parts are the requested rollbacks by id; "" is the whole.
	parts map[string]*part
	// fresh counts answers that accepted the id and were no replay, unsure attempts with an unknown
	// outcome. unsureBack says that the outcome of an attempt to give units back is unknown.
	fresh, unsure int
	unsureBack    bool
	tries         int // to settle its cancel
}

// home returns the key that chooses its bucket.
func (r *record) home() string { return cmp.Or(r.user, r.key) }

type cancelled int

const (
	notCancelled cancelled = iota
	cancelOpen             // requested, outcome unknown
	cancelVoid             // the id has no effect and never will
	cancelBack             // its units were given back
)

// part is a rollback: done, open, or refused if neither.
type part struct {
	amount     int64 // 0: the whole
	done, open bool
	tries      int // to settle it
}

// returned returns how many units were given back, by the answers.
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

// settled reports whether all outcomes of the id are known.
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

// book is what callers were told about one budget. Its methods are safe for concurrent use. A
// record is not: it belongs to one goroutine at a time.
type book struct {
	name  string
	store bool // durability "store"
	first int64
	// plenty marks a budget that cannot run out, so that every refusal is wrong.
	plenty bool
	// limited marks a budget where each user may take perMinute units a minute.
	limited bool
	// releases counts releases from quarantine. lost is the number of units that the last check
	// found lost.
	releases int
	lost     int64

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
		r.key = "" // the user chooses the bucket
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

// bounds returns the fewest and the most units that can be used in store mode after a memory was
// lost. An id whose record was lost may be accepted again, and an attempt with an unknown outcome
// may have taken effect in that memory.
func (b *book) bounds() (least, most int64) {
	for _, r := range b.records {
		if r.accepted && !r.unsureBack {
			least += r.amount - r.returned()
		}
		most += max(0, r.amount*int64(r.fresh+r.unsure)-r.returned())
	}
	return least, most
}

// compare returns all differences between the accounts and the answers. All records must be
// settled. lost is the number of units that were acknowledged and are not used: always 0 in ledger
// mode, at most the quarantined units in store mode.
func (b *book) compare(found *auditor.Budget) (differences []string, lost int64) {
	say := func(format string, args ...any) {
		differences = append(differences, b.name+": "+fmt.Sprintf(format, args...))
	}
	for _, told := range b.records {
		row := found.Deductions[told.id]
		for _, difference := range told.compare(row, b.store) {
			say("%s", difference)
		}
	}
	for id, row := range found.Deductions {
		if b.records[id] == nil {
			say("the ledger has id %s, which no caller sent: %+v", id, *row)
		}
	}
	least, most := b.used(), b.used()
	if found.Lost > 0 {
		least, most = b.bounds()
		lost = max(0, least-found.Used)
	}
	switch {
	case found.Used > most || found.Used < least-lost:
		say("used: callers were told %d to %d, the epochs have %d", least, most, found.Used)
	case lost > found.Quarantined:
		say("lost %d, quarantined %d", lost, found.Quarantined)
	}
	b.compareTotal(found, say)
	slices.Sort(differences)
	return differences, lost
}

func (b *book) compareTotal(found *auditor.Budget, say func(string, ...any)) {
	if found.Total != b.total() {
		say("total: callers were told %d, the ledger has %d", b.total(), found.Total)
	}
	for id, a := range b.adjustments {
		if row := found.Adjustments[id]; row.Done != a.done {
			say("adjustment %s of %d: told %t, the ledger has %+v", id, a.quantity, a.done, row)
		}
	}
	for id := range found.Adjustments {
		if b.adjustments[id] == nil {
			say("the ledger has adjustment %s, which no caller sent", id)
		}
	}
	if !b.store && found.Quarantined != 0 {
		say("%d units are quarantined in ledger mode", found.Quarantined)
	}
}

// compare returns the differences between the ledger's row of an id and the answers. In store mode
// there are no rows.
func (r *record) compare(found *auditor.Deduction, store bool) (differences []string) {
	say := func(format string, args ...any) {
		differences = append(differences, fmt.Sprintf("id %s of %d units: ", r.id, r.amount)+
			fmt.Sprintf(format, args...)+fmt.Sprintf(" (told %+v, the ledger has %+v)", *r, found))
	}
	switch {
	case !r.settled():
		say("not settled")
	case store:
	case r.cancel == cancelVoid:
		if found == nil || !found.Void || found.Amount != 0 {
			say("cancelled before it took effect, and no tombstone")
		}
	case !r.accepted:
		if found != nil {
			say("not accepted, but in the ledger")
		}
	case found == nil:
		say("accepted, but not in the ledger")
	case found.Amount != r.amount || found.Back != r.returned() || found.Void:
		say("another amount, state or part given back")
	}
	return differences
}

// TestCompare checks that every way in which a ledger can differ from the answers is detected.
func TestCompare(t *testing.T) {
	told := func() *book {
		b := newBook("b", 100)
		b.add("plain", 5, "").accepted = true
		part2 := b.add("part", 5, "")
		part2.accepted, part2.parts["p"] = true, &part{amount: 2, done: true}
		whole := b.add("whole", 5, "")
		whole.accepted, whole.parts["p"], whole.parts[""] = true, &part{amount: 2, done: true}, &part{done: true}
		b.add("refused", 5, "")
		b.add("void", 5, "").cancel = cancelVoid
		back := b.add("back", 5, "")
		back.accepted, back.cancel = true, cancelBack
		b.adjust("more", 20).done = true
		b.adjust("less", -50)
		for _, r := range b.records {
			if r.accepted {
				r.fresh = 1
			}
		}
		return b
	}
	ledger := func() *auditor.Budget {
		return &auditor.Budget{
			Deductions: map[string]*auditor.Deduction{"plain": {Amount: 5}, "part": {Amount: 5, Back: 2},
				"whole": {Amount: 5, Back: 5}, "void": {Void: true}, "back": {Amount: 5, Back: 5}},
			Adjustments: map[string]auditor.Adjustment{"more": {Quantity: 20, Done: true}, "less": {Quantity: -50}},
			Total:       120, Undistributed: 100, Outstanding: 12, Used: 8,
		}
	}
	lost := func(b *book, l *auditor.Budget) {
		b.store, l.Deductions, l.Lost = true, nil, 1
	}
	for _, tt := range []struct {
		name   string
		change func(b *book, l *auditor.Budget)
		want   string // part of a difference; "": none
	}{
		{"nothing", func(*book, *auditor.Budget) {}, ""},
		{"an accepted id is missing", func(_ *book, l *auditor.Budget) { delete(l.Deductions, "plain") },
			"accepted, but not in the ledger"},
		{"a refused id is there", func(_ *book, l *auditor.Budget) { l.Deductions["refused"] = &auditor.Deduction{Amount: 5} },
			"not accepted, but in the ledger"},
		{"another amount", func(_ *book, l *auditor.Budget) { l.Deductions["plain"] = &auditor.Deduction{Amount: 6} },
			"another amount"},
		{"a part was not given back", func(_ *book, l *auditor.Budget) {
			l.Deductions["part"] = &auditor.Deduction{Amount: 5}
		}, "another amount"},
		{"given back twice", func(_ *book, l *auditor.Budget) { l.Deductions["part"] = &auditor.Deduction{Amount: 5, Back: 4} },
			"another amount"},
		{"a used id is a tombstone", func(_ *book, l *auditor.Budget) { l.Deductions["plain"] = &auditor.Deduction{Void: true} },
			"another amount"},
		{"a void id took effect", func(_ *book, l *auditor.Budget) { l.Deductions["void"] = &auditor.Deduction{Amount: 5} },
			"no tombstone"},
		{"a tombstone is missing", func(_ *book, l *auditor.Budget) { delete(l.Deductions, "void") }, "no tombstone"},
		{"a cancelled id is used", func(_ *book, l *auditor.Budget) { l.Deductions["back"] = &auditor.Deduction{Amount: 5} },
			"another amount"},
		{"an id that no caller sent", func(_ *book, l *auditor.Budget) { l.Deductions["x"] = &auditor.Deduction{Amount: 1} },
			"no caller sent"},
		{"more is used", func(_ *book, l *auditor.Budget) { l.Used = 9 }, "told 8 to 8"},
		{"less is used", func(_ *book, l *auditor.Budget) { l.Used = 7 }, "told 8 to 8"},
		{"the total", func(_ *book, l *auditor.Budget) { l.Total = 121 }, "callers were told 120"},
		{"an append was lost", func(_ *book, l *auditor.Budget) { l.Adjustments["more"] = auditor.Adjustment{} }, "adjustment more"},
		{"a refused shrink was done", func(_ *book, l *auditor.Budget) { l.Adjustments["less"] = auditor.Adjustment{Done: true} },
			"adjustment less"},
		{"an adjustment that no caller sent", func(_ *book, l *auditor.Budget) { l.Adjustments["x"] = auditor.Adjustment{Done: true} }, "adjustment x"},
		{"quarantine in ledger mode", func(_ *book, l *auditor.Budget) { l.Quarantined = 10 },
			"ledger mode"},
		{"not settled", func(b *book, _ *auditor.Budget) { b.records["refused"].open = true }, "not settled"},
		{"a rollback not settled", func(b *book, _ *auditor.Budget) { b.records["part"].parts["p"].open = true },
			"not settled"},
		{"store mode without rows", func(b *book, l *auditor.Budget) { b.store, l.Deductions = true, nil }, ""},
		{"store mode: nothing was lost, and less is used", func(b *book, l *auditor.Budget) {
			b.store, l.Deductions, l.Used, l.Quarantined = true, nil, 7, 5
		}, "told 8 to 8"},
		{"store mode: lost and quarantined", func(b *book, l *auditor.Budget) {
			lost(b, l)
			l.Used, l.Quarantined = 3, 5
		}, ""},
		{"store mode: more lost than quarantined", func(b *book, l *auditor.Budget) {
			lost(b, l)
			l.Used, l.Quarantined = 3, 4
		}, "lost 5, quarantined 4"},
		{"store mode: more used than attempts", func(b *book, l *auditor.Budget) {
			lost(b, l)
			l.Used = 12
		}, "told 8 to 8"},
		{"store mode: a lost id that was accepted again", func(b *book, l *auditor.Budget) {
			lost(b, l)
			b.records["plain"].fresh, l.Used = 2, 13
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, l := told(), ledger()
			tt.change(b, l)
			got, _ := b.compare(l)
			text := strings.Join(got, "\n")
			if tt.want == "" && text != "" || !strings.Contains(text, tt.want) {
				t.Errorf("differences %q, want one with %q", text, tt.want)
			}
		})
	}
}
