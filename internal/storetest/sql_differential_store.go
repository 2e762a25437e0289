package storetest

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// diffPlace names an epoch by its budget's place in the sequence, its bucket's ordinal and its
// number: ids may differ between databases.
type diffPlace struct {
	budget, ordinal int
	epoch           int64
}

func (p diffPlace) String() string { return fmt.Sprintf("%d.%d/%d", p.budget, p.ordinal, p.epoch) }

// diffStore is one database with its clock and the logs of its buckets.
type diffStore struct {
	ctx     context.Context
	db      bucket.SQL
	clock   *SQLClock
	start   time.Time
	budgets []diffIDs
	indices map[int64]int       // by a budget's id
	buckets map[int64]diffPlace // by id, without the epoch
	books   map[diffPlace]*sqlBook
	lists   map[int]int64 // list versions last seen
}

type diffIDs struct {
	id      int64
	buckets []int64
}

// diffStart is the instant at which every database's clock begins: in Berlin a day of 23 hours has begun.
var diffStart = time.Date(2031, time.March, 30, 0, 0, 0, 0, time.UTC)

func newDiffStore(t *testing.T, ctx context.Context, start time.Time, open SQLOpener) *diffStore {
	clock := &SQLClock{now: time.Now().Truncate(time.Second)}
	db := open(t, clock.Now)
	clock.Advance(start.Sub(db.Now())) // whatever the offset that it measured
	return &diffStore{
		ctx: ctx, db: db, clock: clock, start: start,
		indices: map[int64]int{}, buckets: map[int64]diffPlace{}, lists: map[int]int64{},
		books: map[diffPlace]*sqlBook{},
	}
}

// at is an instant after the start, by the database's clock; 0: none.
func (s *diffStore) at(after time.Duration) time.Time {
	if after == 0 {
		return time.Time{}
	}
	return s.start.Add(after)
}

// since is the reverse of at.
func (s *diffStore) since(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Sub(s.start).String()
}

// id is a budget's id, one that does not exist for -1.
func (s *diffStore) id(index int) int64 {
	if index < 0 {
		return 1 << 40
	}
	return s.budgets[index].id
}

// bucketID is a bucket's id.
func (s *diffStore) bucketID(p diffPlace) int64 { return s.budgets[p.budget].buckets[p.ordinal] }

// ref names an epoch as the database does.
func (s *diffStore) ref(p diffPlace) bucket.Ref {
	ref := bucket.Ref{Bucket: s.bucketID(p), Epoch: p.epoch, Activation: 1}
	if book := s.books[p]; book != nil {
		ref.Activation = book.ref.Activation
	}
	return ref
}

// read reads a budget; it must exist.
func (s *diffStore) read(index int) bucket.Budget {
	b, err := s.db.Budget(s.ctx, bucket.BudgetRef{ID: s.id(index)})
	if err != nil {
		panic(err)
	}
	return b
}

// row reads an epoch; it must exist.
func (s *diffStore) row(p diffPlace) ledger.Epoch {
	ref := s.ref(p)
	rows, err := s.db.Epochs(s.ctx, []bucket.Ref{ref})
	if err != nil {
		panic(err)
	}
	return rows[ref]
}

// place is the reverse of ref.
func (s *diffStore) place(bucketID, epoch int64) diffPlace {
	p := s.buckets[bucketID]
	p.epoch = epoch
	return p
}

// The functions below render what a database answers.

func (s *diffStore) refText(r bucket.Ref) string {
	return fmt.Sprintf("%v@%d", s.place(r.Bucket, r.Epoch), r.Activation)
}

func (s *diffStore) order(o *bucket.GrantOrder) string {
	if o == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s #%d %d", s.refText(o.Ref), o.Number, o.Amount)
}

func (s *diffStore) epoch(e ledger.Epoch) string {
	at := s.place(e.Bucket, e.Number)
	chain := "right"
	if book := s.books[at]; book != nil && e.DrainedSeq < int64(len(book.entries)) {
		if e.DrainedChain != book.entries[e.DrainedSeq].Chain {
			chain = "wrong"
		}
	} else if e.DrainedChain != ledger.OpenChain(e.Bucket, e.Number, e.Activation) {
		chain = "wrong"
	}
	return fmt.Sprintf("%v@%d of %d period %d %s O%d H%d S%d R%d late %d g%d e%d drained %d %s %q ends %s", at,
		e.Activation, at.budget, e.Period, e.Status, e.Outstanding, e.Held, e.Used, e.Returning, e.Late, e.NextGrant,
		e.NextEntry, e.DrainedSeq, chain, e.Fenced, s.since(e.EndAt))
}

func (s *diffStore) position(p ledger.Position) string {
	if p == (ledger.Position{}) {
		return "-"
	}
	return fmt.Sprintf("%v:%d", s.place(p.Bucket, p.Epoch), p.Seq)
}

func (s *diffStore) deduction(d ledger.Deduction) string {
	return fmt.Sprintf("%q %d-%d %s %x %x %q %q at %s e%d %s", d.RequestID, d.Amount, d.RolledBack,
		d.State, d.Fingerprint, d.Nonce, d.Reference, d.Dimensions, s.position(d.Position), d.Entry,
		s.since(d.CountedAt))
}

func (s *diffStore) outcome(o ledger.Outcome) string {
	text := s.position(o.Position)
	if d := o.Duplicate; d != nil {
		text += fmt.Sprintf(" %s %q %d %x %s", d.Reason, d.RequestID, d.Amount, d.Nonce,
			s.position(d.Position)) + s.figures(d)
	}
	text += s.states(o.Limits)
	if o.Deduction != nil {
		text += " " + s.deduction(*o.Deduction)
	}
	return text
}

func (s *diffStore) definition(d budget.Definition) string {
	return fmt.Sprintf("%s %q late %q %s/%s %q %s %s %s T%d x%d sharding %d cnt %d from %s to %s paused %v "+
		"v%d %s %s", ruleText(d.Rule), d.Timezone, d.LateRefund, d.Tenant, d.Name, d.GLCode, d.Unit, d.Durability, d.Type, d.TotalQuantity,
		d.BucketQuantity, d.ShardingQuantity, d.AdjustCnt, s.since(d.StartAt), s.since(d.EndAt),
		d.Paused, d.Version, s.since(d.CreatedAt), s.since(d.UpdatedAt)) + s.limitsText(d.Limits)
}

func (s *diffStore) bucket(b bucket.Bucket) string {
	return fmt.Sprintf("%d %s %v online %v %q out %d cnt %d %s [%s]", b.Ordinal, b.Key, b.Lane,
		b.Online, b.OfflineBy, b.OutQuantity, b.OutCnt, s.since(b.UpdatedAt), s.epoch(b.Epoch))
}

func (s *diffStore) budget(b bucket.Budget) string {
	text := s.definition(b.Definition) + "\n   " + s.period(b.Period)
	for i := range b.Buckets {
		text += "\n   " + s.bucket(b.Buckets[i])
	}
	return text
}

// ruleText tells rules from each other, in few words.
func ruleText(rule *budget.Rule) string {
	if rule == nil {
		return "-"
	}
	return fmt.Sprintf("%s %s %d %s %d windows %x", rule.Kind, rule.Every, rule.Quantity, rule.Unused,
		len(rule.Windows), crc32.ChecksumIEEE(fmt.Append(nil, *rule)))
}

func (s *diffStore) period(p budget.Period) string {
	return fmt.Sprintf("period %d over %v from %s to %s got %d + %d, before %d", p.Number, p.Over, s.since(p.Start),
		s.since(p.End), p.Funded, p.Carried, p.Before)
}

func (s *diffStore) epochsOf(epochs []bucket.EpochOf) string {
	texts := make([]string, len(epochs))
	for i, e := range epochs {
		texts[i] = fmt.Sprintf("%v %v", e.Lane, s.epoch(e.Row))
		if index, found := s.indices[e.Budget]; !found || index != s.place(e.Row.Bucket, 0).budget {
			texts[i] += " of another budget"
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, "; ")
}

func (s *diffStore) grants(grants []bucket.PendingGrant) string {
	texts := make([]string, len(grants))
	for i, g := range grants {
		texts[i] = fmt.Sprintf("%v %s", g.Lane, s.order(&g.Order))
	}
	slices.Sort(texts)
	return strings.Join(texts, "; ")
}

// failure renders an error, and the result that it counts as for a verb.
func failure(verb string, err error) diffAnswer {
	var refusal *budget.Error
	var mismatch *ledger.Mismatch
	switch {
	case errors.Is(err, ledger.ErrReadAgain):
		return answer(verb+": read again", "read again")
	case errors.Is(err, ledger.ErrEnded):
		return answer(verb+": ended", "ended")
	case errors.Is(err, ledger.ErrFenced):
		return answer(verb+": fenced", "fenced")
	case errors.As(err, &mismatch):
		return answer(verb+": mismatch", "%s", mismatch.Why)
	case errors.As(err, &refusal):
		text := string(refusal.Code)
		if refusal.Available != nil {
			text += fmt.Sprintf(" available %d", *refusal.Available)
		}
		for _, f := range refusal.Fields {
			text += " " + f.Field
		}
		if kind := refusal.Code.Kind(); kind == budget.MayBeDone ||
			refusal.Code == budget.Unavailable && refusal.Err != nil {
			text += ": " + refusal.Error()
		}
		return answer(verb+": "+string(refusal.Code), "%s", text)
	}
	return answer(verb+": unexpected", "unexpected: %v", err)
}

func answer(result, format string, args ...any) diffAnswer {
	return diffAnswer{text: fmt.Sprintf(format, args...), met: []string{result}}
}
