package engine

import (
	"time"

	"github.com/budgetd/budgetd/budget"
)

// CheckClock reads SQL's clock under the locks that the transaction holds, and compares it with
// what this node takes for SQL's clock (Now). It does nothing on a SQLite file, whose clock is
// this machine's. Error: Unavailable when the two are more than Config.ClockTolerance apart. Call
// it before something ends for good because of the time.
func (t *Tx) CheckClock(op string) error {
	if t.conn.dialect.name == sqliteName {
		return nil
	}
	var micros int64
	if _, err := t.Get(&micros, selectClock); err != nil {
		return err
	}
	off := time.UnixMicro(micros).Sub(t.DB.Now())
	if off <= t.DB.tolerance && off >= -t.DB.tolerance {
		return nil
	}
	return &budget.Error{Code: budget.Unavailable, Op: op, RetryAfter: time.Second,
		Message: "this node's clock is " + off.Round(time.Millisecond).String() +
			" off the database's clock; nothing is ended until they agree"}
}
