package auditor

import "time"

// told is what callers were told about one request id.
type told struct {
	// flying are attempts that are under way, open those whose outcome nobody knows.
	flying, open int
	// fresh counts the answers "accepted" that were no replay; accepted any of them.
	fresh    int
	accepted *Call
	// losses counts how often a promise to its callers was lost with a store.
	losses int
	// cancels counts the cancels that were sent; cancelled: one was answered, void: with void.
	cancels         int
	cancelled, void bool
	// back are the units given back by rollback id, as told, 0 for whatever was left; wild are the
	// rollbacks whose outcome is unknown.
	back map[string]int64
	wild map[string]bool
	// began is when the first attempt was sent, payload its payload; mixed: others were sent too.
	began   time.Time
	payload string
	mixed   bool
	// confirms counts the confirms of the hold that were sent; confirmed and expired: one was told so.
	confirms           int
	confirmed, expired bool
	// others are further answers "accepted" with another payload, in store mode, where a store forgets
	// an id after the record window or loses it. toldAt is when accepted was
	// told; told anew after a loss, when that was.
	others []*Call
	toldAt time.Time
	// unanswered are the attempts whose outcome nobody was told.
	unanswered []*Call
}

// Call is one deduct as a caller sees it.
type Call struct {
	Budget  int64
	ID      string
	Amount  int64
	Payload string
	Began   time.Time
	// Unsteady: the clock of the node was moved shortly before.
	Unsteady bool
	// Remembers: the node may go by a definition as old as the window, because it cannot reach the database, or could not a
	// moment ago, and the budget is in store mode.
	Remembers bool
	// Values are its dimensions, Counts its own amounts for single limits; Group is that of a hold.
	Values map[string]string
	Counts map[string]int64
	Group  string

	reached  []string // the limits that had no room for it at some moment
	nothing  bool     // it was answered as not done, or as a replay
	least    int64    // of what was available during the call
	recorded Row
	known    bool // the id had a row when the call began
	void     bool // a cancel had been told void by then
	owed     bool // it had been told accepted by then, and was not lost
}

// Answer is what a deduct was told. Code is "" for accepted.
type Answer struct {
	Code     string
	Replayed bool
	Amount   int64
	ID       string
	// Limit names the one that refused it.
	Limit string
	// Bucket, Epoch and Seq are where its receipt says that it is.
	Bucket, Epoch, Seq int64
}

func (b *books) of(id string) *told {
	t := b.told[id]
	if t == nil {
		t = &told{back: map[string]int64{}, wild: map[string]bool{}}
		b.told[id] = t
	}
	return t
}

// Began notes that a deduct is sent.
func (a *Auditor) Began(c *Call) {
	row, known := a.Row(c.Budget, c.ID)
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.of(c.Budget)
	t := b.of(c.ID)
	if known && t.open == 0 && t.flying == 0 && t.accepted == nil && t.cancels == 0 {
		a.note("I6: id %q is in the ledger although every attempt was answered as not done", c.ID)
	}
	if t.began.IsZero() {
		t.began, t.payload = c.Began, c.Payload
	}
	t.mixed = t.mixed || t.payload != c.Payload
	t.flying++
	c.owed = b.owes(c.ID)
	c.recorded, c.known, c.void, c.least = row, known, t.void, b.available
	b.asking[c] = struct{}{}
	b.reached(c)
	b.trying(c)
}

// Ended notes what a deduct was told, at now.
func (a *Auditor) Ended(c *Call, got Answer, now time.Time) {
	row, known := a.Row(c.Budget, c.ID)
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.of(c.Budget)
	t := b.of(c.ID)
	delete(b.asking, c)
	switch got.Code {
	case "outcome_unknown":
		t.open++
		t.unanswered = append(t.unanswered, c)
	case "":
		if b.store {
			a.acceptedInStore(b, t, c, got, row, known, now)
		} else {
			a.accepted(b, t, c, got, row, known, now)
		}
	case "request_conflict":
		if (!known || row.State == "void" || row.Payload == c.Payload) && !(b.store && t.mixed) {
			a.note("I4: id %q: conflict, and no other payload is in the ledger", c.ID)
		}
	case "request_void":
		if (!known || row.State != "void") && !(b.store && t.cancels > 0) { // a store's record may be first
			a.note("I4: id %q: void, and the ledger has no tombstone", c.ID)
		}
	case "budget_exhausted":
		a.refusals++
		if c.least >= c.Amount {
			a.note("I3: id %q: budget %d refused %d as exhausted at %s, and never had less than %d since %s",
				c.ID, c.Budget, c.Amount, now.Format(clock), c.least, c.Began.Format(clock))
		}
		a.refused(b, t, c, got.Code, row, known)
	case "limit_exceeded":
		a.limited(b, c, got)
		a.refused(b, t, c, got.Code, row, known)
	case "group_closed":
		if b.store || !b.groups[c.Group] {
			a.note("I6: id %q: the group %q takes no hold, and nobody closed it", c.ID, c.Group)
		}
		a.refused(b, t, c, got.Code, row, known)
	case "budget_paused", "unavailable":
		a.refused(b, t, c, got.Code, row, known)
	default:
		a.note("id %q: answered %q", c.ID, got.Code)
	}
	t.flying--
	c.nothing = got.Code != "outcome_unknown" && (got.Code != "" || got.Replayed)
}

const clock = "15:04:05.000000000"

// rememberedFor is the window's time, by which a node in store mode goes on without the database.
const rememberedFor = 5 * time.Second

// accepted looks into an answer "accepted". a.mu is held.
func (a *Auditor) accepted(b *books, t *told, c *Call, got Answer, row Row, known bool, now time.Time) {
	switch {
	case got.ID != c.ID || got.Amount != c.Amount:
		a.note("I4: id %q asked for %d and was told %q accepted with %d", c.ID, c.Amount, got.ID, got.Amount)
	case !known || row.State == "void" || row.Amount != c.Amount || row.Payload != c.Payload:
		a.note("I7: id %q was told accepted with %d and payload %q, the ledger has %+v", c.ID, c.Amount,
			c.Payload, row)
	case c.void:
		a.note("I4: id %q was told accepted after a cancel of it was told void", c.ID)
	case t.accepted != nil && t.accepted.Payload != c.Payload:
		a.note("I4: id %q was told accepted with %q and with %q", c.ID, t.accepted.Payload, c.Payload)
	}
	if t.accepted == nil {
		t.accepted, t.toldAt = c, now
	}
	if got.Replayed {
		return
	}
	if t.fresh++; t.fresh > 1 || c.known {
		a.note("I4: id %q was told accepted, and not as a replay, for the second time", c.ID)
	}
	a.inForce(b, c)
}

// inForce looks into a fresh "accepted" of a budget that may be paused. a.mu is held.
func (a *Auditor) inForce(b *books, c *Call) {
	settle := time.Second // I8
	if c.Remembers {
		settle += rememberedFor
	}
	if !b.paused.IsZero() && !c.Unsteady && c.Began.Sub(b.paused) > settle {
		a.note("I8: id %q was accepted although the budget had been paused at %s, call of %s", c.ID,
			b.paused.Format(clock), c.Began.Format(clock))
	}
}

// refused looks into an answer that says that the attempt changed nothing; one that depends on the
// budget's state must not hide what is recorded of the id. a.mu is held.
func (a *Auditor) refused(b *books, t *told, c *Call, code string, row Row, known bool) {
	if c.known && c.recorded.State != "void" && c.recorded.Payload == c.Payload && code != "unavailable" {
		a.note("I4: id %q is in the ledger since before the call, and was answered %q", c.ID, code)
	}
	if c.owed && b.owes(c.ID) && t.accepted.Payload == c.Payload && code != "unavailable" {
		a.note("I4: id %q was told accepted before the call, and was answered %q", c.ID, code)
	}
	if known && !c.known && t.open == 0 && t.flying == 1 && t.accepted == nil && t.cancels == 0 {
		a.note("I6: id %q was told that nothing happened, and the ledger has %+v", c.ID, row)
	}
}

// Cancelling notes that a cancel is sent, Cancelled what it was told: the state that the id is in.
func (a *Auditor) Cancelling(budget int64, id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of(budget).of(id).cancels++
}

// Cancelled notes that a cancel was answered.
func (a *Auditor) Cancelled(budget int64, id, state string) {
	row, known := a.Row(budget, id)
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.of(budget)
	t := b.of(id)
	switch {
	case !known || row.State != state || state == "used":
		a.note("I4: id %q: a cancel was told %q, the ledger has %+v", id, state, row)
	case state == "void":
		t.void = true
		if t.accepted != nil && !b.lost(id) {
			a.note("I4: id %q was accepted and then told void", id)
		}
	case row.RolledBack != row.Amount:
		a.note("I5: id %q was cancelled, %d of %d were given back", id, row.RolledBack, row.Amount)
	}
	t.open, t.cancelled = 0, true // whatever was open has no effect any more
}

// RolledBack notes what a rollback was told. code "" is done: by is the sum given back by then, as
// told. began is when it was sent.
func (a *Auditor) RolledBack(budget int64, id, rollbackID, code string, asked, by int64, began time.Time) {
	row, known := a.Row(budget, id)
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.of(budget)
	t := b.of(id)
	if code == "deduction_not_found" && t.accepted != nil && t.toldAt.Before(began) && !b.lost(id) {
		a.note("I5: id %q was accepted, and a rollback %q sent later did not find it", id, rollbackID)
	}
	switch code {
	case "outcome_unknown":
		t.wild[rollbackID] = true
		return
	case "unavailable":
		return
	}
	if code == "" || a.settled {
		delete(t.wild, rollbackID)
	}
	if code != "" {
		return // it says nothing of an earlier attempt that was not answered
	}
	if !known || by > row.RolledBack || by < asked {
		a.note("I5: id %q: rollback %q of %d was told that %d are given back, the ledger has %+v", id,
			rollbackID, asked, by, row)
	}
	t.back[rollbackID] = asked
}

// Paused notes that a pause was told done at that moment; the zero time that it may be over.
func (a *Auditor) Paused(budget int64, since time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of(budget).paused = since
}

// Adjusted notes what an append or a shrink was told. Code "" is done.
func (a *Auditor) Adjusted(budget int64, id, code string, quantity int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.of(budget)
	switch {
	case code == "outcome_unknown":
		if !b.done[id] {
			b.unsure[id] = quantity
		}
	case code == "unavailable":
	case code == "":
		delete(b.unsure, id)
		if !b.done[id] {
			b.done[id] = true
			b.adjusted += quantity
		}
	default: // refused: this attempt; an earlier one that was not answered may still run
		if a.settled {
			delete(b.unsure, id)
		}
		if b.done[id] {
			a.note("adjustment %q of budget %d was done and then answered %q", id, budget, code)
		}
	}
}
