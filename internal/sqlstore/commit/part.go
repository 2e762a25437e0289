// Package commit is the part of the database that flights of deductions go through.
package commit

import (
	"context"
	"errors"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/ledger"
)

// Part commits deductions and reads what they are judged by. Safe for concurrent use.
type Part struct {
	db *engine.DB
}

// New returns the part of a database.
func New(db *engine.DB) *Part { return &Part{db: db} }

var errPending = errors.New("not written yet")

// Commit writes a flight of deductions in one transaction.
func (p *Part) Commit(ctx context.Context, ops []bucket.Operation) ([]bucket.Outcome, error) {
	return nil, errPending
}

// Gather finds units for waiting deductions of one budget and commits them, in one transaction.
func (p *Part) Gather(ctx context.Context, budgetID, bucketID int64, ops []bucket.Operation) (
	[]bucket.Outcome, []bucket.Level, error) {
	return nil, nil, errPending
}

// Recorded reads the rows of ids; one that has none is missing.
func (p *Part) Recorded(ctx context.Context, ids []bucket.ID) (
	map[bucket.ID]ledger.Deduction, error) {
	return nil, errPending
}

// Standings reads the newest epochs of buckets.
func (p *Part) Standings(ctx context.Context, buckets []int64) (map[int64]bucket.Level, error) {
	return nil, errPending
}

// Covers reads I3's sum of many budgets in one statement.
func (p *Part) Covers(ctx context.Context, budgets []int64, exact bool) (
	map[int64]bucket.Cover, error) {
	return nil, errPending
}

// RaiseFill raises the fill of a bucket's newest epoch by 1 if it still is level.Fill.
func (p *Part) RaiseFill(ctx context.Context, level bucket.Level) (bucket.Level, error) {
	return bucket.Level{}, errPending
}
