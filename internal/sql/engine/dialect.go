package engine

import (
	"math/bits"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pressly/goose/v3"
)

// dialect holds the differences between the engines; all other text is common.
//
// Statements carry marks in the form of comments, so that SQLite reads the text as it is:
//
//	/*locked*/   lock the rows read until the end of the transaction
//	/*shared*/   the same, other readers of that kind allowed
//	/*by INDEX*/ find the rows of the preceding table by that index: PRIMARY, so that no other
//	             row is locked on the way, or an index that holds a few rows of many
//	/*of e*/     the alias that a DELETE by index repeats
//	/*in order*/ read the tables of the join in the order of the text
//	/*kept*/     at the beginning: keep the statement prepared, per connection (serverConn)
//
// SQLite needs none of them: BEGIN IMMEDIATE excludes every other writer, and its planner takes
// the index with the most equalities.
type dialect struct {
	name string
	// begin starts a writing transaction, snapshot a reading one with a consistent snapshot.
	begin    string
	snapshot []string
	marks    func(string) string // nil leaves the marks as comments
	// prepare keeps statements prepared. Their number stays bounded because lists are padded to
	// powers of two and inserts are cut to insertRows.
	prepare bool
	// insertRows and updateRows are the most rows per statement: many if each statement is a round
	// trip, few if it is a call.
	insertRows, updateRows int
	// joinRows is the number of rows from which an UPDATE with different values per row joins the
	// list of rows instead of using CASE, which compares each row with each; 0 means never. MariaDB
	// takes, per epoch, 23 us by CASE and 28 us by a join for 8 epochs, and 16 and 10 us for 64.
	joinRows int
	// valuesList writes a list of constants as UNION ALL VALUES (…), (…), which is parsed faster
	// than a SELECT for each.
	valuesList bool
	// tuples writes (a, b) IN ((…), (…)), which finds its rows by ranges of the index, like OR, and
	// is parsed faster.
	tuples bool
	// links means that the server computes the hashes of the audit log.
	links bool
	// groups allows several lists in one statement, such as the ids of several budgets.
	groups bool
	// constants caches constant texts in the engine's syntax.
	constants sync.Map
}

var byIndex = regexp.MustCompile(`/\*by (\w+)\*/`)

const sqliteName, mysqlName = "sqlite", "mysql"

func newSQLiteDialect() *dialect {
	return &dialect{
		name:       sqliteName,
		begin:      "BEGIN IMMEDIATE",
		snapshot:   []string{"BEGIN DEFERRED"},
		prepare:    true,
		insertRows: 8,
		updateRows: 1,
	}
}

func newMySQLDialect() *dialect {
	return &dialect{name: mysqlName, begin: "START TRANSACTION",
		snapshot: []string{
			"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
			"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
		},
		marks: func(text string) string {
			text = byIndex.ReplaceAllString(text, "FORCE INDEX ($1)")
			text = strings.ReplaceAll(text, "/*of e*/", "e")
			text = strings.ReplaceAll(text, "/*in order*/ JOIN", "STRAIGHT_JOIN")
			text = strings.ReplaceAll(text, "/*locked*/", "FOR UPDATE")
			return strings.ReplaceAll(text, "/*shared*/", "LOCK IN SHARE MODE")
		},
		insertRows: 512, updateRows: 50, joinRows: 16, links: true, groups: true, tuples: true}
}

// text returns a statement in the engine's syntax.
func (d *dialect) text(query string) string {
	if d.marks == nil || !strings.Contains(query, "/*") {
		return query
	}
	// Not cached: most of these statements contain lists, so the number of texts is unbounded.
	return d.marks(query)
}

// constant is text for one of a bounded number of texts, which it caches.
func (d *dialect) constant(text string) string {
	if d.marks == nil || !strings.Contains(text, "/*") {
		return text
	}
	if known, ok := d.constants.Load(text); ok {
		return known.(string)
	}
	translated := d.marks(text)
	d.constants.Store(text, translated)
	return translated
}

// padded returns a list padded to the number of places in its statement. If statements are kept
// prepared, that is the next power of two, reached by repeating the last element.
func padded[T any](d *dialect, list []T) []T {
	if !d.prepare {
		return list
	}
	return filledUp(list)
}

// filledUp pads a list to a power of two by repeating the last element.
func filledUp[T any](list []T) []T {
	n := len(list)
	if n <= 1 {
		return list
	}
	list = slices.Clone(list)
	for range 1<<bits.Len(uint(n-1)) - n { //nolint:gosec // n > 1
		list = append(list, list[n-1])
	}
	return list
}

// ListChunk is the most keys in one list.
const ListChunk = 512

// Repeat returns n copies of part with separators between them.
func Repeat(part, separator string, n int) string {
	if n == 0 {
		return ""
	}
	return part + strings.Repeat(separator+part, n-1)
}

// goose returns the engine's name for the migrations.
func (d *dialect) goose() goose.Dialect {
	if d.name == sqliteName {
		return goose.DialectSQLite3
	}
	return goose.DialectMySQL
}

// tables returns a query for the names of all tables of the database.
func (d *dialect) tables() string {
	if d.name == sqliteName {
		return `SELECT name FROM sqlite_master WHERE type IN ('table', 'view')`
	}
	return `SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()`
}

// differ reports whether the keys of all rows begin with distinct numbers.
func differ(rows []RowChange) bool {
	seen := make(map[int64]bool, len(rows))
	for _, row := range rows {
		n, is := row.Key[0].(int64)
		if !is || seen[n] {
			return false
		}
		seen[n] = true
	}
	return true
}
