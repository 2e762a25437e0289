package commit_test

import (
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/internal/sql/commit"
)

var (
	_ deduct.Ledger = (*commit.Part)(nil)
	_ deduct.Lookup = (*commit.Part)(nil)
)
