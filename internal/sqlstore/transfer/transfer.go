// Package transfer is the database's part of package bucket/transfer: it moves units in ledger
// mode, and keeps the partitions of store mode.
//
// Every movement of a budget is one transaction: the rows of the budget are locked and read,
// package ledger/books decides, and what differs is written. Each keeps I1.
package transfer

import (
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
)

var (
	_ transfer.Supply     = (*Part)(nil)
	_ transfer.Periods    = (*Part)(nil)
	_ transfer.Recycles   = (*Part)(nil)
	_ transfer.Partitions = (*Part)(nil)
	_ transfer.Counters   = (*Part)(nil)
	_ transfer.Stocks     = (*Part)(nil)
)

// Part moves units and keeps partitions. It is safe for concurrent use.
type Part struct{ db *engine.DB }

// New returns the part of a database.
func New(db *engine.DB) *Part { return &Part{db: db} }
