package commit_test

import (
	"github.com/budgetd/budgetd/bucket/row"
	"github.com/budgetd/budgetd/internal/sql/commit"
)

var (
	_ row.Ledger = (*commit.Part)(nil)
	_ row.Lookup = (*commit.Part)(nil)
)
