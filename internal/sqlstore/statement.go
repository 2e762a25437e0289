package sqlstore

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/internal/safeguard"
)

// statement is a statement while it is written: its text and, where the dialect keeps statements prepared, its parameters.
// Elsewhere each value stands in the text: numbers as decimals, texts as x'…', which a server reads faster than _binary'…'
// (0.3 us each) and which ends where it should whatever the text holds. Its methods do nothing but add to it.
type statement struct {
	dialect *dialect
	text    strings.Builder
	args    []any
}

// sql adds constant text, with the dialect's marks.
func (s *statement) sql(text string) { s.text.WriteString(s.dialect.constant(text)) }

// number adds a value.
func (s *statement) number(n int64) {
	if s.dialect.prepare {
		s.parameter(n)
		return
	}
	var digits [20]byte
	s.text.Write(strconv.AppendInt(digits[:0], n, 10))
}

// bytes adds a value of VARBINARY or BLOB.
func (s *statement) bytes(text string) {
	if s.dialect.prepare {
		s.parameter([]byte(text))
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

// null adds NULL.
func (s *statement) null() {
	if s.dialect.prepare {
		s.parameter(nil)
		return
	}
	s.text.WriteString("NULL")
}

// value adds a value that is bound elsewhere: one of another type than int64, int, string, []byte and nil is left to the driver.
func (s *statement) value(v any) {
	if s.dialect.prepare {
		s.parameter(v)
		return
	}
	switch v := v.(type) {
	case nil:
		s.null()
	case int64:
		s.number(v)
	case int:
		s.number(int64(v))
	case []byte:
		s.bytes(string(v))
	case string:
		s.bytes(v)
	default:
		s.parameter(v)
	}
}

// fill adds constant text with a value at each ?; value adds it.
func (s *statement) fill(text string, value func(place int)) {
	for place := 0; ; place++ {
		before, after, more := strings.Cut(text, "?")
		s.sql(before)
		if !more {
			return
		}
		value(place)
		text = after
	}
}

// word adds a value that is a word of ours, such as a state: text everywhere.
func (s *statement) word(text string) {
	if s.dialect.prepare {
		s.parameter(text)
		return
	}
	s.bytes(text)
}

// parameter adds a parameter.
func (s *statement) parameter(v any) {
	s.text.WriteByte('?')
	s.args = append(s.args, v)
}

// execute runs a statement and returns how many rows it matched.
func (t *tx) execute(s *statement) (int64, error) {
	return t.conn.execText(t.ctx, s.text.String(), s.args...)
}

// rowsOf reads all rows of a statement into dest, a pointer to a slice.
func (r *reader) rowsOf(dest any, s *statement) error {
	return r.conn.listText(r.ctx, dest, s.text.String(), s.args...)
}

// inserting adds rows to a table with as many statements as the dialect wants: row begins one, whose values follow in the
// order of the columns, and end runs the last statement.
type inserting struct {
	statement
	into, or string
	run      func(s *statement, rows int) error
	left     int // rows that are expected
	rows     int // in the statement
	within   bool
	err      error
}

// inserting begins: into names the table and its columns, or is what to do about rows that are there, rows how many are
// expected. run runs each statement.
func (t *tx) inserting(into, or string, rows int, run func(s *statement, rows int) error) *inserting {
	return &inserting{statement: statement{dialect: t.conn.dialect}, into: into, or: or, left: rows, run: run}
}

// row begins a row.
func (i *inserting) row() {
	if i.rows >= i.dialect.insertRows && !i.mayEnd() || i.text.Len() > statementBytes {
		i.flush()
	}
	switch i.rows {
	case 0:
		i.sql(i.into)
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

// mayEnd reports whether the few rows that are left may go into a full statement, to save one. Where statements are kept
// prepared there would be more of them.
func (i *inserting) mayEnd() bool {
	return !i.dialect.prepare && i.left > 0 && i.rows+i.left <= i.dialect.insertRows*5/4
}

func (i *inserting) next() {
	if i.within {
		i.text.WriteByte(',')
	}
	i.within = true
}

func (i *inserting) number(n int64) {
	i.next()
	i.statement.number(n)
}

func (i *inserting) bytes(text string) {
	i.next()
	i.statement.bytes(text)
}

func (i *inserting) word(text string) {
	i.next()
	i.statement.word(text)
}

// orNull adds a text, NULL where it is empty.
func (i *inserting) orNull(text string) {
	i.next()
	if text == "" {
		i.null()
		return
	}
	i.statement.bytes(text)
}

// requestID adds a request id: as bytes, which no engine takes for a number or folds.
func (i *inserting) requestID(id string) {
	if safeguard.Off(safeguard.BytesKeys) {
		i.word(id)
		return
	}
	i.bytes(id)
}

func (i *inserting) flush() {
	if i.err == nil && i.rows > 0 {
		i.text.WriteByte(')')
		i.sql(i.or)
		i.err = i.run(&i.statement, i.rows)
	}
	i.text.Reset()
	i.args, i.rows = nil, 0
}

// end runs what is left. Error: the first of any statement.
func (i *inserting) end() error {
	i.flush()
	return i.err
}

// inserted is what runs a statement of inserting of which nothing is read.
func (t *tx) inserted(s *statement, _ int) error {
	_, err := t.execute(s)
	return err
}
