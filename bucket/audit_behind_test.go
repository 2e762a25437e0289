package bucket_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// slowLedger is SQL whose ledger comes no further than a position, and that remembers up to where it was asked to
// add up rows, and how many.
type slowLedger struct {
	bucket.SQL
	mu    sync.Mutex
	upTo  int64
	asked []bucket.Span
}

func (l *slowLedger) allow(upTo int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.upTo = upTo
}

// Commit takes the entries that are allowed.
func (l *slowLedger) Commit(ctx context.Context, logs []ledger.Log) (bucket.CommitReport, error) {
	l.mu.Lock()
	logs = slices.Clone(logs)
	for i := range logs {
		logs[i].Entries = slices.DeleteFunc(slices.Clone(logs[i].Entries), func(e ledger.Entry) bool { return e.Seq > l.upTo })
	}
	l.mu.Unlock()
	return l.SQL.Commit(ctx, logs)
}

// Spans remembers what is asked, but for the columns alone.
func (l *slowLedger) Spans(ctx context.Context, spans []bucket.Span) (map[bucket.Ref]ledger.SpanFigures, error) {
	l.mu.Lock()
	for _, s := range spans {
		if s.Seq < 1<<62 {
			l.asked = append(l.asked, s)
		}
	}
	l.mu.Unlock()
	return l.SQL.Spans(ctx, spans)
}

// last is the last span asked for.
func (l *slowLedger) last() bucket.Span {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.asked) == 0 {
		return bucket.Span{}
	}
	return l.asked[len(l.asked)-1]
}

// TestLooksWhileTheLedgerIsBehind: a look adds no rows up that it cannot compare; while the ledger stays behind, what is
// compared is an earlier read of the store, so that the next look begins there.
func TestLooksWhileTheLedgerIsBehind(t *testing.T) {
	w := newStoreWorld(t)
	l := &slowLedger{SQL: w.sql, upTo: 1 << 60}
	w.sql = l
	set := storeQuick()
	set.Audit, set.WindowTime = 10*time.Millisecond, time.Hour
	s := w.node(set)
	ref := w.create(s, promo("behind", 1_000_000, 1))
	const looks = time.Second // some: each waits 300 ms for the commits behind the answers
	n := 0
	deducted := func(more int) {
		for range more {
			n++
			if _, err := deduct(s, ref, fmt.Sprint("d", n), 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	deducted(10)
	w.until("the first ten are compared", func() bool { return l.last().Seq == 11 }) // with the grant
	l.allow(15)
	deducted(10)
	time.Sleep(looks) // that read all twenty, and the ledger has fifteen
	if span := l.last(); span.Seq > 15 {
		t.Fatalf("asked for %+v, and the ledger ends at 15", span)
	}
	deducted(10)
	time.Sleep(looks) // that read all thirty
	l.allow(25)
	w.until("what was read when there were twenty is compared", func() bool { return l.last().Seq == 21 })
	time.Sleep(looks)
	if span := l.last(); span.Seq > 25 {
		t.Fatalf("asked for %+v, and the ledger ends at 25", span)
	}
	l.allow(1 << 60)
	w.until("all are compared", func() bool { return l.last().Seq == 31 })
	w.settled(s, ref, int64(n))
}
