package commit

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/counters"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/internal/sql/rows"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
)

// fastForm writes a flight as one packet without taking locks first. It assumes that all ids are
// new, that the buckets' epochs are those seen last, and that limit rows are as it reads them
// without locks, or as this node wrote them last. If an assumption is wrong, the packet fails
// before its COMMIT, and the caller continues with the locking form. An operation whose bucket is
// believed to have too little is Short without a packet, which is marked as a guess. ids says that
// the rows of the ids are read before, as they are after a packet that failed for one of them;
// fresh says that all limit rows are read. hinted reports that not all were.
//
// It returns an error with Failed, and with NoReply if the packet may have been committed and may
// still be running. NoReply without an error means that the outcome of the packet is final.
func (d *Decider) fastForm(ctx context.Context, f *flight, ids, fresh bool) (
	hinted bool, _ engine.Sent, _ error) {
	conn, err := d.db.PacketConn(ctx)
	if err != nil {
		return false, engine.Unsent, nil // the locking form reports why
	}
	defer conn.Close()
	t := d.judged(ctx, f, conn, ids, fresh)
	if t != nil && t.limits.hinted && t.count(bucket.Limited) > 0 {
		t = d.judged(ctx, f, conn, ids, true)
	}
	if t == nil {
		return false, engine.Unsent, nil
	}
	d.repeats.Add(-1)
	if ok, err := t.refuseLimited(ctx, conn); err != nil || !ok || len(t.freed) > 0 {
		return false, engine.Unsent, nil
	}
	if t.accepted == 0 {
		t.remaining()
		return false, engine.Committed, nil
	}
	packet, ok := t.packet(conn)
	if !ok {
		return false, engine.Unsent, nil
	}
	d.air.add(t, 1)
	defer d.air.add(t, -1)
	sent, err := conn.Send(ctx, packet, t.readLeft)
	switch {
	case sent == engine.Committed:
		t.remaining()
		d.rememberHints(f)
		d.counters.keep(&t.limits, t.nextVersion)
		return false, sent, nil
	case sent == engine.NoReply:
		if e := conn.Kill(ctx); e != nil {
			return false, sent, engine.MaybeDone("commit", err)
		}
	case sent == engine.Failed:
		return t.limits.hinted, sent, err
	}
	return false, sent, nil
}

// judged judges a flight by hints and by what it reads without locks. It returns nil if the fast
// form cannot succeed.
func (d *Decider) judged(ctx context.Context, f *flight, conn *engine.PacketConn,
	ids, fresh bool) *trial {
	t, ok := d.hintedTrial(f)
	if !ok {
		return nil
	}
	if ok, err := t.readAhead(ctx, conn, d.counters, ids, fresh); err != nil || !ok {
		return nil
	}
	clear(f.out)
	t.judgeAll()
	return t
}

// hintedTrial begins a trial with the hints about the buckets. ok is false if the fast form cannot
// succeed: a bucket is unknown, or different versions of one definition judged the operations.
func (d *Decider) hintedTrial(f *flight) (t *trial, ok bool) {
	t = &trial{flight: f, epochs: map[int64]*bucketState{}, groups: groupsOf(f),
		nowMS: engine.ToMS(d.db.Now())}
	for i := range f.ops {
		op := &f.ops[i]
		s := t.epochs[op.Bucket]
		if s == nil {
			if s = d.hint(op); s == nil {
				return nil, false
			}
			t.epochs[op.Bucket] = s
		}
		if s.judged != op.Budget.Version || s.epoch.Budget != op.Budget.ID {
			return nil, false
		}
	}
	return t, true
}

// hint returns the state of an operation's bucket as remembered here, or as the node has read it.
// It returns nil if the bucket is unknown.
func (d *Decider) hint(op *bucket.Operation) *bucketState {
	s := &bucketState{unlimited: op.Budget.Unlimited, left: math.MaxInt64, judged: op.Budget.Version}
	s.epoch = books.Epoch{Bucket: op.Bucket, Budget: op.Budget.ID, Status: books.Open}
	if known, ok := d.hints.Get(op.Bucket); ok {
		s.epoch.Number, s.left, s.believed = known.epoch, known.outstanding-d.air.of(op.Bucket), true
		return s
	}
	for i := range op.Budget.Buckets {
		if b := &op.Budget.Buckets[i]; b.ID == op.Bucket && b.Epoch.Number > 0 {
			s.epoch.Number = b.Epoch.Number
			return s
		}
	}
	return nil
}

// readAhead reads without locks what the operations are judged by: the limit rows for which there
// is no hint, all of them if fresh is set, and the rows of their ids if ids is set. ok is false if
// a limit must be counted from the ledger.
func (t *trial) readAhead(ctx context.Context, conn *engine.PacketConn, hints *counterHints,
	ids, fresh bool) (ok bool, err error) {
	t.limits.open(t.flight)
	keys := t.limits.keys()
	if !fresh {
		keys = hints.fill(&t.limits, t.nowMS)
	}
	var queries []bookkeeper.Query
	var failed error
	if ids {
		t.known = map[bucket.ID]ledger.Deduction{}
		queries = rows.DeductionsOf(t.ids(all), "", true, t.known, &failed)
	}
	found := map[counters.Key]*counters.Row{}
	queries = append(queries, counters.Queries(keys, "", found, &failed)...)
	queries = append(queries, counters.Overrides(t.limits.overrides(t.flight), &t.limits.bounds)...)
	if len(queries) > 0 {
		if err := cmp.Or(bookkeeper.LookOn(ctx, conn, queries), failed); err != nil {
			return false, err
		}
	}
	hints.check(keys, found)
	for _, row := range found {
		t.limits.put(row)
	}
	t.nowMS = t.limits.now(t.nowMS)
	return len(t.limits.usage(t.flight, t.nowMS)) == 0, nil
}

// refuseLimited looks up the ids of operations that a limit refuses, and adds the rows of recorded
// ones. Call it after the limit rows were read. ok is false if anything else was refused, or a leg
// of a set.
func (t *trial) refuseLimited(ctx context.Context, conn *engine.PacketConn) (ok bool, err error) {
	limited, fit := t.count(bucket.Limited), t.count(bucket.Fits)
	if t.accepted+limited+fit+t.count(bucket.Known)+t.count(bucket.Short) < len(t.ops) {
		return false, nil
	}
	if limited > 0 && fit > 0 { // a refusal of a set names all legs: what fits by a hint may not
		return false, nil
	}
	if limited == 0 {
		return true, nil
	}
	is := func(i int) bool {
		return slices.ContainsFunc(t.out[i:i+t.ops[i].Legs()],
			func(o bucket.Outcome) bool { return o.Verdict == bucket.Limited })
	}
	found := map[bucket.ID]ledger.Deduction{}
	var failed error
	queries := rows.DeductionsOf(t.ids(is), "", true, found, &failed)
	if err := cmp.Or(bookkeeper.LookOn(ctx, conn, queries), failed); err != nil {
		return false, err
	}
	for _, i := range t.byOwner {
		if d, known := found[t.ops[i].ID()]; known && is(i) && d.Decides(t.ops[i].Request.By) {
			for j := i; j < i+t.ops[i].Legs(); j++ {
				t.out[j] = bucket.Outcome{Verdict: bucket.Known, Deduction: d}
			}
		}
	}
	return true, nil
}

// readLeft reads O of a bucket as the packet left it.
func (t *trial) readLeft(row *sql.Rows) error {
	var id, left int64
	if err := row.Scan(&id, &left); err != nil {
		return err
	}
	t.epochs[id].left = left
	return nil
}
