package engine

import (
	"time"

	"github.com/budgetd/budgetd/budget"
)

// CheckClock compares SQL's clock, read under the locks of the transaction, with this node's
// estimate of it (Now). Call it before something ends permanently because of the time. On a SQLite
// file, whose clock is this machine's, it does nothing. It returns Unavailable if the two differ by
// more than Config.ClockTolerance.
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
