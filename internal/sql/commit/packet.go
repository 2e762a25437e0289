package commit

import (
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// A packet fails by violating a constraint, which ends it before its COMMIT: a duplicate key for a
// row that exists, an outstanding_quantity or a version that a CHECK forbids, or NULL in a NOT NULL
// column.
const (
	// orClosed sets the state of a closed group to NULL, which the column forbids.
	orClosed = ` ON DUPLICATE KEY UPDATE state = IF(state = 'open', state, NULL)`
	// orChanged sets the version of a limit row that has changed since it was read to 0, which a
	// CHECK forbids.
	orChanged = ` ON DUPLICATE KEY UPDATE version = IF(version = VALUES(version) - 1,
		VALUES(version), 0), counts = VALUES(counts), expires_ms = VALUES(expires_ms)`
	// takes is the condition under which units may be taken from an epoch. SYSDATE is the clock
	// once the row is locked; NOW would be the clock before the wait.
	takes = `e.status = 'open' AND LENGTH(e.halted) = 0 AND (e.period_end_ms = 0 OR
		e.period_end_ms > UNIX_TIMESTAMP(SYSDATE(6)) * 1000) AND e.definition_version <= `
	// most closes LEAST: S and H of an unlimited budget stop at budget.MaxAmount.
	most = `, 9007199254740991)`
)

// packet writes the accepted operations as one packet. ok is false if it would be too long.
func (t *trial) packet(conn *engine.PacketConn) (packet *engine.Statement, ok bool) {
	packet = conn.Statement()
	packet.SQL("ROLLBACK;")
	begin := func(into, or string, rows int) *engine.Inserting {
		return conn.Inserting(packet, into, or, rows)
	}
	existing, added := t.limits.close()
	for _, err := range []error{
		t.insertRows(begin),
		t.insertGroups(begin, t.joinedGroups(), orClosed),
		t.insertLimitRows(begin, existing, orChanged),
		t.insertLimitRows(begin, added, ""),
	} {
		if err != nil {
			return nil, false
		}
	}
	states := t.taken()
	takeAll(packet, states)
	t.feedAll(packet, states)
	selectLeft(packet, states)
	packet.SQL("COMMIT")
	return packet, packet.Len() <= engine.MostPacket
}

// takeAll adds the conditional UPDATE of the epochs. It sets O to -1, which a CHECK forbids, where
// units may not be taken.
func takeAll(packet *engine.Statement, states []*bucketState) {
	if len(states) == 1 {
		s := states[0]
		packet.SQL("UPDATE bucket_epoch e SET e.outstanding_quantity = IF(" + takes)
		packet.Number(s.judged)
		packet.SQL(", e.outstanding_quantity - ")
		packet.Number(s.drawn())
		packet.SQL(", -1), e.used_quantity = LEAST(e.used_quantity + ")
		packet.Number(s.used)
		packet.SQL(most + ", e.held_quantity = LEAST(e.held_quantity + ")
		packet.Number(s.held)
		packet.SQL(most + ", e.next_entry = e.next_entry + ")
		packet.Number(s.entries)
		packet.SQL(" WHERE e.bucket_id = ")
		packet.Number(s.epoch.Bucket)
		packet.SQL(" AND e.epoch = ")
		packet.Number(s.epoch.Number)
		packet.SQL(";")
		return
	}
	packet.SQL("UPDATE (")
	for i, s := range states {
		packet.SQL(listSeparator(packet, i))
		for j, n := range [...]int64{s.epoch.Bucket, s.epoch.Number, s.judged, s.drawn(), s.used,
			s.held, s.entries} {
			if j > 0 {
				packet.SQL(",")
			}
			packet.Number(n)
			if i == 0 {
				packet.SQL([...]string{" AS b", " AS n", " AS v", " AS d", " AS u", " AS h",
					" AS c"}[j])
			}
		}
	}
	if packet.ListsValues() {
		packet.SQL(")")
	}
	packet.SQL(`) v /*in order*/ JOIN bucket_epoch e /*by PRIMARY*/ ON e.bucket_id = v.b
		AND e.epoch = v.n SET e.outstanding_quantity = IF(` + takes + `v.v,
		e.outstanding_quantity - v.d, -1), e.used_quantity = LEAST(e.used_quantity + v.u` +
		most + `, e.held_quantity = LEAST(e.held_quantity + v.h` + most +
		`, e.next_entry = e.next_entry + v.c;`)
}

// listSeparator returns the text before the i-th element of a list of constants.
func listSeparator(s *engine.Statement, i int) string {
	switch {
	case i == 0:
		return "SELECT "
	case !s.ListsValues():
		return " UNION ALL SELECT "
	case i == 1:
		return " UNION ALL VALUES ("
	}
	return "),("
}

// drawn returns the units taken from O.
func (s *bucketState) drawn() int64 {
	if s.unlimited {
		return 0
	}
	return s.used + s.held
}

// feedAll adds the feed rows, with the numbers that the UPDATE of the epochs reserved. The number
// of a missing epoch is NULL, which the column forbids.
func (t *trial) feedAll(packet *engine.Statement, states []*bucketState) {
	packet.SQL(insertFeed + " SELECT v.b, e.next_entry - v.c, v.c, v.u, v.x, ")
	packet.Number(t.nowMS)
	packet.SQL(" FROM (")
	for i, s := range states {
		packet.SQL(listSeparator(packet, i))
		for j, n := range [...]int64{s.epoch.Bucket, s.epoch.Number, s.entries, s.used + s.held} {
			packet.Number(n)
			if i == 0 {
				packet.SQL([...]string{" AS b", " AS n", " AS c", " AS u"}[j])
			}
			packet.SQL(",")
		}
		packet.Bytes(string(s.body))
		if i == 0 {
			packet.SQL(" AS x")
		}
	}
	if packet.ListsValues() && len(states) > 1 {
		packet.SQL(")")
	}
	packet.SQL(`) v LEFT JOIN bucket_epoch e /*by PRIMARY*/ ON e.bucket_id = v.b
		AND e.epoch = v.n;`)
}

// selectLeft adds the SELECT of what the epochs hold now.
func selectLeft(packet *engine.Statement, states []*bucketState) {
	packet.SQL("SELECT e.bucket_id, e.outstanding_quantity FROM bucket_epoch e WHERE ")
	keys := make([][]any, len(states))
	for i, s := range states {
		keys[i] = []any{s.epoch.Bucket, s.epoch.Number}
	}
	packet.Tuples([]string{"e.bucket_id", "e.epoch"}, keys)
	packet.SQL(";")
}
