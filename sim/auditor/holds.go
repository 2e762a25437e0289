package auditor

// hold is what the ledger's rows say of one; until 0: it is none.
type hold struct {
	until int64 // ms, as of the last row
	group string
	// ended is confirm, expire or rollback; "": it is held.
	ended string
	// byGroup: the group as a whole was rolled back.
	byGroup  bool
	returned int64 // by the end: the rest of a confirm, or all
}

// held reports whether a deduction is held.
func (c *counted) held() bool { return c.hold.until != 0 && c.hold.ended == "" }

// moved takes a row about a deduction: a hold ends once, in one way, confirmed before its time is up and
// expired after; nothing gives back more than is left. a.mu is held.
func (a *Auditor) moved(budget int64, c *counted, r *Fresh) {
	left := c.amount - c.back
	switch r.Kind {
	case "deduct":
		return
	case "rollback":
		if c.back += r.Amount; r.Amount > left {
			a.note("I5: budget %d: %d of %q are given back, %d were left", budget, r.Amount, c.id, left)
		}
		c.hold.byGroup = c.hold.byGroup || r.ByGroup
		if c.held() && c.back == c.amount {
			c.hold.ended = "rollback"
		}
		return
	}
	a.holdEnds++
	switch {
	case !c.held():
		a.note("I2: budget %d: a %s of %q, which is not held (%q)", budget, r.Kind, c.id, c.hold.ended)
	case r.Kind == "confirm" && r.At >= r.HoldUntil:
		a.note("I2: budget %d: %q was confirmed at %d, its time was up at %d", budget, c.id, r.At, r.HoldUntil)
	case r.Kind == "expire" && r.At < r.HoldUntil:
		a.note("I2: budget %d: %q expired at %d, its time was up at %d", budget, c.id, r.At, r.HoldUntil)
	case r.Kind == "confirm" && r.Amount+r.Returned != left, r.Kind == "expire" && r.Returned != left:
		a.note("I1: budget %d: a %s of %d of %q returns %d, %d were held", budget, r.Kind, r.Amount, c.id,
			r.Returned, left)
	}
	c.hold.ended, c.hold.returned, c.hold.until = r.Kind, r.Returned, r.HoldUntil
	c.back += r.Returned
}

// together looks at a group after a transaction: once it is confirmed or rolled back none of it is held, and
// it is not confirmed where a member has expired. Clients of the simulation confirm members of groups with
// their groups only. In store mode a late member is a hold by itself. a.mu is held.
func (a *Auditor) together(b *books, c *Columns, group string) {
	if c.StoreMode {
		return
	}
	held, closed, ends := "", "", map[string]string{}
	for _, row := range b.limits.groups[group] {
		switch {
		case row.held():
			held = row.id
		case row.hold.byGroup, row.hold.ended == "confirm":
			closed = row.id
		}
		ends[row.hold.ended] = row.id
	}
	if held != "" && closed != "" {
		a.note("I6: budget %d: group %q was closed with %q, and %q is held", c.Budget, group, closed, held)
	}
	if ends["confirm"] != "" && ends["expire"] != "" {
		a.note("I6: budget %d: group %q was confirmed with %q, and %q has expired", c.Budget, group,
			ends["confirm"], ends["expire"])
	}
}

// Settling notes that a confirm of a hold is sent, or of all holds of a group (id ""). It reports whether somebody
// has been told that the hold was accepted.
func (a *Auditor) Settling(budget int64, id, group string) (accepted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.of(budget)
	if group != "" {
		b.groups[group] = true
		return false
	}
	t := b.of(id)
	t.confirms++
	return t.accepted != nil
}

// Confirmed notes what the confirm of a hold was told: code "" is done, with what was asked for (0: the
// whole) and the row as the answer has it. accepted is what Settling said when it was sent.
func (a *Auditor) Confirmed(budget int64, id, code string, asked, confirmed int64, accepted bool) {
	row, known := a.Row(budget, id)
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.of(budget)
	t := b.of(id)
	switch code {
	case "":
		t.confirmed = true
		if !known || row.Confirmed != confirmed || asked != 0 && asked != confirmed || confirmed == 0 {
			a.note("I7: id %q: a confirm of %d was told that %d are, the ledger has %+v", id, asked, confirmed, row)
		}
	case "hold_expired":
		t.expired = true
		if !known || row.Confirmed != 0 {
			a.note("I2: id %q: a confirm was told that it has expired, the ledger has %+v", id, row)
		}
	case "deduction_not_found":
		if accepted && !b.store {
			a.note("I7: id %q was accepted, and a confirm does not find it", id)
		}
	}
}

// ended compares what callers were told of a hold with its row, when all is quiet. a.mu is held.
func (a *Auditor) ended(b *books, id string, t *told, row Row) {
	c := b.limits.rows[id]
	switch {
	case c == nil:
		return
	case c.back != row.RolledBack:
		a.note("I5: id %q: %d are given back, its rows sum up to %d", id, row.RolledBack, c.back)
	case c.held() != (row.State == "held") || (c.hold.ended == "expire") != (row.State == "expired"):
		a.note("I2: id %q is %s, by its rows %q", id, row.State, c.hold.ended)
	case (c.hold.ended == "confirm") != (row.Confirmed != 0):
		a.note("I2: id %q: %d are confirmed, by its rows %q", id, row.Confirmed, c.hold.ended)
	case t.confirmed && row.Confirmed == 0:
		a.note("I7: id %q was confirmed, the ledger has %+v", id, row)
	case t.expired && row.Confirmed != 0:
		a.note("I2: id %q was told expired, and is confirmed: %+v", id, row)
	case row.Confirmed != 0 && t.confirms == 0 && !b.groups[row.Group]:
		a.note("I2: id %q is confirmed, and nobody asked for it: %+v", id, row)
	}
}
