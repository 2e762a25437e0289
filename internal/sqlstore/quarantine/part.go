// Package quarantine reads and releases units in quarantine: those that epochs held when their
// stores lost their memory.
package quarantine

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/moves"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
)

var _ counter.Quarantines = (*Part)(nil)

// Part reads and releases quarantined units. It is safe for concurrent use.
type Part struct{ db *engine.DB }

// New returns the part of a database.
func New(db *engine.DB) *Part { return &Part{db: db} }

const (
	selectAll = `SELECT q.bucket_id, q.epoch, q.quantity, q.released_quantity, q.cause, q.created_at,
		b.sharding_bucket_key AS bucket_key
		FROM quarantine q /*by quarantine_budget*/
		JOIN sharding_budget_management_bucket b ON b.id = q.bucket_id
		WHERE q.budget_id = ? ORDER BY q.bucket_id, q.epoch LIMIT ?`
	selectHeld = `SELECT q.bucket_id, q.epoch, q.quantity, q.released_quantity
		FROM quarantine q /*by quarantine_budget*/ WHERE q.budget_id = ?
		ORDER BY q.bucket_id, q.epoch`
	selectReleases = `SELECT r.bucket_id, r.epoch, r.quantity, r.request_id, r.goes_to, r.reason,
		r.released_by, r.created_at FROM quarantine_release r /*by PRIMARY*/
		WHERE r.budget_id = ? ORDER BY r.created_at, r.request_id LIMIT ?`
	raiseReleased = `UPDATE quarantine SET released_quantity = released_quantity + ?
		WHERE bucket_id = ? AND epoch = ? AND released_quantity = ?`
	takeOut = `UPDATE budget_management_bucket
		SET quarantined_quantity = quarantined_quantity - ?
		WHERE id = ? AND quarantined_quantity >= ?`
	addUsed = `UPDATE bucket_epoch SET used_quantity = used_quantity + ?
		WHERE bucket_id = ? AND epoch = ?`
	insertRelease = `INSERT INTO quarantine_release (budget_id, request_id, bucket_id, epoch, quantity,
		goes_to, asked_quantity, reason, released_by, created_at)`
	releaseWidth   = 10
	selectReleased = `SELECT COALESCE(SUM(quantity), 0) AS quantity,
		COALESCE(MAX(asked_quantity), 0) AS asked, COALESCE(MAX(goes_to), '') AS goes_to,
		COUNT(*) AS found FROM quarantine_release WHERE budget_id = ? AND request_id = ?`

	toTotal, toUsed = "total", "used"
)

type row struct {
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
			Quantity: f.Quantity, Used: f.GoesTo == toUsed, Reason: f.Reason, By: f.By,
			At: engine.FromMS(f.Created)})
	}
	return out, nil
}

// Quarantined lists a budget's quarantines. See counter.Quarantines.
func (p *Part) Quarantined(ctx context.Context, budgetID int64, limit int) (
	out []bucket.Quarantine, err error) {
	err = p.db.Read(ctx, "quarantines", func(r *engine.Reader) error {
		var found []row
		if err := r.List(&found, selectAll, budgetID, limit); err != nil {
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

// Release takes units out of quarantine, once per request id. See counter.Quarantines. Keeps I1.
func (p *Part) Release(ctx context.Context, budgetID int64, r bucket.ReleaseRequest) (
	out bucket.ReleaseAnswer, err error) {
	tried := false // an earlier attempt wrote it, committed or not
	err = p.db.Write(ctx, "release", func(t *engine.Tx) error {
		out = bucket.ReleaseAnswer{}
		b, err := rows.LockBudget(t, "release", budgetID)
		if err != nil {
			return err
		}
		var earlier struct {
			Quantity int64  `db:"quantity"`
			Asked    int64  `db:"asked"`
			To       string `db:"goes_to"`
			Found    int64  `db:"found"`
		}
		if _, err := t.Get(&earlier, selectReleased, budgetID, []byte(r.RequestID)); err != nil {
			return err
		}
		out.Quarantined = b.Quarantined
		switch {
		case earlier.Found > 0 && (earlier.Asked != r.Quantity || earlier.To != target(r)):
			return budget.Refuse(budget.RequestConflict, "release",
				"request %q was recorded with another decision", r.RequestID)
		case earlier.Found > 0:
			out.Released, out.Replayed = earlier.Quantity, !(t.Unsure && tried)
			return nil
		case b.Quarantined == 0 || r.Quantity > b.Quarantined:
			e := budget.Refuse(budget.AmountExceedsRemaining, "release",
				"budget %s has %d in quarantine", b.Name, b.Quarantined)
			e.Available = &b.Quarantined
			return e
		}
		tried = true
		out.Released, err = release(t, b, r)
		out.Quarantined -= out.Released
		return err
	})
	if err != nil {
		return bucket.ReleaseAnswer{}, err
	}
	return out, nil
}

// target returns the column goes_to of a decision.
func target(r bucket.ReleaseRequest) string {
	if r.Used {
		return toUsed
	}
	return toTotal
}

// release takes units out of the quarantines of a locked budget in the order of (bucket, epoch).
func release(t *engine.Tx, b *rows.Budget, r bucket.ReleaseRequest) (moved int64, err error) {
	var found []row
	if err := t.List(&found, selectHeld+rows.Locked, b.ID); err != nil {
		return 0, err
	}
	left := r.Quantity
	if left == 0 {
		left = budget.MaxAmount
	}
	parts := map[rows.Position]int64{}
	var positions []rows.Position
	for _, f := range found {
		n := min(f.Quantity-f.Released, left)
		if n == 0 {
			continue
		}
		at := rows.Position{Bucket: f.Bucket, Epoch: f.Epoch}
		positions, parts[at] = append(positions, at), n
		left, moved = left-n, moved+n
		if err := t.Hit(1, raiseReleased, n, f.Bucket, f.Epoch, f.Released); err != nil {
			return 0, err
		}
	}
	locked, err := rows.LockEpochs(t, positions)
	if err != nil {
		return 0, err
	}
	var back []moves.Coming
	for _, at := range positions {
		e := locked[at]
		if e == nil {
			return 0, engine.Defect("epoch %v in quarantine is gone", at)
		}
		if r.Used {
			err = t.Hit(1, addUsed, parts[at], at.Bucket, at.Epoch)
		} else {
			back = append(back, moves.Coming{Row: e, Never: parts[at]})
		}
		if err != nil {
			return 0, err
		}
		err = t.Insert(insertRelease, releaseWidth, []any{b.ID, []byte(r.RequestID), at.Bucket, at.Epoch,
			parts[at], target(r), r.Quantity, []byte(r.Reason), []byte(r.By), engine.ToMS(t.Now)})
		if err != nil {
			return 0, err
		}
	}
	if err := t.Hit(1, takeOut, moved, b.ID, moved); err != nil {
		return 0, err
	}
	return moved, moves.ComeBack(t, b, back...)
}
