// Package audit proves the accounts of budgets (I1, I7) on live traffic: on request, and in the
// background at a bounded cost. If the columns of a bucket's epoch disagree with their rows, the
// epoch is halted; all others continue.
package audit

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
)

const (
	// atOnce bounds the concurrent full audits of a node, because each reads all rows of a budget.
	atOnce = 2
	// lookAgain is how often a discrepancy must be seen again before it is believed, because MariaDB
	// may show a commit without an earlier one.
	lookAgain = 2
	// mostCounters bounds the limit counters that a full audit compares.
	mostCounters = 1000
	// stepTime bounds one read of less than a whole budget.
	stepTime = 5 * time.Second
)

// Config configures a Service.
type Config struct {
	DB      *engine.DB
	Budgets *bucket.Budgets
	// Compare compares the entries of the live epochs of a budget in store mode with SQL. Grants plus
	// given back must equal balance plus taken, in one atomic read each, and SQL's sums must not be
	// above the store's. found lists discrepancies that were seen twice; they name buckets and epochs.
	// unchecked lists the keys of buckets whose store could not be read. It may be nil if no budget is
	// in store mode.
	Compare func(ctx context.Context, b *bucket.Budget) (found []ledger.Discrepancy,
		unchecked []string, err error)
	// Clock measures waits; nil means the system clock.
	Clock    bucket.Clock
	Observer bucket.Observer
	Log      *slog.Logger
	// Unreachable lists the partitions whose stores do not answer. If it is nil, all are assumed to
	// answer.
	Unreachable func() []bucket.Partition
}

// Service audits budgets. It is safe for concurrent use.
type Service struct {
	db      *engine.DB
	budgets *bucket.Budgets
	compare func(ctx context.Context, b *bucket.Budget) (found []ledger.Discrepancy,
		unchecked []string, err error)
	// accounts is readAccounts, unless a test breaks what it reads.
	accounts    func(ctx context.Context, budgetID int64) (Accounts, error)
	clock       bucket.Clock
	observer    bucket.Observer
	log         *slog.Logger
	unreachable func() []bucket.Partition

	running    chan struct{}
	findings   findings
	recyclable atomic.Int64
}

// New returns a service. It contacts neither the database nor a store.
func New(c Config) *Service {
	s := &Service{db: c.DB, budgets: c.Budgets, compare: c.Compare, clock: c.Clock,
		observer: c.Observer, log: c.Log, unreachable: c.Unreachable,
		running: make(chan struct{}, atOnce)}
	s.accounts = s.readAccounts
	if s.clock == nil {
		s.clock = bucket.SystemClock{}
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.unreachable == nil {
		s.unreachable = func() []bucket.Partition { return nil }
	}
	return s
}

// Audit proves I1 for a budget on live traffic. It checks the equation from the columns. In ledger
// mode it then compares the columns of every epoch with their rows, the feed with the deductions
// (I7) and the current windows of limits, all in snapshots. In store mode it compares the stores
// with SQL. It halts the epochs that have a discrepancy. Requests continue meanwhile. It reads
// every row of the budget. Errors: BudgetNotFound, Unavailable.
func (s *Service) Audit(ctx context.Context, ref bucket.BudgetRef) (bucket.AuditReport, error) {
	b, err := s.budgets.Find(ctx, ref)
	if err != nil {
		return bucket.AuditReport{}, err
	}
	select {
	case s.running <- struct{}{}:
		defer func() { <-s.running }()
	case <-ctx.Done():
		return bucket.AuditReport{}, &budget.Error{Code: budget.Unavailable, Op: "audit",
			Err: ctx.Err(), Message: "other audits are running; repeat later",
			Reason: budget.ReasonOverloaded}
	}
	var report bucket.AuditReport
	var more []ledger.Discrepancy
	switch {
	case !b.InStoreMode():
		more, err = s.limits(ctx, b.ID)
	case s.compare != nil: // first, because it brings SQL's sums up to date
		more, report.Unchecked, err = s.compare(ctx, b)
	}
	if err != nil {
		return bucket.AuditReport{}, s.failed(err)
	}
	a, found, err := s.look(ctx, b.ID)
	if err != nil {
		return bucket.AuditReport{}, s.failed(err)
	}
	report.Figures, report.Unlimited = a.Figures, b.Unlimited
	switch {
	case b.Unlimited: // its buckets hold no part of a total
		report.Figures.InBuckets, report.Figures.Unsettled = 0, 0
	case b.InStoreMode():
		report.AtRisk = a.Figures.InBuckets + a.Figures.Unsettled
	}
	report.Discrepancies = append(found, more...)
	report.OK = len(report.Discrepancies) == 0
	s.act(ctx, &a, report.Discrepancies)
	return report, nil
}

// look reads a budget's accounts and returns the discrepancies that every read shows.
func (s *Service) look(ctx context.Context, id int64) (a Accounts,
	found []ledger.Discrepancy, err error) {
	found, err = again(func() ([]ledger.Discrepancy, error) {
		if a, err = s.accounts(ctx, id); err != nil {
			return nil, err
		}
		return a.Check(), nil
	})
	return a, found, err
}

// again reads until nothing is wrong, at most lookAgain more times, and returns the figures that
// were wrong every time.
func again(read func() ([]ledger.Discrepancy, error)) (wrong []ledger.Discrepancy, err error) {
	for i := 0; ; i++ {
		found, err := read()
		if err != nil {
			return nil, err
		}
		if i > 0 {
			found = slices.DeleteFunc(found, func(d ledger.Discrepancy) bool {
				return !slices.ContainsFunc(wrong, d.SameFigure)
			})
		}
		if wrong = found; len(wrong) == 0 || i == lookAgain {
			return wrong, nil
		}
	}
}

// act reports discrepancies of a budget, and halts the epochs that have one. A discrepancy of the
// budget itself halts nothing, because no bucket holds more or less than the ledger knows.
func (s *Service) act(ctx context.Context, a *Accounts, found []ledger.Discrepancy) {
	refs := map[string]int64{}
	for i := range a.Epochs {
		refs[a.Epochs[i].Bucket] = a.Epochs[i].Row.Bucket
	}
	now := s.clock.Now()
	for _, d := range found {
		if s.findings.note(a.ID, d, now) {
			s.log.Error("audit found a discrepancy", "budget", a.Name, "tenant", a.Tenant,
				"bucket", d.Bucket, "figure", d.What, "discrepancy", d.String())
		}
		id, known := refs[d.Bucket]
		if d.Bucket == "" || !known {
			continue
		}
		halted, err := s.Halt(ctx, bucket.Ref{Bucket: id, Epoch: d.Epoch}, "audit: "+d.String())
		if err != nil {
			s.log.Error("epoch not halted", "bucket", d.Bucket, "epoch", d.Epoch, "error", s.failed(err))
		} else if halted {
			s.observer.Halted()
			s.log.Error("epoch halted", "bucket", d.Bucket, "epoch", d.Epoch)
		}
	}
	s.observer.Discrepancies(s.findings.sums(now))
}

// Recyclable sets the number of units that a recycle would move, for the metrics.
func (s *Service) Recyclable(units int64) { s.recyclable.Store(units) }

// failed reports an SQL error to the observer and returns it.
func (s *Service) failed(err error) error {
	if kind := budget.CodeOf(err).Kind(); kind == budget.NotDone || kind == budget.MayBeDone {
		s.observer.Failed("sql", budget.CodeOf(err))
	}
	return err
}
