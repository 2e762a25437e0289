package auditor

import (
	"maps"
	"slices"
	"time"
)

// In store mode a caller is told "accepted" before the ledger has the deduction. What was told is a
// promise until then: its units must stay where they cannot be sold again, in what its epoch has
// outstanding or, once the epoch has ended, in what is in quarantine of it. A promise whose epoch has
// ended without it is lost; that is what the quarantine is for.

// promise is an answer "accepted" that the ledger does not have.
type promise struct {
	amount             int64
	bucket, epoch, seq int64
	lost               bool
}

// place is one life of a bucket.
type place struct{ bucket, epoch int64 }

// owes reports whether an id was told accepted, is not in the ledger and not lost. a.mu is held.
func (b *books) owes(id string) bool { p := b.promises[id]; return p != nil && !p.lost }

// lost reports whether an id was told accepted and was lost with its store. a.mu is held.
func (b *books) lost(id string) bool { p := b.promises[id]; return p != nil && p.lost }

// owed sums all promises. a.mu is held.
func (b *books) owed() (units int64) {
	for _, p := range b.promises {
		units += p.amount
	}
	return units
}

// kept looks, after a commit, at whether every promise is kept: what the callers were told and what the
// ledger has are together no more than the total, and no epoch's promises are more than what it has
// outstanding or in quarantine (I2). a.mu is held.
func (a *Auditor) kept(b *books, c *Columns) {
	if len(b.promises) == 0 {
		return
	}
	owed, all := map[place]int64{}, int64(0)
	maps.DeleteFunc(b.promises, func(id string, _ *promise) bool { return c.Counted(id) })
	for _, p := range b.promises {
		owed[place{p.bucket, p.epoch}] += p.amount
		all += p.amount
	}
	sold, lost, ended := int64(0), int64(0), map[place]bool{}
	for e := range c.Epochs {
		at := place{e.Bucket, e.Number}
		sold += e.Held + e.Used
		if ended[at] = !e.Live; ended[at] {
			lost += owed[at]
		}
		if owed[at] > e.Outstanding+e.Quarantined && !(ended[at] && b.pooled) {
			a.note("I2: budget %d, bucket %d, epoch %d: %d units were told accepted, %d are kept for them",
				c.Budget, e.Bucket, e.Number, owed[at], e.Outstanding+e.Quarantined)
		}
	}
	if lost > c.Quarantined {
		a.note("I2: budget %d: %d units were accepted and lost, %d are in quarantine", c.Budget, lost,
			c.Quarantined)
	}
	if sold+all > c.Total {
		a.note("I2: budget %d: %d units are used, %d more were told accepted, of a total of %d", c.Budget,
			sold, all, c.Total)
	}
	for id, p := range b.promises {
		if !p.lost && ended[place{p.bucket, p.epoch}] {
			p.lost = true
			b.of(id).losses++
		}
	}
}

// acceptedInStore looks into an answer "accepted" of a budget in store mode. Past the record window, or
// once its store was lost, an id may be accepted anew: after a loss nothing but the callers and the
// quarantine knows of it. Each loss excuses one more answer that is no replay, also when the ledger has
// counted that deduction, and the promise is gone, before its caller hears of it; and none does for a call
// that began when the ledger had the id. a.mu is held.
func (a *Auditor) acceptedInStore(b *books, t *told, c *Call, got Answer, row Row, known bool,
	now time.Time) {
	counted := known && row.State != "void"
	p := b.promises[c.ID]
	past := now.Sub(t.began) > a.RecordWindow
	anew := past || p != nil && p.lost
	switch {
	case got.ID != c.ID || got.Amount != c.Amount || got.Seq < 1:
		a.note("I4: id %q asked for %d and was told accepted: %+v", c.ID, c.Amount, got)
	case known && !counted || c.void:
		a.note("I4: id %q was told accepted after a cancel of it was told void", c.ID)
	case counted && (row.Amount != c.Amount || row.Payload != c.Payload) && !anew:
		a.note("I7: id %q was told accepted with %d and payload %q, the ledger has %+v", c.ID, c.Amount,
			c.Payload, row)
	case t.accepted != nil && t.accepted.Payload != c.Payload && !past && t.losses == 0:
		a.note("I4: id %q was told accepted with %q and with %q", c.ID, t.accepted.Payload, c.Payload)
	case !counted && p != nil && *p != (promise{c.Amount, got.Bucket, got.Epoch, got.Seq, false}) && !anew:
		a.note("I4: id %q was told accepted at %+v and at %+v", c.ID, *p, got)
	}
	if !counted {
		a.promised++
		b.promises[c.ID] = &promise{c.Amount, got.Bucket, got.Epoch, got.Seq, false}
	}
	if t.accepted == nil || !got.Replayed || p != nil && p.lost {
		t.toldAt = now // what was told before may be lost, and a rollback sent meanwhile finds nothing
	}
	switch {
	case t.accepted == nil:
		t.accepted = c
	case t.accepted.Payload != c.Payload:
		t.others = append(t.others, c)
	}
	if past { // the ledger may have what was sent first, with another payload
		t.others = append(t.others, t.unanswered...)
	}
	if got.Replayed {
		return
	}
	if t.fresh++; (t.fresh > 1+t.losses || c.known) && !past {
		a.note("I4: id %q was told accepted, and not as a replay, for the second time", c.ID)
	}
	a.inForce(b, c)
}

// matches reports whether the ledger's row is what callers were told.
func (t *told) matches(row Row) bool {
	same := func(c *Call) bool { return row.Amount == c.Amount && row.Payload == c.Payload }
	return same(t.accepted) || slices.ContainsFunc(t.others, same)
}

// Pooled notes that an operator releases units of a budget: by how many, not of which epochs.
func (a *Auditor) Pooled(budget int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of(budget).pooled = true
}

// Promised counts the answers "accepted" that were given before the ledger had it.
func (a *Auditor) Promised() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.promised
}

// Owed is what callers were told accepted of a budget and the ledger does not have: lost once
// everything is quiet.
func (a *Auditor) Owed(budget int64) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of(budget).owed()
}

// Behind lists ids that were told accepted, are not in the ledger and may still come there.
func (a *Auditor) Behind(budget int64) (ids []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.of(budget)
	for _, id := range slices.Sorted(maps.Keys(b.promises)) {
		if b.owes(id) {
			ids = append(ids, id)
		}
	}
	return ids
}
