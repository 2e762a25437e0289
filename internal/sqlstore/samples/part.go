// Package samples stores the samples of series: a budget's figures, once a minute if something
// changed.
package samples

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/sample"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/series"
)

// Part stores samples in a database. It is safe for concurrent use.
type Part struct{ db *engine.DB }

var _ sample.Ledger = (*Part)(nil)

// New returns the part of a database.
func New(db *engine.DB) *Part { return &Part{db: db} }

const (
	sampleColumns = `s.budget_id, s.at_ms, s.total_quantity, s.undistributed_quantity,
		s.not_funded_quantity, s.quarantined_quantity, s.forfeited_quantity, s.in_buckets_quantity,
		s.in_transit_quantity, s.held_quantity, s.used_quantity, s.stranded_quantity`
	insertSamples = `INSERT INTO budget_sample (budget_id, at_ms, total_quantity,
		undistributed_quantity, not_funded_quantity, quarantined_quantity, forfeited_quantity,
		in_buckets_quantity, in_transit_quantity, held_quantity, used_quantity, stranded_quantity)`
	sampleWidth = 12

	selectKnown = `SELECT s.budget_id, s.at_ms FROM budget_sample s /*by PRIMARY*/ WHERE `
	// selectLast looks up each budget's newest sample by its key.
	selectLast = `SELECT ` + sampleColumns + ` FROM budget_management_bucket u /*by PRIMARY*/
		/*in order*/ JOIN budget_sample s ON s.budget_id = u.id AND s.at_ms = (
			SELECT MAX(l.at_ms) FROM budget_sample l WHERE l.budget_id = u.id)
		WHERE u.id >= ? AND u.id <= ?`
	// selectAt looks up each budget's sample of an instant, else its first one.
	selectAt = `SELECT ` + sampleColumns + ` FROM budget_management_bucket u /*by PRIMARY*/
		/*in order*/ JOIN budget_sample s ON s.budget_id = u.id AND s.at_ms = COALESCE(
			(SELECT MAX(l.at_ms) FROM budget_sample l WHERE l.budget_id = u.id AND l.at_ms <= ?),
			(SELECT MIN(f.at_ms) FROM budget_sample f WHERE f.budget_id = u.id))
		WHERE u.id >= ? AND u.id <= ?`
	selectBefore = `SELECT ` + sampleColumns + ` FROM budget_sample s /*by PRIMARY*/
		WHERE s.budget_id = ? AND s.at_ms <= ? ORDER BY s.at_ms DESC LIMIT 1`
	selectAfter = `SELECT ` + sampleColumns + ` FROM budget_sample s /*by PRIMARY*/
		WHERE s.budget_id = ? AND s.at_ms > ? AND s.at_ms <= ? ORDER BY s.at_ms LIMIT ?`
	selectOld = `SELECT s.budget_id, s.at_ms FROM budget_sample s /*by budget_sample_at*/
		WHERE s.at_ms < ? ORDER BY s.at_ms LIMIT ?`
	dropSample     = `DELETE FROM budget_sample WHERE budget_id = ? AND at_ms = ?`
	selectHoldings = `SELECT e.budget_id, b.instance, b.partition_number, e.outstanding_quantity,
		e.status,
		LENGTH(e.halted) AS halt FROM bucket_epoch e /*by bucket_epoch_units*/
		JOIN sharding_budget_management_bucket b ON b.id = e.bucket_id
		WHERE e.budget_id >= ? AND e.budget_id <= ? AND e.has_units = 1
		AND e.outstanding_quantity > 0 ORDER BY e.bucket_id, e.epoch`
)

type sampleRow struct {
	Budget        int64 `db:"budget_id"`
	AtMS          int64 `db:"at_ms"`
	Total         int64 `db:"total_quantity"`
	Undistributed int64 `db:"undistributed_quantity"`
	NotFunded     int64 `db:"not_funded_quantity"`
	Quarantined   int64 `db:"quarantined_quantity"`
	Forfeited     int64 `db:"forfeited_quantity"`
	InBuckets     int64 `db:"in_buckets_quantity"`
	InTransit     int64 `db:"in_transit_quantity"`
	Held          int64 `db:"held_quantity"`
	Used          int64 `db:"used_quantity"`
	Stranded      int64 `db:"stranded_quantity"`
}

func (r *sampleRow) sample() bucket.Sample {
	return bucket.Sample{Budget: r.Budget, Point: series.Point{At: engine.FromMS(r.AtMS),
		Figures: series.Figures{Total: r.Total, Undistributed: r.Undistributed,
			NotFunded: r.NotFunded, Quarantined: r.Quarantined, Forfeited: r.Forfeited,
			InBuckets: r.InBuckets, InTransit: r.InTransit, Held: r.Held, Used: r.Used,
			Stranded: r.Stranded}}}
}

// sampleKey identifies a sample.
type sampleKey struct {
	Budget int64 `db:"budget_id"`
	AtMS   int64 `db:"at_ms"`
}

func (k sampleKey) compare(o sampleKey) int {
	return cmp.Or(cmp.Compare(k.Budget, o.Budget), cmp.Compare(k.AtMS, o.AtMS))
}

// AddSamples stores samples; the first one of a budget and minute stays. If another node adds the
// same ones, this transaction starts again and finds them. Errors: Unavailable, OutcomeUnknown. It
// is idempotent.
func (p *Part) AddSamples(ctx context.Context, list []bucket.Sample) error {
	if len(list) == 0 {
		return nil
	}
	return p.db.Write(ctx, "sample", func(t *engine.Tx) error {
		known, err := knownSamples(t, list)
		if err != nil {
			return err
		}
		var values []any
		for _, s := range list {
			key, f := sampleKey{s.Budget, engine.ToMS(s.At)}, &s.Figures
			if known[key] {
				continue
			}
			known[key] = true
			values = append(values, key.Budget, key.AtMS, f.Total, f.Undistributed, f.NotFunded,
				f.Quarantined, f.Forfeited, f.InBuckets, f.InTransit, f.Held, f.Used, f.Stranded)
		}
		return t.Insert(insertSamples, sampleWidth, values)
	})
}

func knownSamples(t *engine.Tx, list []bucket.Sample) (map[sampleKey]bool, error) {
	known := map[sampleKey]bool{}
	for chunk := range slices.Chunk(list, engine.ListChunk) {
		keys := make([][]any, len(chunk))
		for i, s := range chunk {
			keys[i] = []any{s.Budget, engine.ToMS(s.At)}
		}
		s := t.Statement()
		s.SQL(selectKnown)
		s.Tuples([]string{"s.budget_id", "s.at_ms"}, keys)
		var found []sampleKey
		if err := t.RowsOf(&found, s); err != nil {
			return nil, err
		}
		for _, key := range found {
			known[key] = true
		}
	}
	return known, nil
}

// LastSamples returns the newest sample of each budget from first to last; a budget without samples
// is missing. It returns Unavailable if the database cannot be read.
func (p *Part) LastSamples(ctx context.Context, first, last int64) (
	map[int64]bucket.Sample, error) {
	return p.oneEach(ctx, selectLast, first, last)
}

// SamplesAt returns the sample of each budget from first to last that was valid at an instant, else
// its first one; a budget without samples is missing. It returns Unavailable if the database cannot
// be read.
func (p *Part) SamplesAt(ctx context.Context, first, last int64, at time.Time) (
	map[int64]bucket.Sample, error) {
	return p.oneEach(ctx, selectAt, engine.ToMS(at), first, last)
}

func (p *Part) oneEach(ctx context.Context, query string, args ...any) (
	map[int64]bucket.Sample, error) {
	var found []sampleRow
	err := p.db.Read(ctx, "samples", func(r *engine.Reader) error {
		found = nil
		return r.List(&found, query, args...)
	})
	if err != nil {
		return nil, err
	}
	out := make(map[int64]bucket.Sample, len(found))
	for i := range found {
		out[found[i].Budget] = found[i].sample()
	}
	return out, nil
}

// SamplesOf returns a budget's samples in a span in order of time, at most limit, preceded by the
// one that was valid at its beginning. It returns Unavailable if the database cannot be read.
func (p *Part) SamplesOf(ctx context.Context, budgetID int64, from, to time.Time, limit int) (
	out []bucket.Sample, err error) {
	err = p.db.Read(ctx, "samples", func(r *engine.Reader) error {
		out = nil
		var before, after []sampleRow
		if err := r.List(&before, selectBefore, budgetID, engine.ToMS(from)); err != nil {
			return err
		}
		if err := r.List(&after, selectAfter, budgetID, engine.ToMS(from), engine.ToMS(to),
			limit); err != nil {
			return err
		}
		for _, row := range append(before, after...) {
			out = append(out, row.sample())
		}
		return nil
	})
	return out, err
}

// DropSamples deletes at most limit samples from before an instant, and returns how many it found.
// It finds them without locks and deletes them by key. Errors: Unavailable, OutcomeUnknown. It is
// idempotent.
func (p *Part) DropSamples(ctx context.Context, before time.Time, limit int) (
	found int, err error) {
	var keys []sampleKey
	err = p.db.Read(ctx, "drop samples", func(r *engine.Reader) error {
		keys = nil
		return r.List(&keys, selectOld, engine.ToMS(before), limit)
	})
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	slices.SortFunc(keys, sampleKey.compare)
	err = p.db.Write(ctx, "drop samples", func(t *engine.Tx) error {
		for _, key := range keys {
			if _, err := t.Exec(dropSample, key.Budget, key.AtMS); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(keys), nil
}

// Holdings returns what the epochs of the budgets from first to last hold, without empty ones. It
// returns Unavailable if the database cannot be read.
func (p *Part) Holdings(ctx context.Context, first, last int64) ([]bucket.Holding, error) {
	var found []struct {
		Budget      int64  `db:"budget_id"`
		Instance    string `db:"instance"`
		Partition   int    `db:"partition_number"`
		Outstanding int64  `db:"outstanding_quantity"`
		Status      string `db:"status"`
		Halt        int64  `db:"halt"`
	}
	err := p.db.Read(ctx, "holdings", func(r *engine.Reader) error {
		found = nil
		return r.List(&found, selectHoldings, first, last)
	})
	if err != nil {
		return nil, err
	}
	out := make([]bucket.Holding, len(found))
	for i, row := range found {
		out[i] = bucket.Holding{Budget: row.Budget,
			Partition:   bucket.Partition{Instance: row.Instance, Index: row.Partition},
			Outstanding: row.Outstanding, Open: ledger.Status(row.Status) == ledger.Open,
			Halted: row.Halt > 0}
	}
	return out, nil
}
