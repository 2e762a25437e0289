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
	// openHoldsLimit is up to how many open holds are counted.
	openHoldsLimit = 100_000
	// expiryStep bounds one transaction.
	expiryStep = 5 * time.Second
	// ExpiryEvery is how often RunOnce is to be called: a hold ends less than a second after its time.
	ExpiryEvery = 500 * time.Millisecond
)

// Expiry ends holds whose time is up. Every node runs one; a hold that another node has ended is
// left alone. Use it from one goroutine.
type Expiry struct {
	Ledger DueHolds
	// Filter is told what buckets hold; nil: there is none.
	Filter   bucket.Filter
	Observer bucket.Observer
	Log      *slog.Logger

	// limit is how many holds the next transaction ends.
	limit int
	// skipped is how many of the oldest holds are passed over until all were looked at.
	skipped int
	// failed is the error of a hold that could not be ended alone since all were looked at; before
	// says that there was one the last time as well. It is logged once until it is gone.
	failed error
	before bool
	logged bool
}

// RunOnce gives back what is held too long, in transactions of many holds, until none is due.
// After a transaction that failed, the next run tries half as many holds. One hold that cannot
// be ended, because its rows are not what they must be, is passed over until all others were
// looked at, so that it delays no other. Error: that of the transaction that ended the run.
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
			e.lookedAtAll()
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
	got, levels, err := e.Ledger.ExpireHolds(ctx, e.limit, e.skipped)
	if err != nil || got.Holds == 0 {
		return got, err
	}
	e.Observer.HoldsExpired(got.Holds)
	e.Observer.Moved("expire", got.Units)
	e.Log.Info("holds expired", "holds", got.Holds, "units", got.Units)
	tell(e.Filter, time.Second, levels)
	return got, nil
}

// lookedAtAll begins again with the oldest hold. A hold that could not be ended twice although
// the database answers is reported.
func (e *Expiry) lookedAtAll() {
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

// CountOpen tells the observer how many holds are open. Error: Unavailable.
func (e *Expiry) CountOpen(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, expiryStep)
	defer cancel()
	n, err := e.Ledger.OpenHolds(ctx, openHoldsLimit)
	if err == nil {
		e.Observer.HoldsOpen(n)
	}
	return err
}
