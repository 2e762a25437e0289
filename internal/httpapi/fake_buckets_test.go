package httpapi_test

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/series"
)

func (f *fake) Buckets(_ context.Context, ref bucket.BudgetRef) ([]bucket.BucketView, error) {
	return []bucket.BucketView{aBucket}, f.note("buckets %+v", ref)
}

func (f *fake) Offline(_ context.Context, ref bucket.BudgetRef, key string) (bucket.BucketView, error) {
	b := aBucket
	b.Online, b.OfflineBy, b.Remaining = false, bucket.ByOperator, 0
	return b, f.note("offline %+v %q", ref, key)
}

func (f *fake) Online(_ context.Context, ref bucket.BudgetRef, key string) (bucket.BucketView, error) {
	return aBucket, f.note("online %+v %q", ref, key)
}

func (f *fake) ApplyTo(_ context.Context, ref bucket.BudgetRef, key string) (bucket.BucketView, error) {
	return aBucket, f.note("apply %+v %q", ref, key)
}

func (f *fake) Audit(ctx context.Context, ref bucket.BudgetRef) (bucket.AuditReport, error) {
	if f.before != nil {
		f.before(ctx, ref.Name)
	}
	return bucket.AuditReport{Figures: aView.Figures, Unchecked: []string{"sale:bucket-1"},
		Discrepancies: []ledger.Discrepancy{{Bucket: "sale:bucket-0", Epoch: 4, What: "used", Recorded: 5, Counted: 6}},
	}, f.note("audit %+v", ref)
}

func (f *fake) Resume(_ context.Context, ref bucket.BudgetRef, key string) (bucket.BucketView, error) {
	return aBucket, f.note("resume %+v %q", ref, key)
}

func (f *fake) Feed(ctx context.Context, r bucket.FeedRequest) (bucket.FeedPage, error) {
	if f.before != nil {
		f.before(ctx, r.After)
	}
	until := r.Until
	r.Until = nil // a channel has no text
	err := f.note("feed %+v", r)
	if until == nil && r.Wait > 0 {
		panic("nothing ends the wait")
	}
	deduct := ledger.FeedEntry{Kind: ledger.FeedDeduct, Bucket: 70, Entry: 8, RequestID: "o1", Amount: 5,
		Reference: "ref", Dimensions: `{"user":"u1"}`, At: at}
	back, cancel := deduct, deduct
	back.Kind, back.Entry, back.RollbackID, back.Amount = ledger.FeedRollback, 9, "part", 2
	cancel.Kind, cancel.Entry, cancel.RollbackID, cancel.Amount = ledger.FeedRollback, 10, ledger.CancelID, 3
	cancel.Reference, cancel.Dimensions = "", ""
	hold, confirm, expire, group, extra := deduct, deduct, deduct, cancel, deduct
	hold.Entry, hold.RequestID, hold.Held = 11, "o2", true
	confirm.Kind, confirm.Entry, confirm.RequestID, confirm.Amount = ledger.FeedConfirm, 12, "o2", 4
	expire.Kind, expire.Entry, expire.RequestID = ledger.FeedExpire, 13, "o3"
	group.Entry, group.RequestID, group.RollbackID = 14, "o4", ledger.GroupRollbackID
	extra.Kind, extra.Entry, extra.RequestID = ledger.FeedExtra, 15, "o5"
	extra.Number, extra.Amount, extra.Uncollected = 1, 3, 2
	page := bucket.FeedPage{Next: "next-1"}
	for _, e := range []ledger.FeedEntry{deduct, back, cancel, hold, confirm, expire, group, extra} {
		page.Entries = append(page.Entries, bucket.FeedEntry{FeedEntry: e, BucketKey: "sale:bucket-0"})
	}
	if r.After == "nothing-new" {
		page = bucket.FeedPage{Next: "nothing-new"}
	}
	return page, err
}

func (f *fake) Series(_ context.Context, r bucket.SeriesRequest) (bucket.SeriesAnswer, error) {
	now := series.Point{At: at, Figures: series.Figures{Total: 1000, Undistributed: 100, Quarantined: 1, Forfeited: 2,
		InBuckets: 497, InTransit: 20, Held: 30, Used: 350, Remaining: 617, Stranded: 40}}
	before := now
	before.At, before.Used, before.InBuckets, before.Remaining = at.Add(-time.Minute), 300, 547, 667
	return bucket.SeriesAnswer{Span: series.Span{From: before.At, To: at, Step: time.Minute},
		Points: []series.Point{before, now}, Now: now, Projection: f.projection}, f.note("series %+v", r)
}
