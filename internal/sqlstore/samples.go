package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/series"
)

const (
	sampleColumns = `s.budget_id, s.at_ms, s.total_quantity, s.undistributed_quantity, s.quarantined_quantity,
	s.forfeited_quantity, s.remaining_quantity, s.in_transit_quantity, s.held_quantity, s.used_quantity,
	s.stranded_quantity`
	insertSamples = `INSERT INTO budget_sample (budget_id, at_ms, total_quantity, undistributed_quantity,
	quarantined_quantity, forfeited_quantity, remaining_quantity, in_transit_quantity, held_quantity, used_quantity,
	stranded_quantity)`
	sampleWidth = 11
	ofSample    = `(s.budget_id = ? AND s.at_ms = ?)`

	selectKnownSamples = `SELECT s.budget_id, s.at_ms FROM budget_sample s /*by PRIMARY*/ WHERE `
	// selectLastSamples looks each budget's newest sample up by its key.
	selectLastSamples = `SELECT ` + sampleColumns + `
		FROM budget_management_bucket u /*by PRIMARY*/
		/*in order*/ JOIN budget_sample s ON s.budget_id = u.id AND s.at_ms = (
			SELECT MAX(l.at_ms) FROM budget_sample l WHERE l.budget_id = u.id)
		WHERE u.id >= ? AND u.id <= ?`
	selectSampleBefore = `SELECT ` + sampleColumns + ` FROM budget_sample s /*by PRIMARY*/
		WHERE s.budget_id = ? AND s.at_ms <= ? ORDER BY s.at_ms DESC LIMIT 1`
	selectSamplesAfter = `SELECT ` + sampleColumns + ` FROM budget_sample s /*by PRIMARY*/
		WHERE s.budget_id = ? AND s.at_ms > ? AND s.at_ms <= ? ORDER BY s.at_ms LIMIT ?`
	selectOldSamples = `SELECT s.budget_id, s.at_ms FROM budget_sample s /*by budget_sample_at*/
		WHERE s.at_ms < ? ORDER BY s.at_ms LIMIT ?`
	dropSamples    = `DELETE /*of e*/ FROM budget_sample AS e /*by PRIMARY*/ WHERE `
	ofOldSample    = `(e.budget_id = ? AND e.at_ms = ?)`
	selectHoldings = `SELECT e.budget_id, b.instance, b.lane, e.outstanding_quantity, e.status, e.fenced
		FROM bucket_epoch e /*by bucket_epoch_units*/
		JOIN sharding_budget_management_bucket b ON b.id = e.bucket_id
		WHERE e.budget_id >= ? AND e.budget_id <= ? AND e.has_units = 1 AND e.outstanding_quantity > 0` + inKeyOrder
)

type sampleRow struct {
	Budget        int64 `db:"budget_id"`
	AtMS          int64 `db:"at_ms"`
	Total         int64 `db:"total_quantity"`
	Undistributed int64 `db:"undistributed_quantity"`
	Quarantined   int64 `db:"quarantined_quantity"`
	Forfeited     int64 `db:"forfeited_quantity"`
	Remaining     int64 `db:"remaining_quantity"`
	InTransit     int64 `db:"in_transit_quantity"`
	Held          int64 `db:"held_quantity"`
	Used          int64 `db:"used_quantity"`
	Stranded      int64 `db:"stranded_quantity"`
}

func (row *sampleRow) sample() bucket.Sample {
	return bucket.Sample{Budget: row.Budget, Point: series.Point{At: fromMS(row.AtMS), Figures: series.Figures{
		Total: row.Total, Undistributed: row.Undistributed, Quarantined: row.Quarantined, Forfeited: row.Forfeited,
		Remaining: row.Remaining, InTransit: row.InTransit, Held: row.Held, Used: row.Used, Stranded: row.Stranded,
	}}}
}

// sampleKey names a sample.
type sampleKey struct {
	Budget int64 `db:"budget_id"`
	AtMS   int64 `db:"at_ms"`
}

// AddSamples keeps samples. See bucket.Samples. Another node that adds the same ones makes this
// transaction begin again, and then it sees them.
func (db *DB) AddSamples(ctx context.Context, samples []bucket.Sample) error {
	if len(samples) == 0 {
		return nil
	}
	return db.write(ctx, "sample", func(t *tx) error {
		known, err := t.knownSamples(samples)
		if err != nil {
			return err
		}
		var rows []any
		for _, s := range samples {
			key, f := sampleKey{s.Budget, toMS(s.At)}, &s.Figures
			if known[key] {
				continue
			}
			known[key] = true
			rows = append(rows, key.Budget, key.AtMS, f.Total, f.Undistributed, f.Quarantined, f.Forfeited, f.Remaining,
				f.InTransit, f.Held, f.Used, f.Stranded)
		}
		return t.insert(insertSamples, sampleWidth, rows)
	})
}

func (t *tx) knownSamples(samples []bucket.Sample) (map[sampleKey]bool, error) {
	known := map[sampleKey]bool{}
	for chunk := range slices.Chunk(samples, listChunk) {
		chunk = padded(t.conn.dialect, chunk)
		var args []any
		for _, s := range chunk {
			args = append(args, s.Budget, toMS(s.At))
		}
		var keys []sampleKey
		if err := t.list(&keys, selectKnownSamples+repeat(ofSample, " OR ", len(chunk)), args...); err != nil {
			return nil, err
		}
		for _, key := range keys {
			known[key] = true
		}
	}
	return known, nil
}

// LastSamples reads the newest sample of each budget. See bucket.Samples.
func (db *DB) LastSamples(ctx context.Context, first, last int64) (map[int64]bucket.Sample, error) {
	var rows []sampleRow
	err := db.read(ctx, "samples", func(r *reader) error {
		rows = nil
		return r.list(&rows, selectLastSamples, first, last)
	})
	if err != nil {
		return nil, err
	}
	out := make(map[int64]bucket.Sample, len(rows))
	for i := range rows {
		out[rows[i].Budget] = rows[i].sample()
	}
	return out, nil
}

// SamplesOf reads a budget's samples of a span. See bucket.Samples.
func (db *DB) SamplesOf(ctx context.Context, budgetID int64, from, to time.Time, limit int) (
	out []bucket.Sample, err error) {
	err = db.read(ctx, "samples", func(r *reader) error {
		out = nil
		var before, after []sampleRow
		if err := r.list(&before, selectSampleBefore, budgetID, toMS(from)); err != nil {
			return err
		}
		if err := r.list(&after, selectSamplesAfter, budgetID, toMS(from), toMS(to), limit); err != nil {
			return err
		}
		for _, row := range append(before, after...) {
			out = append(out, row.sample())
		}
		return nil
	})
	return out, err
}

// DropSamples forgets old samples. See bucket.Samples. They are found without locks and deleted by key.
func (db *DB) DropSamples(ctx context.Context, before time.Time, limit int) (found int, err error) {
	err = db.write(ctx, "drop samples", func(t *tx) error {
		var keys []sampleKey
		if err := t.list(&keys, selectOldSamples, toMS(before), limit); err != nil {
			return err
		}
		found = len(keys)
		slices.SortFunc(keys, func(a, b sampleKey) int {
			return comparePositions(position{a.Budget, a.AtMS}, position{b.Budget, b.AtMS})
		})
		for chunk := range slices.Chunk(keys, t.conn.dialect.updateRows) {
			var args []any
			for _, key := range chunk {
				args = append(args, key.Budget, key.AtMS)
			}
			if _, err := t.exec(dropSamples+repeat(ofOldSample, " OR ", len(chunk)), args...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return found, nil
}

// Holdings reads what epochs hold. See bucket.Samples.
func (db *DB) Holdings(ctx context.Context, first, last int64) ([]bucket.Holding, error) {
	var rows []struct {
		Budget      int64  `db:"budget_id"`
		Instance    string `db:"instance"`
		Lane        int    `db:"lane"`
		Outstanding int64  `db:"outstanding_quantity"`
		Status      string `db:"status"`
		Fenced      string `db:"fenced"`
	}
	err := db.read(ctx, "holdings", func(r *reader) error {
		rows = nil
		return r.list(&rows, selectHoldings, first, last)
	})
	if err != nil {
		return nil, err
	}
	out := make([]bucket.Holding, len(rows))
	for i, row := range rows {
		out[i] = bucket.Holding{Budget: row.Budget, Lane: bucket.Lane{Instance: row.Instance, Index: row.Lane},
			Outstanding: row.Outstanding, Open: ledger.Status(row.Status) == ledger.Open, Fenced: row.Fenced != ""}
	}
	return out, nil
}
