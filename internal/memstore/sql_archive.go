package memstore

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// ArchiveBounds lists buckets. See bucket.Archive.
func (s *SQL) ArchiveBounds(ctx context.Context, after int64, limit int) ([]bucket.ArchiveBound, error) {
	return transact(ctx, s, "ArchiveBounds", func(time.Time) ([]bucket.ArchiveBound, error) {
		var out []bucket.ArchiveBound
		for _, shard := range s.buckets {
			if shard.ID <= after || len(out) == limit {
				continue
			}
			d, newest := &shard.budget.definition, shard.newest()
			bound := bucket.ArchiveBound{Budget: d.ID, Tenant: d.Tenant, Name: d.Name, Bucket: shard.ID,
				Ordinal: shard.Ordinal, Archived: shard.archived, Archiving: shard.archiving,
				Last: newest.NextEntry - 1, Ended: newest.Number}
			if newest.Status.Live() {
				bound.Ended--
			}
			out = append(out, bound)
		}
		return out, nil
	})
}

// BeginArchive notes what is being archived. See bucket.Archive.
func (s *SQL) BeginArchive(ctx context.Context, bucketID, archived, upTo int64) (int64, error) {
	return transact(ctx, s, "BeginArchive", func(time.Time) (int64, error) {
		if bucketID < 1 || bucketID > int64(len(s.buckets)) {
			return 0, nil
		}
		shard := s.buckets[bucketID-1]
		if shard.archived != archived {
			return 0, nil
		}
		if shard.archiving <= shard.archived {
			shard.archiving = upTo
		}
		if shard.archiving <= shard.archived {
			return 0, nil
		}
		return shard.archiving, nil
	})
}

// EndArchive makes tombstones. See bucket.Archive.
func (s *SQL) EndArchive(ctx context.Context, span bucket.FeedSpan) (bool, error) {
	return transact(ctx, s, "EndArchive", func(time.Time) (bool, error) {
		if span.Bucket < 1 || span.Bucket > int64(len(s.buckets)) {
			return false, nil
		}
		shard := s.buckets[span.Bucket-1]
		if shard.archived != span.After || shard.archiving != span.UpTo || span.UpTo <= span.After {
			return false, nil
		}
		for _, row := range shard.feed[span.After:span.UpTo] {
			if row.rollback != nil {
				row.rollback.Entry = 0
				continue
			}
			if row.holdEnd != nil {
				row.holdEnd.Entry = 0
				continue
			}
			d := row.deduction
			d.Nonce, d.Reference, d.Entry = "", "", 0
			if len(shard.budget.limits.List) == 0 {
				d.Dimensions = ""
			}
		}
		shard.archived = span.UpTo
		s.verify(shard.budget)
		return true, nil
	})
}
