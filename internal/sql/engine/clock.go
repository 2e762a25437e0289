package engine

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// clockSamples is the number of queries of SyncClock; the fastest answer is the most exact.
const clockSamples = 5

// selectClock reads the server's clock in microseconds since 1970. Sessions are in UTC, where no
// hour is repeated.
const (
	clockMicros = `CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)`
	selectClock = `SELECT ` + clockMicros
)

// Now returns SQL's clock in whole milliseconds, as in the tables: this machine's clock plus the
// offset that SyncClock measured last.
func (db *DB) Now() time.Time {
	return time.UnixMilli(db.clock().Add(time.Duration(db.offset.Load())).UnixMilli()).UTC()
}

// SyncClock measures the offset between the database server's clock and this machine's, to half a
// round trip. For a SQLite file the offset is 0. Call it every few minutes; on an error the last
// offset stays.
func (db *DB) SyncClock(ctx context.Context) error {
	if db.dialect.name == sqliteName {
		return nil
	}
	return db.Read(ctx, "clock", func(r *Reader) error {
		var best, offset time.Duration
		for i := range clockSamples {
			var micros int64
			began := db.clock()
			if _, err := r.Get(&micros, selectClock); err != nil {
				return err
			}
			took := db.clock().Sub(began)
			if i == 0 || took < best {
				best = took
				offset = time.UnixMicro(micros).Sub(began.Add(took / 2).Round(0))
			}
		}
		db.offset.Store(int64(offset))
		db.away.Store(int64(best))
		return nil
	})
}

// Away returns the time of a round trip to the database server, as SyncClock measured it last; 0
// for a file.
func (db *DB) Away() time.Duration { return time.Duration(db.away.Load()) }

// ToMS returns the value of a *_ms or *_at column for an instant: 0 for the zero time.
func ToMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// FromMS is the inverse of ToMS.
func FromMS(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// EndMS is ToMS for an exclusive end. The first instant of 1970 becomes one millisecond later,
// because 0 means no end.
func EndMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(t.UnixMilli(), 1)
}

// ClockMS returns SQL's present clock in ms: the server's own, or this machine's if the database is
// a file.
func (t *Tx) ClockMS() (int64, error) {
	if t.conn.dialect.name == sqliteName {
		return ToMS(t.DB.Now()), nil
	}
	var micros int64
	_, err := t.Get(&micros, selectClock)
	return micros / 1000, err
}

// CheckClock compares SQL's clock, read under the locks of the transaction, with this node's
// estimate of it: see DB.CheckClock. On a SQLite file, whose clock is this machine's, it does
// nothing.
func (t *Tx) CheckClock(op string) error {
	if t.conn.dialect.name == sqliteName {
		return nil
	}
	var micros int64
	if _, err := t.Get(&micros, selectClock); err != nil {
		return err
	}
	return t.DB.CheckClock(op, time.UnixMicro(micros))
}

// CheckClock compares SQL's clock, as it was just read under the locks of a transaction, with this
// node's estimate of it (Now). Call it before something ends permanently because of the time. It
// returns Unavailable if the two differ by more than Config.ClockTolerance.
func (db *DB) CheckClock(op string, clock time.Time) error {
	off := clock.Sub(db.Now())
	if off <= db.tolerance && off >= -db.tolerance {
		return nil
	}
	return &budget.Error{Code: budget.Unavailable, Op: op, RetryAfter: time.Second,
		Message: "this node's clock is " + off.Round(time.Millisecond).String() +
			" off the database's clock; nothing is ended until they agree"}
}
