package bucket

import (
	"context"
	"errors"

	"github.com/budgetd/budgetd/ledger"
)

// Audit proves I1 for a budget on live traffic (DESIGN 3): SQL's columns against its rows and
// entries in one snapshot, then each open bucket's store against the ledger at one position of its
// log. A bucket with a discrepancy is fenced; the others serve on. Nothing stops for it. Errors:
// BudgetNotFound, Unavailable.
func (s *Service) Audit(ctx context.Context, ref BudgetRef) (AuditReport, error) {
	entry, err := s.budgets.find(ctx, ref)
	if err != nil {
		return AuditReport{}, err
	}
	accounts, err := s.sql.Accounts(ctx, entry.id)
	if err != nil {
		return AuditReport{}, s.sqlFailed(err)
	}
	report := AuditReport{Figures: accounts.Figures,
		Discrepancies: ledger.Check(accounts.Figures, accounts.Adjusted, accounts.Epochs)}
	b, err := s.sql.Budget(ctx, BudgetRef{ID: entry.id})
	if err != nil {
		return AuditReport{}, s.sqlFailed(err)
	}
	for i := range b.Buckets {
		bk := &b.Buckets[i]
		if bk.Epoch.Status != ledger.Open {
			continue
		}
		found, err := s.auditStore(ctx, bk)
		if err != nil {
			report.Unchecked = append(report.Unchecked, bk.Key)
			continue
		}
		report.Discrepancies = append(report.Discrepancies, found...)
	}
	report.OK = len(report.Discrepancies) == 0
	s.observer.Discrepancies(len(report.Discrepancies))
	for _, d := range report.Discrepancies {
		s.log.Error("audit found a discrepancy", "budget", b.Name, "discrepancy", d.String())
		for i := range b.Buckets {
			if bk := &b.Buckets[i]; bk.Key == d.Bucket && bk.Epoch.Number == d.Epoch && bk.Epoch.Fenced == "" {
				s.fence(ctx, bk.Ref(), "audit: "+d.String())
			}
		}
	}
	return report, nil
}

// auditStore compares one bucket's store with the ledger at the position s of one atomic read: once
// the ledger has drained up to s, both are sums over the same prefix of the log, so traffic goes on.
func (s *Service) auditStore(ctx context.Context, bk *Bucket) ([]ledger.Discrepancy, error) {
	l, err := s.laneOf(bk.Lane)
	if err != nil {
		return nil, err
	}
	ref, under := bk.Ref(), l.current()
	balances, err := l.instance.Balances(ctx, bk.Lane, []Ref{ref})
	if err != nil {
		return nil, s.laneFailed(ctx, l, under, err)
	}
	in := balances[0]
	switch {
	case in.Verdict == Broken:
		s.fence(ctx, ref, in.Why)
		return []ledger.Discrepancy{{Bucket: bk.Key, Epoch: ref.Epoch, What: "store: " + in.Why}}, nil
	case in.Verdict != OK:
		s.checkGone(ctx, l, ref)
		return nil, unavailable("audit", errNoTarget)
	}
	d := newDraining(s)
	d.epoch(l, ref).upTo = in.Seq
	for range commitRounds {
		if len(d.epochs) == 0 {
			break
		}
		d.round(ctx)
	}
	if err := d.errs[ref]; err != nil {
		return nil, err
	}
	// Only once everything up to s is in the ledger are both sums over the same prefix.
	if _, closed := d.closes[ref]; !closed && d.rows[ref].DrainedSeq < in.Seq {
		return nil, unavailable("audit", errors.New("the epoch ended, or its log was not drained in time"))
	}
	granted, deducted, err := s.sql.Prefix(ctx, ref, in.Seq, in.GrantSeq)
	if err != nil {
		return nil, err
	}
	var found []ledger.Discrepancy
	compare := func(what string, store, counted int64) {
		if store != counted {
			found = append(found, ledger.Discrepancy{Bucket: bk.Key, Epoch: ref.Epoch, What: what,
				Recorded: store, Counted: counted})
		}
	}
	compare("granted in the store", in.Granted, granted)
	compare("deducted in the store", in.Deducted, deducted)
	if !in.Closed {
		compare("balance in the store", in.Balance, granted-deducted)
	}
	return found, nil
}
