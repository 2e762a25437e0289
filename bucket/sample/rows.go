package sample

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/series"
)

const (
	sampleColumns = `s.budget_id, s.at_ms, s.total_quantity, s.undistributed_quantity,
		s.not_funded_quantity, s.quarantined_quantity, s.forfeited_quantity, s.in_buckets_quantity,
		s.in_transit_quantity, s.held_quantity, s.used_quantity, s.remaining_quantity,
		s.stranded_quantity`
	insertSamples = `INSERT INTO budget_sample (budget_id, at_ms, total_quantity,
		undistributed_quantity, not_funded_quantity, quarantined_quantity, forfeited_quantity,
		in_buckets_quantity, in_transit_quantity, held_quantity, used_quantity, remaining_quantity,
		stranded_quantity)`
	sampleWidth = 13

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
	dropSample = `DELETE FROM budget_sample WHERE budget_id = ? AND at_ms = ?`
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
	Remaining     int64 `db:"remaining_quantity"`
	Stranded      int64 `db:"stranded_quantity"`
}

func (r *sampleRow) point() series.Point {
	return series.Point{At: engine.FromMS(r.AtMS),
		Figures: series.Figures{Total: r.Total, Undistributed: r.Undistributed,
			NotFunded: r.NotFunded, Quarantined: r.Quarantined, Forfeited: r.Forfeited,
			InBuckets: r.InBuckets, InTransit: r.InTransit, Held: r.Held, Used: r.Used,
			Remaining: r.Remaining, Stranded: r.Stranded}}
}

// sampleKey identifies a sample.
type sampleKey struct {
	Budget int64 `db:"budget_id"`
	AtMS   int64 `db:"at_ms"`
}

func (k sampleKey) compare(o sampleKey) int {
	return cmp.Or(cmp.Compare(k.Budget, o.Budget), cmp.Compare(k.AtMS, o.AtMS))
}

// Add stores samples; the first one of a budget and minute stays. If another node adds the same
// ones, this transaction starts again and finds them. Errors: Unavailable, OutcomeUnknown. It is
// idempotent.
func (s *Service) Add(ctx context.Context, list []bucket.Sample) error {
	if len(list) == 0 {
		return nil
	}
	return s.DB.Write(ctx, "sample", func(t *engine.Tx) error {
		known, err := knownSamples(t, list)
		if err != nil {
			return err
		}
		var values []any
		for _, one := range list {
			key, f := sampleKey{one.Budget, engine.ToMS(one.At)}, &one.Figures
			if known[key] {
				continue
			}
			known[key] = true
			values = append(values, key.Budget, key.AtMS, f.Total, f.Undistributed, f.NotFunded,
				f.Quarantined, f.Forfeited, f.InBuckets, f.InTransit, f.Held, f.Used, f.Remaining,
				f.Stranded)
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

// Last returns the newest sample of each budget from first to last; a budget without samples is
// missing. Error: Unavailable.
func (s *Service) Last(ctx context.Context, first, last int64) (map[int64]bucket.Sample, error) {
	return s.oneEach(ctx, selectLast, first, last)
}

// At returns the sample of each budget from first to last that was valid at an instant, else its
// first one; a budget without samples is missing. Error: Unavailable.
func (s *Service) At(ctx context.Context, first, last int64, at time.Time) (
	map[int64]bucket.Sample, error) {
	return s.oneEach(ctx, selectAt, engine.ToMS(at), first, last)
}

func (s *Service) oneEach(ctx context.Context, query string, args ...any) (
	map[int64]bucket.Sample, error) {
	found, err := engine.List[sampleRow](ctx, s.DB, "samples", query, args...)
	if err != nil {
		return nil, err
	}
	out := make(map[int64]bucket.Sample, len(found))
	for i := range found {
		id := found[i].Budget
		out[id] = bucket.Sample{Budget: id, Point: found[i].point()}
	}
	return out, nil
}

// samplesOf returns a budget's samples in a span in order of time, preceded by the one that was
// valid at its beginning. It reads them page by page.
func (s *Service) samplesOf(ctx context.Context, budgetID int64, from, to time.Time) (
	[]series.Point, error) {
	var found []sampleRow
	err := s.DB.Read(ctx, "samples", func(r *engine.Reader) error {
		found = nil
		after := engine.ToMS(from)
		if err := r.List(&found, selectBefore, budgetID, after); err != nil {
			return err
		}
		for full := true; full; {
			var page []sampleRow
			err := r.List(&page, selectAfter, budgetID, after, engine.ToMS(to), samplePage)
			if err != nil {
				return err
			}
			found = append(found, page...)
			if full = len(page) == samplePage; full {
				after = page[len(page)-1].AtMS
			}
		}
		return nil
	})
	out := make([]series.Point, len(found))
	for i := range found {
		out[i] = found[i].point()
	}
	return out, err
}

// drop deletes at most limit samples from before an instant, and returns how many it found. It
// finds them without locks and deletes them by key.
func (s *Service) drop(ctx context.Context, before time.Time, limit int) (int, error) {
	keys, err := engine.List[sampleKey](ctx, s.DB, "drop samples", selectOld, engine.ToMS(before),
		limit)
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	slices.SortFunc(keys, sampleKey.compare)
	return len(keys), s.DB.Write(ctx, "drop samples", func(t *engine.Tx) error {
		for _, key := range keys {
			if _, err := t.Exec(dropSample, key.Budget, key.AtMS); err != nil {
				return err
			}
		}
		return nil
	})
}
