package storetest_test

import (
	"testing"

	"github.com/budgetd/budgetd/internal/storetest"
)

func TestQuick(t *testing.T) {
	storetest.DifferentialSQL(t, 1, 20_000, openMemory, map[string]storetest.SQLOpener{
		"SQLite": openSQLite,
	})
}
func TestQuickM(t *testing.T) {
	storetest.DifferentialSQL(t, 1, 20_000, openMemory, map[string]storetest.SQLOpener{
		"MariaDB": openMariaDB,
	})
}
