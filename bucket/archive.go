package bucket

import (
	"context"
	"fmt"

	"github.com/budgetd/budgetd/ledger"
)

// Bounds of archiving.
const (
	// archiveBuckets is how many buckets one look takes on, archiveSegments how many segments of each,
	// archiveSegment the most entries of a segment: one file and one transaction.
	archiveBuckets, archiveSegments, archiveSegment = 200, 20, 500
)

// Segment is entries of one bucket that are archived together, all of one day.
type Segment struct {
	Bound ArchiveBound
	// Day is the day of the entries in UTC, as 2006-01-02.
	Day     string
	Entries []FeedEntry
}

// Archiver keeps segments outside the database.
type Archiver interface {
	// Keep writes a segment so that it survives a crash once it returns. Keeping the same one again,
	// from any node, leaves one copy.
	Keep(ctx context.Context, segment Segment) error
}

// archive takes entries that are older than Settings.Keep out of the feed, after the archiver has
// kept them, of epochs that have ended. It looks at one page of buckets, and each time at the next
// one. Any node may do it, also several at once:
//
//  1. BeginArchive notes up to which entry; whoever comes later takes the same ones.
//  2. They are read and kept: rows of the feed do not change, so a repetition, by whomever, writes the
//     same bytes under the same name.
//  3. EndArchive takes them out of the feed, once, in one transaction.
//
// After a crash between any two the next look finds the note and does the rest.
func (s *Service) archive(ctx context.Context) {
	bounds, err := s.sql.ArchiveBounds(ctx, s.archiveFrom, archiveBuckets)
	if err != nil {
		s.failed("sql", err)
		return
	}
	s.archiveFrom = 0
	if len(bounds) == archiveBuckets {
		s.archiveFrom = bounds[len(bounds)-1].Bucket
	}
	for _, bound := range bounds {
		for range archiveSegments {
			done, err := s.archiveNext(ctx, &bound)
			if err != nil {
				s.log.Warn("entries not archived yet", "bucket", bound.Bucket, "entry", bound.Archived+1,
					"error", err)
				return // the next look begins behind this page, so that others come in turn
			}
			if !done {
				break
			}
		}
	}
}

// archiveNext archives the next segment of a bucket and moves the bound behind it. false: there is
// none, or somebody else is at it.
func (s *Service) archiveNext(ctx context.Context, bound *ArchiveBound) (bool, error) {
	if bound.Archived >= bound.Last {
		return false, nil
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	span := FeedSpan{Bucket: bound.Bucket, After: bound.Archived,
		UpTo: min(bound.Last, bound.Archived+archiveSegment)}
	if bound.Archiving > bound.Archived {
		span.UpTo = bound.Archiving // somebody has begun
	}
	rows, err := s.sql.FeedEntries(step, []FeedSpan{span})
	if err != nil {
		return false, err
	}
	if bound.Archiving <= bound.Archived {
		rows = rows[:ledger.Archivable(rows, bound.Ended, s.sql.Now().Add(-s.set.Keep))]
		span.UpTo = span.After + int64(len(rows))
	}
	if len(rows) == 0 {
		return false, nil
	}
	noted, err := s.sql.BeginArchive(step, span.Bucket, span.After, span.UpTo)
	if err != nil || noted == 0 {
		return false, err
	}
	if noted != span.UpTo { // somebody was first, with others
		bound.Archiving = noted
		return s.archiveNext(ctx, bound)
	}
	// Nobody had archived any of them when they were noted, so all were there when they were read.
	if missing, found := firstMissing([]FeedSpan{span}, rows); found {
		return false, fmt.Errorf("entry %d has no row", missing.UpTo)
	}
	if err := s.keep(step, *bound, rows); err != nil {
		return false, err
	}
	if _, err := s.sql.EndArchive(step, span); err != nil {
		return false, err
	}
	bound.Archived = span.UpTo
	return true, nil
}

// keep gives a segment to the archiver, where there is one.
func (s *Service) keep(ctx context.Context, bound ArchiveBound, rows []ledger.FeedEntry) error {
	if s.archiver == nil {
		return nil
	}
	segment := Segment{Bound: bound, Day: ledger.Day(rows[0].At), Entries: make([]FeedEntry, len(rows))}
	key := bucketKey(bound.Name, bound.Ordinal)
	for i, row := range rows {
		segment.Entries[i] = FeedEntry{FeedEntry: row, BucketKey: key}
	}
	return s.archiver.Keep(ctx, segment)
}
