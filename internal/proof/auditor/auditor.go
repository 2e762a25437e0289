// Package auditor recomputes the books of an installation from the rows of its tables and the keys
// of its Redis servers. It shares no code with the system. It depends only on schema.sql and the
// names of keys. Tests compare its results with what the system reports.
package auditor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
)

// Report is the result of an audit.
type Report struct {
	// Budgets has the budgets by name.
	Budgets map[string]*Budget
	// Wrong describes every discrepancy.
	Wrong []string
}

// Budget has the columns of a budget, and its rows by their ids. Quantities are minor units.
type Budget struct {
	ID                             int64
	Name                           string
	Store, Unlimited               bool
	Total, Unfunded, Undistributed int64
	Quarantined, Forfeited         int64
	Allocated, Parent              int64
	PendingShrink                  int64
	// Outstanding, Held, Used and Returning are the sums of its epochs.
	Outstanding, Held, Used, Returning int64
	Deductions                         map[string]*Deduction
	// Lost counts the epochs whose memory was lost.
	Lost int
	// Adjustments are appends and shrinks by request id, without the creation.
	Adjustments map[string]Adjustment

	epochs  []*epoch
	created int64 // T when it was created
}

// Adjustment is an append or, if negative, a shrink.
type Adjustment struct {
	Quantity int64
	// Done means that it took effect, Pending that it still may. Both are false if it was refused.
	Done, Pending bool
}

// Deduction is a deduction and the units of it that were given back.
type Deduction struct {
	Amount, Back int64
	// Void means that the id was cancelled before it had an effect.
	Void bool
	// Held means that it is an open hold.
	Held bool
	// Rollbacks has the units of each rollback id.
	Rollbacks map[string]int64
	// Extra is what it took above its hold.
	Extra int64

	bucket, epoch int64
	extras        map[int64]*extra // by number
	isHold        bool
	// used is what its hold says of it, confirmed what became used.
	used, confirmed int64
}

// extra is a row of extra. readBacks subtracts its rows of give_back from back.
type extra struct {
	at           epochKey
	amount, back int64
}

// Redis reads the keys and hashes of a server.
type Redis interface {
	// Hash returns the fields of a hash. It returns no field if the key does not exist.
	Hash(key string) (map[string]string, error)
	// Keys returns the keys that match a pattern.
	Keys(pattern string) ([]string, error)
}

// Audit reads all budgets of a database in one snapshot and compares columns, rows and stores with
// each other. stores has the servers of store mode by the names of their instances; nil skips the
// stores. No request may reach the stores during the audit.
func Audit(ctx context.Context, db *sql.DB, stores map[string]Redis) (*Report, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	r := &reading{ctx: ctx, tx: tx, report: &Report{Budgets: map[string]*Budget{}},
		budgets: map[int64]*Budget{}, epochs: map[epochKey]*epoch{}, feeds: map[int64]*feed{}}
	for _, read := range []func() error{r.readBudgets, r.readEpochs, r.readGrants, r.readDeductions,
		r.readHolds, r.readExtras, r.readBacks, r.readSets, r.readFeeds, r.readAdjustments,
		r.readQuarantines} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	for _, b := range r.budgets {
		r.report.Budgets[b.Name] = b
		r.compare(b)
	}
	if stores != nil {
		if err := r.compareStores(stores); err != nil {
			return nil, err
		}
	}
	slices.Sort(r.report.Wrong)
	return r.report, nil
}

// epochKey identifies an epoch of a bucket.
type epochKey struct{ bucket, epoch int64 }

// epoch is a row of bucket_epoch with the sums of the rows that belong to it.
type epoch struct {
	epochKey
	of                                     *Budget
	status, halted                         string
	outstanding, held, used, returning     int64
	closed, swept, late                    int64
	nextGrant, nextEntry                   int64
	taken, givenBack, lateSum              int64
	instance                               string
	newest                                 bool
	granted, grants, deducted, back        int64
	direct, holding, quarantined, released int64
	soldOfReleased, pending                int64
}

// feed has the sums of the feed of a bucket.
type feed struct{ units, entries, last, rows, moved int64 }

// reading is the state of an audit.
type reading struct {
	ctx     context.Context
	tx      *sql.Tx
	report  *Report
	budgets map[int64]*Budget
	epochs  map[epochKey]*epoch
	feeds   map[int64]*feed
	// installation names the keys of this database in the stores.
	installation string
}

func (r *reading) wrong(format string, args ...any) {
	r.report.Wrong = append(r.report.Wrong, fmt.Sprintf(format, args...))
}

// each calls a function for each row of a query.
func (r *reading) each(query string, row func(scan func(...any) error) error) error {
	rows, err := r.tx.QueryContext(r.ctx, query)
	if err != nil {
		return fmt.Errorf("%w: %s", err, query)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return fmt.Errorf("%w: %s", err, query)
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

func (r *reading) readBudgets() error {
	return r.each(`SELECT id, name, durability, unlimited, total_quantity, unfunded_quantity,
		undistributed_quantity, quarantined_quantity, forfeited_quantity, pending_shrink_quantity,
		allocated_quantity, parent_id
		FROM budget_management_bucket`, func(scan func(...any) error) error {
		b := &Budget{Deductions: map[string]*Deduction{}, Adjustments: map[string]Adjustment{}}
		durability := ""
		err := scan(&b.ID, &b.Name, &durability, &b.Unlimited, &b.Total, &b.Unfunded, &b.Undistributed,
			&b.Quarantined, &b.Forfeited, &b.PendingShrink,
			&b.Allocated, &b.Parent)
		b.Store = durability == "store"
		r.budgets[b.ID] = b
		return err
	})
}

func (r *reading) readEpochs() error {
	return r.each(`SELECT e.bucket_id, e.epoch, e.budget_id, e.status, e.halted,
		e.outstanding_quantity, e.held_quantity, e.used_quantity, e.returning_quantity,
		e.closed_quantity, e.swept_quantity, e.late_quantity, e.next_grant, e.next_entry,
		e.taken_quantity, e.given_back_quantity, e.late_sum_quantity, b.instance, b.epoch
		FROM bucket_epoch e JOIN sharding_budget_management_bucket b ON b.id = e.bucket_id`,
		func(scan func(...any) error) error {
			e, budgetID, newest := &epoch{}, int64(0), int64(0)
			err := scan(&e.bucket, &e.epoch, &budgetID, &e.status, &e.halted, &e.outstanding, &e.held,
				&e.used, &e.returning, &e.closed, &e.swept, &e.late, &e.nextGrant, &e.nextEntry, &e.taken,
				&e.givenBack, &e.lateSum, &e.instance, &newest)
			b := r.budgets[budgetID]
			if err != nil || b == nil {
				return errors.Join(err, r.orphan(b == nil, "epoch %v", e.epochKey))
			}
			e.of, e.newest = b, newest == e.epoch
			b.epochs, r.epochs[e.epochKey] = append(b.epochs, e), e
			b.Outstanding, b.Held = b.Outstanding+e.outstanding, b.Held+e.held
			b.Used, b.Returning = b.Used+e.used, b.Returning+e.returning
			if e.status == "lost" {
				b.Lost++
			}
			return nil
		})
}

// orphan reports a row whose parent is missing, if is is true. It always returns nil.
func (r *reading) orphan(is bool, format string, args ...any) error {
	if is {
		r.wrong(format+" has no parent row", args...)
	}
	return nil
}

func (r *reading) readGrants() error {
	return r.each(`SELECT bucket_id, epoch, number, amount, status FROM grant_log
		ORDER BY bucket_id, epoch, number`, func(scan func(...any) error) error {
		var at epochKey
		var number, amount int64
		status := ""
		err := scan(&at.bucket, &at.epoch, &number, &amount, &status)
		e := r.epochs[at]
		if err != nil || e == nil {
			return errors.Join(err, r.orphan(e == nil, "grant %d of %v", number, at))
		}
		if e.grants++; e.grants != number {
			r.wrong("grant %d of %v follows number %d", number, at, e.grants-1)
		}
		e.granted += amount
		if status == "pending" {
			e.pending += amount
		}
		return nil
	})
}
