package sim

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// More verbs of the database.
var (
	verbAdjust         = sqlWrite("Adjust")
	verbLane           = sqlWrite("Lane")
	verbNextActivation = sqlWrite("NextActivation")
	verbStale          = sqlRead("Stale")
	verbReached        = sqlWrite("Reached")
	verbLaneRows       = sqlRead("LaneRows")
	verbDeclareDown    = sqlWrite("DeclareDown")
	verbUnfinished     = sqlRead("Unfinished")
	verbUnfinishedOf   = sqlRead("UnfinishedOf")
	verbLive           = sqlRead("Live")
	verbBeginRun       = sqlWrite("BeginRun")
	verbEndRun         = sqlWrite("EndRun")
	verbFigures        = sqlRead("Figures")
	verbAccounts       = sqlRead("Accounts")
	verbPrefix         = sqlRead("Prefix")
	verbSpans          = sqlRead("Spans")
	verbRecount        = sqlRead("Recount")
	verbEpochsAfter    = sqlRead("EpochsAfter")
	verbBooks          = sqlRead("Books")
	verbStranded       = sqlRead("Stranded")
	verbFeedBounds     = sqlRead("FeedBounds")
	verbFeedEntries    = sqlRead("FeedEntries")
	verbArchiveBounds  = sqlRead("ArchiveBounds")
	verbBeginArchive   = sqlWrite("BeginArchive")
	verbEndArchive     = sqlWrite("EndArchive")
)

// Adjust asks the database. See bucket.SQL.
func (d *database) Adjust(ctx context.Context, a bucket.Adjustment) (
	bucket.AdjustmentState, bool, error) {
	p, err := over(ctx, d, verbAdjust, a, func() (pair[bucket.AdjustmentState, bool], error) {
		return two(d.n.w.model.Adjust(bg, a))
	})
	return p.First, p.Second, err
}

// Lane asks the database. See bucket.SQL.
func (d *database) Lane(ctx context.Context, lane bucket.Lane, identity string) (
	bucket.LaneRow, error) {
	return over(ctx, d, verbLane, []any{lane, identity}, func() (bucket.LaneRow, error) {
		return d.n.w.model.Lane(bg, lane, identity)
	})
}

// NextActivation asks the database. See bucket.SQL.
func (d *database) NextActivation(ctx context.Context, lane bucket.Lane, from int64, identity string) (
	bucket.LaneRow, error) {
	return over(ctx, d, verbNextActivation, []any{lane, from, identity}, func() (bucket.LaneRow, error) {
		return d.n.w.model.NextActivation(bg, lane, from, identity)
	})
}

// Stale asks the database. See bucket.SQL.
func (d *database) Stale(ctx context.Context, lane bucket.Lane, activation int64, limit int) (
	[]bucket.EpochOf, error) {
	return over(ctx, d, verbStale, []any{lane, activation, limit}, func() ([]bucket.EpochOf, error) {
		return d.n.w.model.Stale(bg, lane, activation, limit)
	})
}

// Reached asks the database. See bucket.SQL.
func (d *database) Reached(ctx context.Context, lanes []bucket.Lane) error {
	_, err := over(ctx, d, verbReached, lanes, func() (struct{}, error) {
		return struct{}{}, d.n.w.model.Reached(bg, lanes)
	})
	return err
}

// LaneRows asks the database. See bucket.SQL.
func (d *database) LaneRows(ctx context.Context, lanes []bucket.Lane) (
	map[bucket.Lane]bucket.LaneRow, error) {
	return over(ctx, d, verbLaneRows, lanes, func() (map[bucket.Lane]bucket.LaneRow, error) {
		return d.n.w.model.LaneRows(bg, lanes)
	})
}

// DeclareDown asks the database. See bucket.SQL.
func (d *database) DeclareDown(ctx context.Context, seen bucket.LaneRow) (bucket.LaneRow, bool, error) {
	p, err := over(ctx, d, verbDeclareDown, seen, func() (pair[bucket.LaneRow, bool], error) {
		return two(d.n.w.model.DeclareDown(bg, seen))
	})
	return p.First, p.Second, err
}

// Unfinished asks the database. See bucket.SQL.
func (d *database) Unfinished(ctx context.Context, limit int, without ...bucket.Lane) (
	bucket.Unfinished, error) {
	return over(ctx, d, verbUnfinished, []any{limit, without}, func() (bucket.Unfinished, error) {
		return d.n.w.model.Unfinished(bg, limit, without...)
	})
}

// UnfinishedOf asks the database. See bucket.SQL.
func (d *database) UnfinishedOf(ctx context.Context, budgetID int64) (bucket.Unfinished, error) {
	return over(ctx, d, verbUnfinishedOf, budgetID, func() (bucket.Unfinished, error) {
		return d.n.w.model.UnfinishedOf(bg, budgetID)
	})
}

// Live asks the database. See bucket.SQL.
func (d *database) Live(ctx context.Context, lane bucket.Lane, after bucket.Ref, limit int) (
	[]bucket.EpochOf, error) {
	return over(ctx, d, verbLive, []any{lane, after, limit}, func() ([]bucket.EpochOf, error) {
		return d.n.w.model.Live(bg, lane, after, limit)
	})
}

// BeginRun asks the database. See bucket.SQL.
func (d *database) BeginRun(ctx context.Context, run bucket.Run) (bucket.Run, error) {
	return over(ctx, d, verbBeginRun, run, func() (bucket.Run, error) {
		return d.n.w.model.BeginRun(bg, run)
	})
}

// EndRun asks the database. See bucket.SQL.
func (d *database) EndRun(ctx context.Context, budgetID int64, number int64, moved int64) error {
	_, err := over(ctx, d, verbEndRun, []any{budgetID, number, moved}, func() (struct{}, error) {
		return struct{}{}, d.n.w.model.EndRun(bg, budgetID, number, moved)
	})
	return err
}

// Figures asks the database. See bucket.SQL.
func (d *database) Figures(ctx context.Context, budgetID int64) (ledger.Figures, error) {
	return over(ctx, d, verbFigures, budgetID, func() (ledger.Figures, error) {
		return d.n.w.model.Figures(bg, budgetID)
	})
}

// Accounts asks the database. See bucket.SQL.
func (d *database) Accounts(ctx context.Context, budgetID int64) (bucket.Accounts, error) {
	return over(ctx, d, verbAccounts, budgetID, func() (bucket.Accounts, error) {
		return d.n.w.model.Accounts(bg, budgetID)
	})
}

// Prefix asks the database. See bucket.SQL.
func (d *database) Prefix(ctx context.Context, ref bucket.Ref, seq int64, grantSeq int64) (
	int64, int64, error) {
	p, err := over(ctx, d, verbPrefix, []any{ref, seq, grantSeq}, func() (pair[int64, int64], error) {
		return two(d.n.w.model.Prefix(bg, ref, seq, grantSeq))
	})
	return p.First, p.Second, err
}

// Spans asks the database. See bucket.SQL.
func (d *database) Spans(ctx context.Context, spans []bucket.Span) (
	map[bucket.Ref]ledger.SpanFigures, error) {
	return over(ctx, d, verbSpans, spans, func() (map[bucket.Ref]ledger.SpanFigures, error) {
		return d.n.w.model.Spans(bg, spans)
	})
}

// Recount asks the database. See bucket.SQL.
func (d *database) Recount(ctx context.Context, part bucket.Part) (bucket.Recounted, bool, error) {
	p, err := over(ctx, d, verbRecount, part, func() (pair[bucket.Recounted, bool], error) {
		return two(d.n.w.model.Recount(bg, part))
	})
	return p.First, p.Second, err
}

// EpochsAfter asks the database. See bucket.SQL.
func (d *database) EpochsAfter(ctx context.Context, after bucket.Ref, limit int) (
	[]bucket.EpochOf, error) {
	return over(ctx, d, verbEpochsAfter, []any{after, limit}, func() ([]bucket.EpochOf, error) {
		return d.n.w.model.EpochsAfter(bg, after, limit)
	})
}

// Books asks the database. See bucket.SQL.
func (d *database) Books(ctx context.Context, after int64, limit int) ([]bucket.Book, error) {
	return over(ctx, d, verbBooks, []any{after, limit}, func() ([]bucket.Book, error) {
		return d.n.w.model.Books(bg, after, limit)
	})
}

// Stranded asks the database. See bucket.SQL.
func (d *database) Stranded(ctx context.Context, lanes []bucket.Lane) (int64, error) {
	return over(ctx, d, verbStranded, lanes, func() (int64, error) {
		return d.n.w.model.Stranded(bg, lanes)
	})
}

// FeedBounds asks the database. See bucket.SQL.
func (d *database) FeedBounds(ctx context.Context, budgetID int64) ([]bucket.FeedBound, error) {
	return over(ctx, d, verbFeedBounds, budgetID, func() ([]bucket.FeedBound, error) {
		return d.n.w.model.FeedBounds(bg, budgetID)
	})
}

// FeedEntries asks the database. See bucket.SQL.
func (d *database) FeedEntries(ctx context.Context, spans []bucket.FeedSpan) (
	[]ledger.FeedEntry, error) {
	return over(ctx, d, verbFeedEntries, spans, func() ([]ledger.FeedEntry, error) {
		return d.n.w.model.FeedEntries(bg, spans)
	})
}

// ArchiveBounds asks the database. See bucket.SQL.
func (d *database) ArchiveBounds(ctx context.Context, after int64, limit int) (
	[]bucket.ArchiveBound, error) {
	return over(ctx, d, verbArchiveBounds, []any{after, limit}, func() ([]bucket.ArchiveBound, error) {
		return d.n.w.model.ArchiveBounds(bg, after, limit)
	})
}

// BeginArchive asks the database. See bucket.SQL.
func (d *database) BeginArchive(ctx context.Context, bucketID int64, archived int64, upTo int64) (
	int64, error) {
	return over(ctx, d, verbBeginArchive, []any{bucketID, archived, upTo}, func() (int64, error) {
		return d.n.w.model.BeginArchive(bg, bucketID, archived, upTo)
	})
}

// EndArchive asks the database. See bucket.SQL.
func (d *database) EndArchive(ctx context.Context, span bucket.FeedSpan) (bool, error) {
	return over(ctx, d, verbEndArchive, span, func() (bool, error) {
		return d.n.w.model.EndArchive(bg, span)
	})
}
