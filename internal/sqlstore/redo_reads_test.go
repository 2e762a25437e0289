package sqlstore

import (
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/series"
)

// samples are kept once, read and dropped.
func (s *scenario) samples() {
	ctx := s.Context()
	v := s.create(budget.Definition{Name: "samples", TotalQuantity: 100}, lanes("sql", 2)...)
	from := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var samples []bucket.Sample
	for i := range 4 {
		samples = append(samples, bucket.Sample{Budget: v.ID, Point: series.Point{At: from.Add(time.Duration(i) * time.Minute),
			Figures: series.Figures{Total: 100, Used: int64(i)}}})
	}
	s.ok("add samples", s.db.AddSamples(ctx, samples[:3]))
	s.ok("add samples", s.db.AddSamples(ctx, samples))
	is(s, "newest", told(s.db.LastSamples(ctx, v.ID, v.ID))(s, "last samples")[v.ID].Used, 3)
	of := told(s.db.SamplesOf(ctx, v.ID, from.Add(time.Minute), from.Add(time.Hour), 10))(s, "samples of")
	is(s, "samples", len(of), 3)
	done(s.db.DropSamples(ctx, from.Add(2*time.Minute), 10))(s, "drop samples") // one that is done again finds none
	is(s, "dropped before", told(s.db.DropSamples(ctx, from.Add(2*time.Minute), 10))(s, "drop samples again"), 0)
	of = told(s.db.SamplesOf(ctx, v.ID, from, from.Add(time.Hour), 10))(s, "samples of")
	is(s, "samples left", len(of), 2)
	holdings := told(s.db.Holdings(ctx, v.ID, v.ID))(s, "holdings")
	is(s, "held by the first", holdings[0].Outstanding, 50)
}

// audit reads a budget and its ledger in every way there is.
func (s *scenario) audit() {
	ctx := s.Context()
	v := s.create(budget.Definition{Name: "audit", TotalQuantity: 100}, lanes("sql", 1)...)
	ref, log := v.Buckets[0].Ref(), s.log(&v.Buckets[0])
	log.deduct(10, "a")
	log.deduct(20, "b")
	log.deduct(5, "a")
	s.commit(log)
	told(s.db.Cancel(ctx, v.ID, "b"))(s, "cancel")
	is(s, "budgets", told(s.db.Budgets(ctx, bucket.Page{AfterID: v.ID - 1, Size: 1}))(s, "budgets")[0].Name, "audit")
	is(s, "version", told(s.db.Versions(ctx, []int64{v.ID, 9999}))(s, "versions")[v.ID].Definition, v.Version)
	id := bucket.ID{Budget: v.ID, RequestID: "a"}
	is(s, "recorded", told(s.db.Recorded(ctx, []bucket.ID{id}))(s, "recorded")[id].Amount, 10)
	judged := told(s.db.Judge(ctx, v.ID, []string{"a", "x"}))(s, "judge")
	is(s, "sum", judged.Cover.Sum(), 90)
	is(s, "covers", told(s.db.Covers(ctx, []int64{v.ID, 9999}))(s, "covers")[v.ID], judged.Cover)
	is(s, "epoch", told(s.db.Epochs(ctx, []bucket.Ref{ref}))(s, "epochs")[ref].Used, 10)
	is(s, "sold", done(s.db.Demand(ctx, v.ID))(s, "demand")[ref.Bucket].Units, 30)
	s.recount(ref)
	books := told(s.db.Books(ctx, v.ID-1, 1))(s, "books")
	is(s, "adjusted", books[0].Adjusted, 100)
	is(s, "after", told(s.db.EpochsAfter(ctx, bucket.Ref{Bucket: ref.Bucket - 1, Epoch: 1 << 40}, 1))(s, "epochs after")[0].Budget,
		v.ID)
	s.books(v.ID, ledger.Figures{Total: 100, Remaining: 65, Used: 10, Returning: 25, Online: 1})
}

// recount adds up what the ledger has of an epoch.
func (s *scenario) recount(ref bucket.Ref) {
	ctx := s.Context()
	granted, deducted, err := s.db.Prefix(ctx, ref, 3, 1)
	s.note("prefix", []any{granted, deducted}, err)
	is(s, "granted", granted, 100)
	is(s, "deducted", deducted, 30)
	spans := told(s.db.Spans(ctx, []bucket.Span{{Ref: ref, From: 2, Seq: 3, GrantSeq: 1}}))(s, "spans")
	is(s, "deducted between", spans[ref].Deducted, 20)
	for _, part := range []bucket.Part{{Ref: ref, UpTo: 2}, {Ref: ref, From: 2, UpTo: 9, End: true}, {Ref: ref, UpTo: 9, End: true}} {
		recounted, found, err := s.db.Recount(ctx, part)
		s.note("recount", []any{recounted, found}, err)
		is(s, "returned", recounted.Returned == 20, part.End)
	}
}

// rowsOnly is a store without the ledger's transaction.
func (s *scenario) rowsOnly() {
	ctx := s.Context()
	lane := bucket.Lane{Instance: "sql"}
	who := done(s.rows.Identity(ctx, lane))(s, "identity") // random
	s.ok("activate", s.rows.Activate(ctx, lane, who, 2))
	ref := bucket.Ref{Bucket: 1 << 40, Epoch: 1, Activation: 2}
	told(s.rows.Open(ctx, lane, []bucket.Ref{ref}))(s, "open")
	told(s.rows.Grant(ctx, lane, []bucket.GrantOrder{{Ref: ref, Number: 1, Amount: 10}}))(s, "grant")
	told(s.rows.Deduct(ctx, lane, []bucket.Operation{{Ref: ref, Amount: 3, Request: request(3, "x")}}))(s, "deduct")
	is(s, "entries", len(told(s.rows.Read(ctx, lane, []bucket.Cursor{{Ref: ref}}, 10))(s, "read")[0].Entries), 3)
	is(s, "balance", told(s.rows.Balances(ctx, lane, []bucket.Ref{ref}))(s, "balances")[0].Balance, 7)
	told(s.rows.Close(ctx, lane, []bucket.Ref{ref}))(s, "close")
	s.ok("leave", s.rows.Leave(ctx, lane, []bucket.Ref{ref}))
	is(s, "entries", len(told(s.rows.Read(ctx, lane, []bucket.Cursor{{Ref: ref}}, 10))(s, "read")[0].Entries), 0)
}
