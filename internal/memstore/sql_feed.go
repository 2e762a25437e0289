package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// feedRow is what an entry of a bucket's part of the feed is made of: a deduction, one of its rollbacks,
// or the end of its hold.
type feedRow struct {
	deduction *ledger.Deduction
	rollback  *ledger.Rollback
	holdEnd   *ledger.HoldEnd // both nil: the deduction itself
}

// record puts the row with the bucket's next number into the feed.
func (b *sqlBucket) record(entry int64, row feedRow) {
	b.budget.fresh = append(b.budget.fresh, row)
	if b.feed = append(b.feed, row); entry != int64(len(b.feed)) {
		panic(fmt.Sprintf("memstore: entry %d of bucket %d follows entry %d", entry, b.ID, len(b.feed)-1))
	}
}

// entry returns what readers get of a row.
func (r feedRow) entry() ledger.FeedEntry {
	d := r.deduction
	e := ledger.FeedEntry{
		Kind: ledger.FeedDeduct, Bucket: d.Position.Bucket, Entry: d.Entry,
		Epoch: d.Position.Epoch, RequestID: d.RequestID, Amount: d.Amount,
		Reference: d.Reference, Dimensions: d.Dimensions, At: d.CountedAt,
	}
	if r.rollback != nil {
		e.Kind, e.Entry, e.RollbackID = ledger.FeedRollback, r.rollback.Entry, r.rollback.RollbackID
		e.Amount, e.At = r.rollback.Amount, r.rollback.At
	}
	if r.holdEnd != nil {
		e.Kind, e.Entry, e.Amount, e.At = r.holdEnd.Kind, r.holdEnd.Entry, r.holdEnd.Amount, r.holdEnd.At
	}
	e.Held = e.Kind == ledger.FeedDeduct && !d.HoldUntil.IsZero()
	return e
}

// FeedBounds reads the bounds of a budget's buckets. See bucket.Feed.
func (s *SQL) FeedBounds(ctx context.Context, budgetID int64) ([]bucket.FeedBound, error) {
	return transact(ctx, s, "FeedBounds", func(time.Time) ([]bucket.FeedBound, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return nil, err
		}
		out := make([]bucket.FeedBound, len(b.buckets))
		for i, shard := range b.buckets {
			out[i] = bucket.FeedBound{Bucket: shard.ID, Key: shard.Key, Archived: shard.archived,
				Last: shard.newest().NextEntry - 1}
		}
		return out, nil
	})
}

// FeedEntries reads the entries of spans. See bucket.Feed.
func (s *SQL) FeedEntries(ctx context.Context, spans []bucket.FeedSpan) ([]ledger.FeedEntry, error) {
	return transact(ctx, s, "FeedEntries", func(time.Time) ([]ledger.FeedEntry, error) {
		var out []ledger.FeedEntry
		for _, span := range spans {
			if span.Bucket < 1 || span.Bucket > int64(len(s.buckets)) {
				continue
			}
			shard := s.buckets[span.Bucket-1]
			for n := max(span.After, shard.archived) + 1; n <= min(span.UpTo, int64(len(shard.feed))); n++ {
				out = append(out, shard.feed[n-1].entry())
			}
		}
		return out, nil
	})
}
