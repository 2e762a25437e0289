package hold

import (
	"context"
	"log/slog"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

const (
	// expireAtOnce bounds the holds of one transaction, expireRounds the transactions of one RunOnce.
	expireAtOnce, expireRounds = 500, 200
	// openHoldsLimit is the number up to which open holds are counted.
	openHoldsLimit = 100_000
	// expiryStep bounds one transaction.
	expiryStep = 5 * time.Second
	// ExpiryEvery is the interval at which RunOnce must be called, so that a hold ends less than a
	// second after its time.
	ExpiryEvery = 500 * time.Millisecond
)

// Expiry ends holds whose time is up. Every node runs one; each hold is ended by the first node
// that tries. Only one goroutine may use it.
type Expiry struct {
	Ledger   *Ledger
	Observer bucket.Observer
	Log      *slog.Logger

	// expire is Ledger.ExpireHolds, unless a test replaces it.
	expire func(ctx context.Context, limit, skip int) (Expired, error)
	// limit bounds the holds of the next transaction.
	limit int
	// skipped is how many of the oldest holds are skipped until all have been tried.
	skipped int
	// failed is the error of a single hold that could not be ended in this round over all holds.
	// before says that there was one in the previous round too. It is logged once until it is gone.
	failed error
	before bool
	logged bool
}

// RunOnce gives back expired holds, in transactions of many holds, until none is due. After a
// failed transaction the next run tries half as many holds. A single hold that cannot be ended,
// because its rows are inconsistent, is skipped until all others have been tried, so that it delays
// no other. RunOnce returns the error of the transaction that ended the run.
func (e *Expiry) RunOnce(ctx context.Context) error {
	if e.limit == 0 {
		e.limit = expireAtOnce
	}
	for range expireRounds {
		got, err := e.step(ctx)
		if err != nil {
			e.Observer.Failed("sql", budget.CodeOf(err))
			if e.limit > 1 {
				e.limit /= 2
			} else {
				e.skipped++
				e.failed = err
			}
			return err
		}
		if got.Holds == 0 { // another node was faster
			e.skipped += got.Found
		}
		if got.Found < e.limit {
			e.restart()
			return nil
		}
		if e.limit = min(2*e.limit, expireAtOnce); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// step ends the holds of one transaction.
func (e *Expiry) step(ctx context.Context) (Expired, error) {
	ctx, cancel := context.WithTimeout(ctx, expiryStep)
	defer cancel()
	expire := e.expire
	if expire == nil {
		expire = e.Ledger.ExpireHolds
	}
	got, err := expire(ctx, e.limit, e.skipped)
	if err != nil || got.Holds == 0 {
		return got, err
	}
	e.Observer.HoldsExpired(got.Holds)
	e.Observer.Moved("expire", got.Units)
	e.Log.Info("holds expired", "holds", got.Holds, "units", got.Units)
	return got, nil
}

// restart starts again with the oldest hold. It logs a hold that could not be ended in two rounds
// although the database answers.
func (e *Expiry) restart() {
	if e.failed != nil {
		if e.before && !e.logged {
			e.Log.Error("a hold cannot be ended; the others are", "error", e.failed)
			e.logged = true
		}
		e.limit = 1
	} else {
		e.logged = false
	}
	e.before, e.skipped, e.failed = e.failed != nil, 0, nil
}

// CountOpen reports to the observer how many holds are open. Error: Unavailable.
func (e *Expiry) CountOpen(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, expiryStep)
	defer cancel()
	n, err := e.Ledger.OpenHolds(ctx, openHoldsLimit)
	if err == nil {
		e.Observer.HoldsOpen(n)
	}
	return err
}
