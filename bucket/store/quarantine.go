package store

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

const (
	selectQuarantines = `SELECT q.bucket_id, q.epoch, q.quantity, q.released_quantity, q.cause,
		q.created_at, b.sharding_bucket_key AS bucket_key
		FROM quarantine q /*by quarantine_budget*/
		JOIN sharding_budget_management_bucket b ON b.id = q.bucket_id
		WHERE q.budget_id = ? ORDER BY q.bucket_id, q.epoch LIMIT ?`
	selectReleases = `SELECT r.bucket_id, r.epoch, r.quantity, r.request_id, r.goes_to, r.reason,
		r.released_by, r.created_at FROM quarantine_release r /*by PRIMARY*/
		WHERE r.budget_id = ? ORDER BY r.created_at, r.request_id LIMIT ?`
)

// quarantineRow is a row of selectQuarantines.
type quarantineRow struct {
	Bucket   int64  `db:"bucket_id"`
	Epoch    int64  `db:"epoch"`
	Quantity int64  `db:"quantity"`
	Released int64  `db:"released_quantity"`
	Cause    string `db:"cause"`
	Created  int64  `db:"created_at"`
	Key      string `db:"bucket_key"`
}

// releaseRow is a row of quarantine_release.
type releaseRow struct {
	Bucket    int64  `db:"bucket_id"`
	Epoch     int64  `db:"epoch"`
	Quantity  int64  `db:"quantity"`
	RequestID string `db:"request_id"`
	GoesTo    string `db:"goes_to"`
	Reason    string `db:"reason"`
	By        string `db:"released_by"`
	Created   int64  `db:"created_at"`
}

// mostReleases is how many decisions are listed per quarantine on average, at most.
const mostReleases = 10

// releasesOf reads a budget's releases by the quarantines that they are about.
func releasesOf(r *engine.Reader, budgetID int64, limit int) (
	map[[2]int64][]bucket.QuarantineRelease, error) {
	var found []releaseRow
	if err := r.List(&found, selectReleases, budgetID, limit*mostReleases); err != nil {
		return nil, err
	}
	out := map[[2]int64][]bucket.QuarantineRelease{}
	for _, f := range found {
		of := [2]int64{f.Bucket, f.Epoch}
		out[of] = append(out[of], bucket.QuarantineRelease{RequestID: f.RequestID,
			Quantity: f.Quantity, Used: f.GoesTo == string(books.ToUsed), Reason: f.Reason, By: f.By,
			At: engine.FromMS(f.Created)})
	}
	return out, nil
}

// Quarantined lists a budget's quarantines, by bucket and epoch.
func (l *Ledger) Quarantined(ctx context.Context, budgetID int64, limit int) (
	out []bucket.Quarantine, err error) {
	err = l.db.Read(ctx, "quarantines", func(r *engine.Reader) error {
		var found []quarantineRow
		if err := r.List(&found, selectQuarantines, budgetID, limit); err != nil {
			return err
		}
		releases, err := releasesOf(r, budgetID, limit)
		if err != nil {
			return err
		}
		out = make([]bucket.Quarantine, len(found))
		for i, f := range found {
			out[i] = bucket.Quarantine{Key: f.Key, Epoch: f.Epoch,
				Quantity: f.Quantity, Released: f.Released, Cause: f.Cause, At: engine.FromMS(f.Created),
				Releases: releases[[2]int64{f.Bucket, f.Epoch}]}
		}
		return nil
	})
	return out, err
}

// Release takes units out of quarantine, once per request id. They return to the total or count as
// used. Errors: RequestConflict; AmountExceedsRemaining, with what is in quarantine.
func (l *Ledger) Release(ctx context.Context, budgetID int64, r bucket.ReleaseRequest) (
	out bucket.ReleaseAnswer, err error) {
	order := books.Release{RequestID: r.RequestID, Asked: r.Quantity, GoesTo: books.ToTotal,
		Reason: r.Reason, By: r.By}
	if r.Used {
		order.GoesTo = books.ToUsed
	}
	tried := false // an earlier attempt wrote it, committed or not
	err = bookkeeper.Do(ctx, l.db, "release", bookkeeper.Quarantined(budgetID, r.RequestID),
		func(b *books.Books) ([]bookkeeper.Query, error) {
			out = bucket.ReleaseAnswer{}
			u := b.Budgets.Get(budgetID)
			if u == nil {
				return nil, bookkeeper.NoBudget("release", budgetID)
			}
			for _, earlier := range b.Releases.All() {
				if earlier.Asked != order.Asked || earlier.GoesTo != order.GoesTo {
					return nil, budget.Refuse(budget.RequestConflict, "release",
						"request %q was recorded with another decision", r.RequestID)
				}
				out.Released += earlier.Quantity
			}
			switch {
			case out.Released > 0:
				out.Replayed = !(b.Unsure && tried)
			case u.Quarantined == 0 || r.Quantity > u.Quarantined:
				e := budget.Refuse(budget.AmountExceedsRemaining, "release",
					"budget %s has %d in quarantine", u.Name, u.Quarantined)
				e.Available = &u.Quarantined
				return nil, e
			default:
				tried = true
				out.Released = b.Release(u, order)
			}
			out.Quarantined = u.Quarantined
			return nil, nil
		})
	if err != nil {
		return bucket.ReleaseAnswer{}, err
	}
	return out, nil
}
