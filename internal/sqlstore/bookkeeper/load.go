package bookkeeper

import (
	"strings"

	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

// Query is one SELECT of a load. It writes its text, and returns the slice for the rows and what
// adds them to the Books.
type Query func(s *engine.Statement, b *books.Books) (into any, load func())

// Locks of a query.
type lock string

const (
	// locked rows may change.
	locked lock = " /*locked*/"
	// shared rows do not change until the commit.
	shared lock = " /*shared*/"
	// bare rows are read without a lock, and must not change.
	bare lock = ""
)

// rowsOf returns a query of whole rows of a table. where writes what follows FROM and the table.
func rowsOf[R any, K comparable](set func(*books.Books) *books.Set[R, K], l lock,
	where func(s *engine.Statement)) Query {
	return func(s *engine.Statement, b *books.Books) (any, func()) {
		var rows []R
		table := set(b).Table()
		s.SQL("SELECT " + strings.Join(table.Columns, ", ") + " FROM " + table.Name)
		where(s)
		s.SQL(string(l))
		return &rows, func() { set(b).Load(rows, l != locked) }
	}
}

// BudgetByName reads the budget of a tenant with a name, if there is one. It locks nothing: the
// unique key decides between two creates of one name.
func BudgetByName(tenant, name string) Query {
	return rowsOf(func(b *books.Books) *books.Set[books.Budget, int64] { return &b.Budgets }, bare,
		func(s *engine.Statement) {
			s.SQL(" WHERE tenant = ")
			s.Value([]byte(tenant))
			s.SQL(" AND name = ")
			s.Value([]byte(name))
		})
}

// Partition identifies a partition of a store.
type Partition struct {
	Instance string
	Number   int64
}

// Partitions keeps partitions, sorted and without duplicates, as they are until the commit.
func Partitions(list []Partition) Query {
	return rowsOf(func(b *books.Books) *books.Set[books.Partition, [2]any] { return &b.Partitions },
		shared, func(s *engine.Statement) {
			keys := make([][]any, len(list))
			for i, p := range list {
				keys[i] = []any{[]byte(p.Instance), p.Number}
			}
			s.SQL(" /*by PRIMARY*/ WHERE ")
			s.Tuples([]string{"instance", "partition_number"}, keys)
			s.SQL(" ORDER BY instance, partition_number")
		})
}
