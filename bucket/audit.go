package bucket

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/ledger"
)

// auditPage is how many buckets of a lane an audit reads at once.
const auditPage = 100

// AuditsAtOnce is how many audits a node works on at once: each reads a whole ledger. Others wait.
const AuditsAtOnce = 2

// Audit proves I1 for a budget on live traffic (DESIGN 3): SQL's columns against its rows and
// entries in one snapshot, then each open bucket's store against the ledger at one position of its
// log. A bucket with a discrepancy is fenced; the others serve on. Nothing stops for it. Errors:
// BudgetNotFound, Unavailable.
func (s *Service) Audit(ctx context.Context, ref BudgetRef) (AuditReport, error) {
	entry, err := s.budgets.find(ctx, ref)
	if err != nil {
		return AuditReport{}, err
	}
	select {
	case s.audits <- struct{}{}:
		defer func() { <-s.audits }()
	case <-ctx.Done():
		return AuditReport{}, unavailable("audit", ctx.Err())
	}
	accounts, wrong, err := s.accountsOf(ctx, entry.id)
	if err != nil {
		return AuditReport{}, s.sqlFailed(err)
	}
	b, err := s.sql.Budget(ctx, BudgetRef{ID: entry.id})
	if err != nil {
		return AuditReport{}, s.sqlFailed(err)
	}
	report := AuditReport{Figures: accounts.Figures, Discrepancies: wrong}
	found, unchecked := s.auditStores(ctx, &b)
	report.Discrepancies = append(report.Discrepancies, found...)
	report.Unchecked = unchecked
	if b.inStoreMode() {
		report.AtRisk = report.Figures.Remaining + report.Figures.Unsettled
	}
	report.OK = len(report.Discrepancies) == 0
	s.actOn(ctx, &b, report.Discrepancies)
	return report, nil
}

// accountsOf reads a budget's accounts and what disagrees in them. That is read again before it is believed, as
// everywhere in the audit: see Accounts.
func (s *Service) accountsOf(ctx context.Context, id int64) (accounts Accounts, wrong []ledger.Discrepancy, err error) {
	for i := 0; ; i++ {
		if accounts, err = s.sql.Accounts(ctx, id); err != nil {
			return accounts, nil, err
		}
		found := accounts.Check()
		if i > 0 {
			found = slices.DeleteFunc(found, func(d ledger.Discrepancy) bool {
				return !slices.ContainsFunc(wrong, d.SameFigure)
			})
		}
		if wrong = found; len(wrong) == 0 || i == lookAgain {
			return accounts, wrong, nil
		}
	}
}

// actOn reports what an audit found, bucket by bucket, and fences the buckets, whichever of their epochs
// it is in.
func (s *Service) actOn(ctx context.Context, b *Budget, found []ledger.Discrepancy) {
	of := map[string][]ledger.Discrepancy{}
	for _, d := range found {
		of[d.Bucket] = append(of[d.Bucket], d)
	}
	for i := range b.Buckets {
		bk := &b.Buckets[i]
		if of[bk.Key] == nil {
			continue
		}
		s.report(b, bk.ID, of[bk.Key])
		if bk.Epoch.Status.Live() && bk.Epoch.Fenced == "" {
			s.fence(ctx, bk.Ref(), "audit: "+of[bk.Key][0].String())
		}
	}
	if of[""] != nil {
		s.report(b, 0, of[""])
	}
}

// auditStores compares the stores of a budget's open buckets with the ledger, all rows of each counted:
// the lanes side by side, each page by page. It returns what disagrees and the buckets that could not
// be compared, both by ordinal.
func (s *Service) auditStores(ctx context.Context, b *Budget) (
	found []ledger.Discrepancy, unchecked []string) {
	byLane := map[Lane][]EpochOf{}
	for i := range b.Buckets {
		if bk := &b.Buckets[i]; bk.Epoch.Status == ledger.Open {
			byLane[bk.Lane] = append(byLane[bk.Lane], EpochOf{Budget: b.ID, Lane: bk.Lane, Row: bk.Epoch})
		}
	}
	results := make(chan map[Ref]compared, len(byLane))
	for _, id := range inOrder(byLane) {
		place := s.turns.take()
		go func() {
			s.turns.wait(place)
			results <- s.auditLane(ctx, id, byLane[id])
		}()
	}
	all := map[Ref]compared{}
	for range len(byLane) {
		for ref, c := range <-results {
			all[ref] = c
		}
	}
	for i := range b.Buckets {
		bk := &b.Buckets[i]
		c := all[bk.Ref()]
		for _, d := range c.wrong {
			d.Bucket = bk.Key
			found = append(found, d)
		}
		if bk.Epoch.Status == ledger.Open && !c.good && c.wrong == nil {
			unchecked = append(unchecked, bk.Key)
		}
	}
	return found, unchecked
}

// compared is what comparing one bucket's store gave; the zero value: it could not be compared.
type compared struct {
	good  bool
	wrong []ledger.Discrepancy
}

func (s *Service) auditLane(ctx context.Context, id Lane, epochs []EpochOf) map[Ref]compared {
	out := map[Ref]compared{}
	l, err := s.laneOf(id)
	if err != nil {
		return out
	}
	for page := range slices.Chunk(epochs, auditPage) {
		reads := s.drainBehind(ctx, l, page, leaving{until: s.now() + othersPatience})
		fromTheStart := make(map[Ref]watched, len(reads))
		for i := range reads {
			fromTheStart[reads[i].ref] = watched{}
		}
		good, wrong := s.compareTwice(ctx, l, reads, fromTheStart, 0)
		for i := range reads {
			r := &reads[i]
			c := compared{good: good[r.ref], wrong: wrong[r.ref]}
			if r.in.Verdict == Broken {
				c.wrong = []ledger.Discrepancy{{Epoch: r.ref.Epoch, What: "store: " + r.in.Why}}
			}
			out[r.ref] = c
		}
	}
	return out
}
