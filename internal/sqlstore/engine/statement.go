package engine

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/bucket"
)

// Statement is a statement while it is written: its text and, where the dialect keeps statements
// prepared, its parameters. Elsewhere each value stands in the text: numbers as decimals, texts
// as x'…', which a server reads faster than _binary'…' (0.3 us each) and which ends where it
// should whatever the text holds. Its methods do nothing but add to it.
type Statement struct {
	dialect *dialect
	text    strings.Builder
	args    []any
}

// Statement begins a statement.
func (r *Reader) Statement() *Statement { return &Statement{dialect: r.conn.dialect} }

// Tuples adds the condition that columns are one of the keys, each with a value per column.
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

// separator is what stands before an element of a list.
func separator(i int, first, others string) string {
	if i == 0 {
		return first
	}
	return others
}

// SQL adds constant text, with the dialect's marks.
func (s *Statement) SQL(text string) { s.text.WriteString(s.dialect.constant(text)) }

// Number adds a value.
func (s *Statement) Number(n int64) {
	if s.dialect.prepare {
		s.Parameter(n)
		return
	}
	var digits [20]byte
	s.text.Write(strconv.AppendInt(digits[:0], n, 10))
}

// Bytes adds a value of VARBINARY or BLOB.
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

// Null adds NULL.
func (s *Statement) Null() {
	if s.dialect.prepare {
		s.Parameter(nil)
		return
	}
	s.text.WriteString("NULL")
}

// Value adds a value that is bound elsewhere: one of another type than int64, int, string,
// []byte and nil is left to the driver.
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

// Fill adds constant text with a value at each ?; value adds it.
func (s *Statement) Fill(text string, value func(place int)) {
	for place := 0; ; place++ {
		before, after, more := strings.Cut(text, "?")
		s.SQL(before)
		if !more {
			return
		}
		value(place)
		text = after
	}
}

// Word adds a value that is a word of ours, such as a state: text everywhere.
func (s *Statement) Word(text string) {
	if s.dialect.prepare {
		s.Parameter(text)
		return
	}
	s.Bytes(text)
}

// Parameter adds a parameter.
func (s *Statement) Parameter(v any) {
	s.text.WriteByte('?')
	s.args = append(s.args, v)
}

// Execute runs a statement and returns how many rows it matched.
func (t *Tx) Execute(s *Statement) (int64, error) {
	return t.conn.execText(t.ctx, s.text.String(), s.args...)
}

// RowsOf reads all rows of a statement into dest, a pointer to a slice.
func (r *Reader) RowsOf(dest any, s *Statement) error {
	return r.conn.listText(r.ctx, dest, s.text.String(), s.args...)
}

// Inserting adds rows to a table with as many statements as the dialect wants: row begins one,
// whose values follow in the
// order of the columns, and end runs the last statement.
type Inserting struct {
	Statement
	into, or string
	run      func(s *Statement, rows int) error
	left     int // rows that are expected
	rows     int // in the statement
	within   bool
	err      error
}

// Inserting begins: into names the table and its columns, or is what to do about rows that are
// there, rows how many are
// expected. run runs each statement.
func (t *Tx) Inserting(
	into, or string,
	rows int,
	run func(s *Statement, rows int) error,
) *Inserting {
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

// mayEnd reports whether the few rows that are left may go into a full statement, to save one.
// Where statements are kept
// prepared there would be more of them.
func (i *Inserting) mayEnd() bool {
	return !i.dialect.prepare && i.left > 0 && i.rows+i.left <= i.dialect.insertRows*5/4
}

func (i *Inserting) next() {
	if i.within {
		i.text.WriteByte(',')
	}
	i.within = true
}

// Number adds a number.
func (i *Inserting) Number(n int64) {
	i.next()
	i.Statement.Number(n)
}

// Bytes adds a value that is kept as bytes.
func (i *Inserting) Bytes(text string) {
	i.next()
	i.Statement.Bytes(text)
}

// Word adds a value that is a word of the schema, not quoted data of a caller.
func (i *Inserting) Word(text string) {
	i.next()
	i.Statement.Word(text)
}

// OrNull adds a text, NULL where it is empty.
func (i *Inserting) OrNull(text string) {
	i.next()
	if text == "" {
		i.Null()
		return
	}
	i.Statement.Bytes(text)
}

// RequestID adds a request id: as bytes, which no engine takes for a number or folds.
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

// End runs what is left. Error: the first of any statement.
func (i *Inserting) End() error {
	i.flush()
	return i.err
}

// ListsManyBudgets reports whether IDs takes ids of several budgets.
func (r *Reader) ListsManyBudgets() bool { return r.conn.dialect.groups }

// IDs adds the condition that the two columns, a budget's number and a request id, are one of
// the ids.
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

// Numbers adds the condition that a column is one of the numbers.
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

// fitting returns how many of the arguments, in whole rows and at least one, fit one statement.
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

// joinedTo puts the columns of the list, from one on, in the places of a text.
func joinedTo(text, place string, column int) string {
	for strings.Contains(text, place) {
		text = strings.Replace(text, place, "v."+joinedColumn(column), 1)
		column++
	}
	return text
}

func joinedColumn(n int) string { return "v" + strconv.Itoa(n) }
