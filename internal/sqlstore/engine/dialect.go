package engine

import (
	"math/bits"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pressly/goose/v3"
)

// dialect holds what differs between the engines; everything else is common text.
//
// Statements carry three marks, written as comments so that SQLite reads the text as it stands:
//
//	/*locked*/   lock the rows read until the end of the transaction
//	/*shared*/   the same, other readers of that kind allowed
//	/*by INDEX*/ find the rows of the table before it by that index: PRIMARY, so that no other
//
// row is
//
//	             locked on the way, or one that holds a few rows of many
//	/*of e*/     what a DELETE by index names a second time
//	/*in order*/ read the tables of the join in the order they are written
//	/*kept*/     at the beginning: a server keeps it prepared, per connection (serverConn)
//
// SQLite needs none of them: BEGIN IMMEDIATE keeps every other writer out, and its planner takes
// the index with the most equalities.
type dialect struct {
	name string
	// begin starts a writing transaction, snapshot a reading one that sees one moment.
	begin    string
	snapshot []string
	marks    func(string) string // nil: the marks stay comments
	// prepare keeps statements prepared. Their number stays bounded because lists are padded to
	// powers of two and inserts are cut to insertRows.
	prepare bool
	// insertRows and updateRows are the most rows per statement: many where each statement is a
	// round trip, few where it is a call.
	insertRows, updateRows int
	// joinRows is from how many rows on an UPDATE that sets other values in each joins the table
	// with the list of them (joinRows), instead of CASE, which compares each row with each; 0:
	// never. Epochs cost MariaDB, a row: of 8, 23 us by
	// CASE and 28 by a join; of 64, 16 and 10.
	joinRows int
	// valuesList: a list of constants is UNION ALL VALUES (…), (…), which is read faster than a
	// SELECT for each.
	valuesList bool
	// tuples: (a, b) IN ((…), (…)) finds its rows by ranges of the index, like OR, and is read
	// faster.
	tuples bool
	// returning lets an INSERT list the rows that it made or kept.
	returning bool
	// groups allows several lists in one statement, such as the ids of several budgets.
	groups bool
	// constants has constant texts as the engine reads them.
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
		insertRows: 512, updateRows: 50, joinRows: 16, groups: true, tuples: true}
}

// text returns a statement as the engine reads it.
func (d *dialect) text(query string) string {
	if d.marks == nil || !strings.Contains(query, "/*") {
		return query
	}
	// Not kept: most of these statements hold lists, and their texts are without number.
	return d.marks(query)
}

// constant is text for a text of which there are not many: it is translated once.
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

// padded returns a list with as many places as its statement gets: where statements are kept
// prepared, the next power of two, filled up by repeating the last element.
func padded[T any](d *dialect, list []T) []T {
	if !d.prepare {
		return list
	}
	return filledUp(list)
}

// filledUp returns a list whose length is a power of two, by repeating the last element.
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

// goose is the engine's name for the migrations.
func (d *dialect) goose() goose.Dialect {
	if d.name == sqliteName {
		return goose.DialectSQLite3
	}
	return goose.DialectMySQL
}

// tables lists the names of all tables of the database.
func (d *dialect) tables() string {
	if d.name == sqliteName {
		return `SELECT name FROM sqlite_master WHERE type IN ('table', 'view')`
	}
	return `SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()`
}
