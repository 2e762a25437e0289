package crashpoints

import (
	"context"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/ledger"
)

// count counts the rows of all budgets anew.
func (w *world) count(when string) {
	tables := w.model.Tables()
	for i := range tables.Budgets {
		var kept map[entryOf]ledger.FeedEntry
		var wrong []string
		if w.shelf != nil {
			kept, wrong = w.shelf.recount(&tables.Budgets[i])
		}
		for _, why := range append(wrong, recount(&tables.Budgets[i], kept)...) {
			w.fault("%s: %s", when, why)
		}
	}
}

// recount proves I1, I2, I4, I5 and I7 of a budget from its rows alone, and from what is kept of its feed. It
// shares no code with ledger.Check.
func recount(b *memstore.BudgetRow, kept map[entryOf]ledger.FeedEntry) (wrong []string) {
	is := func(what string, got, want int64) {
		if got != want || got < 0 {
			wrong = append(wrong, fmt.Sprintf("%s is %d, the rows give %d", what, got, want))
		}
	}
	adjusted, shrinking := int64(0), int64(0)
	for _, a := range b.Adjustments {
		switch a.State {
		case bucket.AdjustmentDone:
			adjusted += a.Quantity
		case bucket.AdjustmentPending:
			shrinking -= a.Quantity
		}
	}
	is("T", b.Definition.TotalQuantity, adjusted)
	is("the pending shrinks", b.PendingShrink, shrinking)
	back := map[string]int64{}
	for _, r := range b.Rollbacks {
		back[r.RequestID] += r.Amount
	}
	for _, h := range b.HoldEnds {
		back[h.RequestID] += h.Returned
	}
	places, used, spread := 0, int64(0), b.Undistributed+b.Quarantined+b.Unfunded+b.Forfeited
	for i := range b.Buckets {
		for j := range b.Buckets[i].Epochs {
			e := &b.Buckets[i].Epochs[j]
			spread += e.Outstanding + e.Held + e.Used + e.Returning
			used += e.Used
			places += len(e.Deductions)
			for _, why := range recountEpoch(b, e, back) {
				wrong = append(wrong, fmt.Sprintf("bucket %d, epoch %d: %s", e.Bucket, e.Number, why))
			}
		}
	}
	is("U", b.Undistributed, b.Undistributed) // not negative
	is("F", b.Unfunded, b.Unfunded)
	is("Q", b.Quarantined, recountQuarantine(b))
	wrong = append(wrong, recountPeriods(b)...)
	is("the sum of all places", spread, b.Definition.TotalQuantity)
	if used > b.Definition.TotalQuantity {
		wrong = append(wrong, fmt.Sprintf("%d are used of %d", used, b.Definition.TotalQuantity))
	}
	for id, d := range b.Deductions {
		is("rolled back of "+id, d.RolledBack, back[id])
		if d.RolledBack > d.Amount {
			wrong = append(wrong, fmt.Sprintf("%s: %d of %d rolled back", id, d.RolledBack, d.Amount))
		}
		if d.State != ledger.StateVoid {
			places--
		}
	}
	is("deductions that an epoch has and the ledger has not", int64(places), 0)
	return append(wrong, recountEntries(b, kept)...)
}

// recountPeriods counts what each period got, and where it is.
func recountPeriods(b *memstore.BudgetRow) (wrong []string) {
	is := func(what string, got, want int64) {
		if got != want || got < 0 {
			wrong = append(wrong, fmt.Sprintf("%s is %d, the rows give %d", what, got, want))
		}
	}
	held := map[int64]int64{}
	for i := range b.Buckets {
		for j := range b.Buckets[i].Epochs {
			e := &b.Buckets[i].Epochs[j]
			held[e.Period] += e.Outstanding + e.Held + e.Used + e.Returning
			for _, q := range b.Quarantines {
				if q.Bucket == e.Bucket && q.Epoch == e.Number {
					held[e.Period] += q.Quantity - q.Released
				}
			}
		}
	}
	if !b.Period.Over {
		held[b.Period.Number] += b.Undistributed
	}
	unfunded, passed, carried := b.Definition.TotalQuantity, int64(0), int64(0)
	for _, p := range b.Periods {
		is(fmt.Sprint("what period ", p.Number, " got"), p.Funded+p.Carried,
			held[p.Number]+p.Returned+p.Passed+p.Forfeited)
		unfunded += p.Returned - p.Funded
		passed, carried = passed+p.Passed, carried+p.Carried
	}
	is("F", b.Unfunded, unfunded)
	is("what periods carried over", carried, passed)
	return wrong
}

// recountEpoch counts one epoch.
func recountEpoch(b *memstore.BudgetRow, e *memstore.EpochRow, back map[string]int64) (wrong []string) {
	is := func(what string, got, want int64) {
		if got != want || got < 0 {
			wrong = append(wrong, fmt.Sprintf("%s is %d, the rows give %d", what, got, want))
		}
	}
	var granted, deducted, duplicated, returned, held int64
	for _, g := range e.Grants {
		granted += g.Amount
	}
	seqs := map[int64]bool{}
	place := func(at ledger.Position) {
		if seqs[at.Seq] || at.Seq < 1 || at.Seq > e.DrainedSeq || at.Bucket != e.Bucket || at.Epoch != e.Number {
			wrong = append(wrong, fmt.Sprintf("a row at %+v, drained up to %d", at, e.DrainedSeq))
		}
		seqs[at.Seq] = true
	}
	for _, d := range e.Deductions {
		place(d.Position)
		deducted += d.Amount
		returned += back[d.RequestID]
		if d.State == ledger.StateHeld {
			held += d.Amount - back[d.RequestID]
		}
		if known, ok := b.Deductions[d.RequestID]; !ok || known.Position != d.Position ||
			known.Amount != d.Amount {
			wrong = append(wrong, fmt.Sprintf("%s is deducted here and %+v in the ledger", d.RequestID, known))
		}
	}
	for _, d := range e.Duplicates {
		place(d.Position)
		duplicated += d.Amount
	}
	ended := int64(0)
	if e.Status == ledger.Closed || e.Status == ledger.Lost {
		ended = granted - deducted - duplicated
	}
	is("what its end gave back", e.Closed, ended)
	is("O", e.Outstanding, granted-deducted-duplicated-ended)
	is("S", e.Used, deducted-returned-held)
	is("H", e.Held, held)
	is("R", e.Returning, duplicated+returned-e.Swept)
	is("what was swept", e.Swept, e.Swept)
	is("the next grant", e.NextGrant, int64(len(e.Grants))+1)
	return wrong
}

// recountEntries looks that the ledger's entries of each bucket are 1, 2, 3, … without a gap: every
// reader of the feed gets each exactly once. The first ones may be kept instead.
func recountEntries(b *memstore.BudgetRow, kept map[entryOf]ledger.FeedEntry) (wrong []string) {
	entries := map[int64]map[int64]int{} // by bucket: how often each entry number was given
	for _, e := range feed(b) {
		if entries[e.Bucket] == nil {
			entries[e.Bucket] = map[int64]int{}
		}
		entries[e.Bucket][e.Entry]++
	}
	for i := range b.Buckets {
		id, next := b.Buckets[i].Bucket.ID, b.Buckets[i].Newest().NextEntry
		given, archived := entries[id], true
		for entry := int64(1); entry < next; entry++ {
			_, found := kept[entryOf{id, entry}]
			archived = archived && found && given[entry] == 0
			if given[entry] != 1 && !archived {
				wrong = append(wrong, fmt.Sprintf("bucket %d: entry %d is there %d times", id, entry, given[entry]))
			}
			delete(given, entry)
		}
		if len(given) > 0 {
			wrong = append(wrong, fmt.Sprintf("bucket %d: entries %v at or above the next, %d", id, given, next))
		}
	}
	return wrong
}

// pending lists what is left half done by any status in SQL.
func (w *world) pending() []string {
	open := w.halfDone()
	tables := w.model.Tables()
	for i := range tables.Budgets {
		if w.shelf != nil && w.trace.from != archiving {
			open = append(open, w.shelf.unkept(&tables.Budgets[i])...)
		}
		if run := tables.Budgets[i].Run; run != nil {
			open = append(open, fmt.Sprintf("%s: run %d is open", tables.Budgets[i].Definition.Name, run.Number))
		}
		for _, r := range tables.Budgets[i].Recycles {
			if r.EndedAt.IsZero() {
				open = append(open, fmt.Sprintf("%s: recycle %d is open: %d of %d", tables.Budgets[i].Definition.Name,
					r.Number, r.Done, len(r.Plan)))
			}
		}
	}
	return open
}

// halfDone is pending but for runs and, where the operation is not about it, archiving: they keep nobody from
// anything, and are given time.
func (w *world) halfDone() (open []string) {
	open = w.trace.gone()
	tables := w.model.Tables()
	for i := range tables.Budgets {
		b := &tables.Budgets[i]
		name := b.Definition.Name
		note := func(format string, args ...any) {
			open = append(open, name+": "+fmt.Sprintf(format, args...))
		}
		if !b.RollOver.IsZero() && !time.Now().Before(b.RollOver) {
			note("period %d is over since %s", b.Period.Number, b.RollOver)
		}
		if b.PendingShrink != 0 {
			note("%d are to be taken out", b.PendingShrink)
		}
		online, retired := 0, 0
		for j := range b.Buckets {
			bk := &b.Buckets[j]
			if bk.Bucket.Online {
				online++
			}
			if bk.Bucket.OfflineBy == bucket.ByService {
				retired++
			}
			if tables.Lanes[bk.Bucket.Lane].Draining {
				note("bucket %d is on a lane that is being drained", bk.Bucket.ID)
			}
			if newest := bk.Newest(); bk.Bucket.Online && !newest.Status.Live() {
				note("bucket %d is online and its epoch %d %s", bk.Bucket.ID, newest.Number, newest.Status)
			}
			for k := range bk.Epochs {
				open = append(open, pendingEpoch(name, &bk.Epochs[k])...)
				if b.Definition.Durability == budget.Store {
					open = append(open, w.behind(bk.Bucket.Lane, &bk.Epochs[k], tables.Lanes)...)
				}
			}
		}
		if w.trace.from == archiving {
			open = append(open, w.shelf.unkept(b)...)
		}
		if b.Undistributed > 0 && online == 0 && retired > 0 {
			note("%d are undistributed and no bucket is online", b.Undistributed)
		}
	}
	return open
}

func pendingEpoch(name string, e *memstore.EpochRow) (open []string) {
	note := func(format string, args ...any) {
		open = append(open, fmt.Sprintf("%s: bucket %d, epoch %d ", name, e.Bucket, e.Number)+
			fmt.Sprintf(format, args...))
	}
	if e.Status == ledger.Opening || e.Status == ledger.Closing {
		note("is %s", e.Status)
	}
	if e.Status.Live() && e.Fenced != "" {
		note("is fenced: %s", e.Fenced)
	}
	if e.Returning > 0 {
		note("has %d returning", e.Returning)
	}
	for i, g := range e.Grants {
		if g.Status == "pending" {
			note("has grant %d pending", i+1)
		}
	}
	return open
}

// prove counts everything that can be counted while a node serves.
func (w *world) prove(when string) {
	w.count(when)
	ctx, tables := context.Background(), w.model.Tables()
	for i := range tables.Budgets {
		d := &tables.Budgets[i].Definition
		accounts, err := w.model.Accounts(ctx, d.ID)
		if err != nil {
			w.fault("%s: accounts of %s: %v", when, d.Name, err)
			return
		}
		for _, wrong := range accounts.Check() {
			w.fault("%s: ledger.Check of %s: %s", when, d.Name, wrong)
		}
		report, err := w.node.Audit(ctx, bucket.BudgetRef{ID: d.ID})
		if err != nil || !report.OK || len(report.Unchecked) > 0 {
			w.fault("%s: audit of %s: %v, discrepancies %v, unchecked %v", when, d.Name, err, report.Discrepancies,
				report.Unchecked)
		}
	}
}

// compare reads every open bucket's balance from its store: it must be what the ledger has as
// outstanding. Nothing runs meanwhile.
func (w *world) compare() {
	tables, ctx := w.model.Tables(), context.Background()
	stores := map[bucket.Lane]*memstore.Store{}
	for lane, row := range tables.Lanes {
		store := w.servers[lane.Instance].Connect()
		who, err := store.Identity(ctx, lane)
		if err == nil {
			err = store.Activate(ctx, lane, who, row.Activation)
		}
		if err != nil {
			w.fault("lane %s: %v", lane, err)
			return
		}
		stores[lane] = store
	}
	for i := range tables.Budgets {
		for j := range tables.Budgets[i].Buckets {
			bk := &tables.Budgets[i].Buckets[j]
			e := bk.Newest()
			if e.Status != ledger.Open {
				continue
			}
			ref := bucket.Ref{Bucket: e.Bucket, Epoch: e.Number, Activation: e.Activation}
			got, err := stores[bk.Bucket.Lane].Balances(ctx, bk.Bucket.Lane, []bucket.Ref{ref})
			if err != nil || got[0].Verdict != bucket.OK || got[0].Balance != e.Outstanding ||
				got[0].Seq != e.DrainedSeq {
				w.fault("bucket %d, epoch %d: the store has %+v, the ledger O = %d at %d; %v", e.Bucket,
					e.Number, got, e.Outstanding, e.DrainedSeq, err)
			}
		}
	}
}

// sellAll sells what is left of each budget.
func (w *world) sellAll() {
	first := w.budget
	tables := w.model.Tables()
	for i := range tables.Budgets {
		w.budget.Name = tables.Budgets[i].Definition.Name
		w.sellOut()
	}
	w.budget = first
}

// sellOut sells what is left, in three calls, and then asks for one more (I2, I3).
func (w *world) sellOut() {
	b := w.row()
	left := b.Definition.TotalQuantity
	for i := range b.Buckets {
		for j := range b.Buckets[i].Epochs {
			left -= b.Buckets[i].Epochs[j].Used
		}
	}
	for i, amount := range []int64{left / 2, min(left-left/2, 1), left - left/2 - min(left-left/2, 1)} {
		if amount == 0 {
			continue
		}
		if err := w.insist(fmt.Sprint("sold ", i), amount); err != nil {
			w.fault("selling %d of the %d that are left: %v", amount, left, err)
			return
		}
	}
	_, err := w.deduct(context.Background(), w.node, "one more", 1, "")
	if !budget.Is(err, budget.BudgetExhausted) {
		w.fault("one more than there is: %v", err)
	}
}

// insist deducts, and repeats what was not done a few times.
func (w *world) insist(id string, amount int64) (err error) {
	const tries = 5
	for range tries {
		if _, err = w.deduct(context.Background(), w.node, id, amount, ""); !uncertain(err) {
			return err
		}
	}
	return err
}

func (w *world) deduct(ctx context.Context, node *bucket.Service, id string, amount int64, key string) (
	bucket.DeductAnswer, error) {
	answer, err := node.Deduct(ctx, bucket.DeductRequest{Budget: w.budget, RequestID: id, Amount: amount,
		Key: key})
	if err == nil && (answer.RequestID != id || answer.Amount != amount) {
		w.fault("%s of %d was answered with %+v", id, amount, answer)
	}
	return answer, err
}
