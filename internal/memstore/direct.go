package memstore

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

var _ bucket.Direct = (*Rows)(nil)

// Rows is a Store whose memory is in the ledger's own database: it deducts and commits in one step,
// of which a Hook sees one operation. Safe for concurrent use.
type Rows struct {
	*Store
	sql *SQL
}

// ConnectRows returns a Store of this memory for one node, as rows of that database.
func (s *Server) ConnectRows(sql *SQL) *Rows { return &Rows{Store: s.Connect(), sql: sql} }

// DeductAndCommit deducts and drains, all operations in one step. See bucket.Direct. An epoch that is
// not open in the ledger answers EpochClosed, one that is fenced or whose log does not match Broken.
func (s *Rows) DeductAndCommit(ctx context.Context, at bucket.Lane, operations []bucket.Operation) (
	[]bucket.Reply, []*ledger.Outcome, error) {
	for i := range operations {
		if err := operations[i].Check(); err != nil {
			return nil, nil, err
		}
	}
	if len(operations) == 0 {
		return nil, nil, nil
	}
	l, err := s.find("deduct", at)
	if err != nil {
		return nil, nil, err
	}
	var out deducted
	err = s.server.walk(ctx, "deduct", l, 1, func(int) bucket.Ref { return operations[0].Ref },
		func(_ int, again bool) error {
			if s.server.who() != l.identity ||
				!s.server.memory.scripts[script{at.Index, l.activation}] {
				return bucket.ErrMemoryLost
			}
			s.sql.mu.Lock()
			defer s.sql.mu.Unlock()
			if did := s.deductAndDrain(l, operations); !again {
				out = did
			}
			return nil
		})
	if err != nil {
		return nil, nil, err
	}
	return out.replies, out.outcomes, nil
}

type deducted struct {
	replies  []bucket.Reply
	outcomes []*ledger.Outcome
}

// deductAndDrain is the transaction. Both locks are held.
func (s *Rows) deductAndDrain(l lane, operations []bucket.Operation) deducted {
	out := deducted{make([]bucket.Reply, len(operations)), make([]*ledger.Outcome, len(operations))}
	before := s.server.memory.copy()
	var changed []bucket.Ref
	seen := map[bucket.Ref]bool{}
	for i, o := range operations {
		row := s.sql.epoch(o.Ref)
		switch {
		case row == nil:
			out.replies[i].Verdict = bucket.EpochGone
		case row.Fenced != "":
			out.replies[i] = bucket.Reply{Verdict: bucket.Broken, Why: "fenced: " + row.Fenced}
		case row.Status != ledger.Open:
			out.replies[i].Verdict = bucket.EpochClosed
		default:
			o.Record = false // the ledger's primary key decides
			out.replies[i] = s.server.shard(l.Index, o.Ref.Bucket).deduct(o, l.activation, 0, s.server.now().UnixMilli())
			if out.replies[i].Verdict == bucket.OK && !seen[o.Ref] {
				seen[o.Ref], changed = true, append(changed, o.Ref)
			}
		}
	}
	for _, ref := range changed {
		s.drain(l, ref, before, operations, out)
	}
	return out
}

// drain brings the log of an epoch into the ledger, or takes back what was deducted from it.
func (s *Rows) drain(l lane, ref bucket.Ref, before memory, operations []bucket.Operation,
	out deducted) {
	shard, row := s.server.shard(l.Index, ref.Bucket), s.sql.epoch(ref)
	log := ledger.Log{Bucket: ref.Bucket, Epoch: ref.Epoch, From: row.DrainedSeq,
		Entries: shard.read(bucket.Cursor{Ref: ref, From: row.DrainedSeq}, len(shard.log)).Entries}
	report := s.sql.drain(log, s.sql.Now(), true)
	outcomes := map[int64]*ledger.Outcome{}
	for i := range report.Outcomes {
		outcomes[report.Outcomes[i].Position.Seq] = &report.Outcomes[i]
	}
	for i, o := range operations {
		switch {
		case o.Ref != ref || out.replies[i].Verdict != bucket.OK:
		case report.Err != nil:
			out.replies[i] = bucket.Reply{Verdict: bucket.Broken, Why: report.Err.Error()}
		default:
			out.outcomes[i] = outcomes[out.replies[i].Seq]
		}
	}
	if report.Err != nil {
		at := address{lane: l.Index, bucket: ref.Bucket}
		s.server.memory.buckets[at] = before.buckets[at]
		return
	}
	shard.trim(bucket.Cursor{Ref: ref, From: report.Row.DrainedSeq})
}
