package engine

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/bucket"
)

// Statement builds a statement: its text and, if the dialect keeps statements prepared, its
// parameters. Otherwise each value is written into the text: numbers as decimals, texts as x'…',
// which a server parses faster than _binary'…' (0.3 us each) and which cannot be broken by its
// contents. Its methods only append.
type Statement struct {
	dialect *dialect
	text    strings.Builder
	args    []any
}

// Statement begins a statement.
func (r *Reader) Statement() *Statement { return &Statement{dialect: r.conn.dialect} }

// Tuples appends the condition that columns equal one of the keys, each with a value per column.
func (s *Statement) Tuples(columns []string, keys [][]any) {
	if s.dialect.tuples && len(keys) > 1 {
		s.SQL("(" + strings.Join(columns, ", ") + ") IN (")
		for i, key := range keys {
			s.SQL(separator(i, "(", "),("))
			for j, v := range key {
				s.SQL(separator(j, "", ","))
				s.Value(v)
			}
		}
		s.SQL("))")
		return
	}
	for i, key := range padded(s.dialect, keys) {
		s.SQL(separator(i, "((", ") OR ("))
		for j, v := range key {
			s.SQL(separator(j, "", " AND ") + columns[j] + " = ")
			s.Value(v)
		}
	}
	s.SQL("))")
}

// separator returns what precedes an element of a list.
func separator(i int, first, others string) string {
	if i == 0 {
		return first
	}
	return others
}

// SQL appends constant text, with the dialect's marks.
func (s *Statement) SQL(text string) { s.text.WriteString(s.dialect.constant(text)) }

// Number appends a number.
func (s *Statement) Number(n int64) {
	if s.dialect.prepare {
		s.Parameter(n)
		return
	}
	var digits [20]byte
	s.text.Write(strconv.AppendInt(digits[:0], n, 10))
}

// Bytes appends a value of VARBINARY or BLOB.
func (s *Statement) Bytes(text string) {
	if s.dialect.prepare {
		s.Parameter([]byte(text))
		return
	}
	s.text.WriteString("x'")
	for len(text) > 0 {
		var digits [128]byte
		part := text[:min(len(text), len(digits)/2)]
		s.text.Write(digits[:hex.Encode(digits[:], []byte(part))])
		text = text[len(part):]
	}
	s.text.WriteByte('\'')
}

// Clock appends SQL's clock in ms at the instant at which it is read, which NOW would not be after
// a wait for a lock: the server's own, or the one given if the database is a file.
func (s *Statement) Clock(ofFile int64) {
	if s.dialect.prepare {
		s.Parameter(ofFile)
		return
	}
	s.SQL("CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000 AS SIGNED)")
}

// Null appends NULL.
func (s *Statement) Null() {
	if s.dialect.prepare {
		s.Parameter(nil)
		return
	}
	s.text.WriteString("NULL")
}

// Value appends a value. A type other than int64, int, string, []byte and nil is left to the
// driver.
func (s *Statement) Value(v any) {
	if s.dialect.prepare {
		s.Parameter(v)
		return
	}
	switch v := v.(type) {
	case nil:
		s.Null()
	case int64:
		s.Number(v)
	case int:
		s.Number(int64(v))
	case []byte:
		s.Bytes(string(v))
	case string:
		s.Bytes(v)
	default:
		s.Parameter(v)
	}
}

// Fill appends constant text and calls value for each ? in it.
func (s *Statement) Fill(text string, value func(at int)) {
	for at := 0; ; at++ {
		before, after, more := strings.Cut(text, "?")
		s.SQL(before)
		if !more {
			return
		}
		value(at)
		text = after
	}
}

// Word appends a trusted word, such as a state, as text in every dialect.
func (s *Statement) Word(text string) {
	if s.dialect.prepare {
		s.Parameter(text)
		return
	}
	s.Bytes(text)
}

// Parameter appends a parameter.
func (s *Statement) Parameter(v any) {
	s.text.WriteByte('?')
	s.args = append(s.args, v)
}

// Execute runs a statement and returns the number of rows that it matched.
func (t *Tx) Execute(s *Statement) (int64, error) {
	return t.conn.execText(t.ctx, s.text.String(), s.args...)
}

// RowsOf reads all rows of a statement into dest, a pointer to a slice.
func (r *Reader) RowsOf(dest any, s *Statement) error {
	return r.conn.listText(r.ctx, dest, s.text.String(), s.args...)
}

// Inserting adds rows to a table in as many statements as the dialect wants. Row begins a row,
// whose values follow in the order of the columns; End runs the last statement.
type Inserting struct {
	Statement
	into, or string
	run      func(s *Statement, rows int) error
	left     int // rows that are expected
	rows     int // in the statement
	within   bool
	err      error
}

// Inserting begins an insertion. into names the table and its columns, or is what to do about
// existing rows, rows is the expected number. run runs each statement.
func (t *Tx) Inserting(into, or string, rows int,
	run func(s *Statement, rows int) error) *Inserting {
	return &Inserting{
		Statement: Statement{dialect: t.conn.dialect},
		into:      into,
		or:        or,
		left:      rows,
		run:       run,
	}
}

// Row begins a row.
func (i *Inserting) Row() {
	if i.rows >= i.dialect.insertRows && !i.mayEnd() || i.text.Len() > statementBytes {
		i.flush()
	}
	switch i.rows {
	case 0:
		i.SQL(i.into)
		i.text.WriteString(" VALUES (")
	case 1: // the others will be about as long
		left := max(min(i.left, i.dialect.insertRows), 0)
		i.text.Grow(min((i.text.Len()-len(i.into))*left*9/8+len(i.or), statementBytes))
		fallthrough
	default:
		i.text.WriteString("),(")
	}
	i.rows++
	i.left--
	i.within = false
}

// mayEnd reports whether the few remaining rows may go into a full statement, to save one. If
// statements are kept prepared, that would create more of them.
func (i *Inserting) mayEnd() bool {
	return !i.dialect.prepare && i.left > 0 && i.rows+i.left <= i.dialect.insertRows*5/4
}

func (i *Inserting) next() {
	if i.within {
		i.text.WriteByte(',')
	}
	i.within = true
}

// Number appends a number.
func (i *Inserting) Number(n int64) {
	i.next()
	i.Statement.Number(n)
}

// Bytes appends a value that is stored as bytes.
func (i *Inserting) Bytes(text string) {
	i.next()
	i.Statement.Bytes(text)
}

// Word appends a word of the schema, not quoted data of a caller.
func (i *Inserting) Word(text string) {
	i.next()
	i.Statement.Word(text)
}

// OrNull appends a text, or NULL if it is empty.
func (i *Inserting) OrNull(text string) {
	i.next()
	if text == "" {
		i.Null()
		return
	}
	i.Statement.Bytes(text)
}

// RequestID appends a request id as bytes, which no engine folds or takes for a number.
func (i *Inserting) RequestID(id string) {
	i.Bytes(id)
}

func (i *Inserting) flush() {
	if i.err == nil && i.rows > 0 {
		i.text.WriteByte(')')
		i.SQL(i.or)
		i.err = i.run(&i.Statement, i.rows)
	}
	i.text.Reset()
	i.args, i.rows = nil, 0
}

// End runs what remains. It returns the first error of any statement.
func (i *Inserting) End() error {
	i.flush()
	return i.err
}

// IDs appends the condition that two columns, a budget's number and a request id, equal one of the
// ids.
func (s *Statement) IDs(columns string, ids []bucket.ID) {
	if s.dialect.tuples {
		s.SQL("(" + columns + ") IN (")
		for i, id := range ids {
			s.SQL(separator(i, "(", ",("))
			s.Number(id.Budget)
			s.SQL(",")
			s.Bytes(id.RequestID)
			s.SQL(")")
		}
		s.SQL(")")
		return
	}
	budgetColumn, idColumn, _ := strings.Cut(columns, ",")
	s.SQL(budgetColumn + " = ")
	s.Number(ids[0].Budget)
	s.SQL(" AND " + idColumn + " IN (")
	for i, id := range padded(s.dialect, ids) {
		s.SQL(separator(i, "", ","))
		s.Bytes(id.RequestID)
	}
	s.SQL(")")
}

// Numbers appends the condition that a column equals one of the numbers.
func (s *Statement) Numbers(column string, list []int64) {
	s.SQL(column + " IN (")
	for i, n := range padded(s.dialect, list) {
		s.SQL(separator(i, "", ","))
		s.Number(n)
	}
	s.SQL(")")
}

// statementBytes bounds the parameters of one statement: servers accept at least 16 MiB.
const statementBytes = 4 << 20

// fitting returns how many of the arguments fit one statement, in whole rows and at least one row.
func fitting(args []any, columns int) int {
	bytes := 0
	for i, arg := range args {
		if text, ok := arg.([]byte); ok {
			bytes += 2 * len(text) // escaped
		}
		if bytes > statementBytes && i >= columns {
			return i / columns * columns
		}
	}
	return len(args)
}

// joinedTo replaces each place in a text by a column of the list, starting with column.
func joinedTo(text, place string, column int) string {
	for strings.Contains(text, place) {
		text = strings.Replace(text, place, "v."+joinedColumn(column), 1)
		column++
	}
	return text
}

func joinedColumn(n int) string { return "v" + strconv.Itoa(n) }
