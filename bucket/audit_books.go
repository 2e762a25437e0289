package bucket

import (
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// bookPage is how many budgets one statement reads.
const bookPage = 200

// BudgetFigures are a budget's figures, for metrics.
type BudgetFigures struct {
	Tenant, Name string
	Figures      ledger.Figures
}

// bookkeeping is how far the look at the budgets has come. One loop has it.
type bookkeeping struct {
	after int64
	// shown are the budgets with the largest totals of this pass, all the sum of every budget.
	shown []BudgetFigures
	all   ledger.Figures
	// atRisk is ΣO of the live epochs of budgets in store mode.
	atRisk int64
	// attributed says when the epochs of a budget that does not add up may be looked through again.
	attributed map[int64]time.Duration
}

// lookAtBooks compares the columns of the budgets with each other: as many as can be read in half of
// the time between two looks, and the next ones the next time.
func (s *Service) lookAtBooks(ctx context.Context) {
	k, began := &s.bookkeeping, s.now()
	if k.after == 0 && s.set.KeepSeries > 0 {
		s.sampling.begin(s.sql.Now(), s.set.SampleEvery)
	}
	for s.now()-began <= s.set.Audit/2 && ctx.Err() == nil {
		books, err := s.readBooks(ctx, k.after, bookPage)
		if err != nil {
			return
		}
		for i := range books {
			k.add(&books[i], s.set.ShownBudgets)
			if wrong(&books[i]) != nil {
				s.lookIntoBook(ctx, books[i].Budget)
			}
		}
		s.sample(ctx, books)
		if len(books) < bookPage {
			if s.sampling.due {
				s.dropSamples(ctx)
			}
			k.show(s.set.ShownBudgets)
			s.observer.Budgets(k.shown, k.all)
			s.observer.AtRisk(k.atRisk)
			*k, s.sampling.due = bookkeeping{attributed: k.attributed}, false
			break
		}
		k.after = books[len(books)-1].Budget
	}
	s.observer.Books(s.findings.sums(s.now()))
	step, cancel := s.bounded(ctx)
	defer cancel()
	if units, err := s.sql.Stranded(step, s.unusable()); err != nil {
		s.failed("sql", err)
	} else {
		s.observer.Stranded(units)
	}
}

func (s *Service) readBooks(ctx context.Context, after int64, limit int) ([]Book, error) {
	step, cancel := s.bounded(ctx)
	defer cancel()
	books, err := s.sql.Books(step, after, limit)
	if err != nil {
		s.failed("sql", err)
	}
	return books, err
}

func wrong(b *Book) []ledger.Discrepancy {
	return ledger.CheckBudget(b.Figures, b.Adjusted, b.Shrinks)
}

// add counts a budget for the metrics, and keeps the largest ones. Of an unlimited one they have what was used, what
// is held and what comes back: the rest is as good as infinite and no part of a sum.
func (k *bookkeeping) add(b *Book, limit int) {
	f := b.Figures
	if b.Unlimited {
		f.Total, f.Unfunded, f.Undistributed, f.Remaining, f.Unsettled = 0, 0, 0, 0, 0
		f.Quarantined, f.Forfeited = 0, 0
	}
	k.all = k.all.Plus(f)
	if b.Durability == budget.Store {
		k.atRisk += f.Remaining + f.Unsettled
	}
	if limit == 0 {
		return
	}
	k.shown = append(k.shown, BudgetFigures{Tenant: b.Tenant, Name: b.Name, Figures: f})
	if len(k.shown) >= 2*limit {
		k.show(limit)
	}
}

// show leaves the budgets with the largest totals.
func (k *bookkeeping) show(limit int) {
	slices.SortStableFunc(k.shown, func(a, b BudgetFigures) int {
		switch {
		case a.Figures.Total > b.Figures.Total:
			return -1
		case a.Figures.Total < b.Figures.Total:
			return 1
		}
		return 0
	})
	k.shown = k.shown[:min(len(k.shown), limit)]
}

// lookIntoBook reads a budget again that did not add up. If it still does not, that is reported, and
// its epochs are looked through for the bucket that explains it. What is of the budget itself fences
// nothing: no bucket holds a unit more or less than the ledger knows.
func (s *Service) lookIntoBook(ctx context.Context, id int64) {
	var found []ledger.Discrepancy
	for range lookAgain {
		books, err := s.readBooks(ctx, id-1, 1)
		if err != nil || len(books) == 0 || books[0].Budget != id {
			return
		}
		if found = wrong(&books[0]); found == nil {
			return
		}
	}
	const pause = 30 * time.Second
	if next, ok := s.bookkeeping.attributed[id]; !ok || due(s.now(), next, pause) {
		if len(s.bookkeeping.attributed) >= maxFindings {
			clear(s.bookkeeping.attributed)
		}
		s.bookkeeping.attributed[id] = s.now() + pause
		s.attribute(ctx, id)
	}
	b, err := s.sql.Budget(ctx, BudgetRef{ID: id})
	if err != nil {
		s.failed("sql", err)
		return
	}
	s.report(&b, 0, found)
}

// attribute compares the columns of all epochs of a budget with their grants, the newest first.
func (s *Service) attribute(ctx context.Context, id int64) {
	b, err := s.sql.Budget(ctx, BudgetRef{ID: id})
	if err != nil {
		s.failed("sql", err)
		return
	}
	const most = 10_000
	var refs []Ref
	for back := int64(0); len(refs) < most; back++ {
		before := len(refs)
		for i := range b.Buckets {
			if n := b.Buckets[i].Epoch.Number - back; n >= 1 {
				refs = append(refs, Ref{Bucket: b.Buckets[i].ID, Epoch: n})
			}
		}
		if len(refs) == before {
			break
		}
	}
	for chunk := range slices.Chunk(refs, lookPage) {
		suspects := s.columns(ctx, chunk)
		if len(suspects) == 0 {
			continue
		}
		found := s.columns(ctx, refsInOrder(suspects))
		for _, ref := range refsInOrder(found) {
			s.discovered(ctx, id, ref.Bucket, found[ref])
		}
	}
}

// wholeLog is a position after every other.
const wholeLog = int64(1) << 62

// columns compares the columns of epochs with the sums of their grants.
func (s *Service) columns(ctx context.Context, refs []Ref) map[Ref][]ledger.Discrepancy {
	spans := make([]Span, len(refs))
	for i, ref := range refs {
		spans[i] = Span{Ref: ref, From: wholeLog, Seq: wholeLog, GrantSeq: wholeLog}
	}
	figures, err := s.sql.Spans(ctx, spans)
	if err != nil {
		s.failed("sql", err)
		return nil
	}
	out := map[Ref][]ledger.Discrepancy{}
	for ref, f := range figures {
		e := ledger.EpochFigures{Row: f.Row, Closed: f.Closed, Granted: f.Granted}
		if found := ledger.CheckColumns(&e); found != nil {
			out[ref] = found
		}
	}
	return out
}
