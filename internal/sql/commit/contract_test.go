package commit_test

import (
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/internal/sql/commit"
)

var (
	_ deduct.Ledger = (*commit.Decider)(nil)
	_ deduct.Lookup = (*commit.Decider)(nil)
)
