package sqlstore

import (
	"encoding/hex"
	"strconv"
)

// statement is a statement while it is written: its text and, where the dialect keeps statements prepared, its parameters.
// Elsewhere each value stands in the text: numbers as decimals, texts as x'…', which a server reads in a third of the time
// of _binary'…' and which ends where it should whatever the text holds. Its methods do nothing but add to it.
type statement struct {
	dialect *dialect
	text    []byte
	args    []any
}

// sql adds constant text, with the dialect's marks.
func (s *statement) sql(text string) { s.text = append(s.text, s.dialect.constant(text)...) }

// number adds a value.
func (s *statement) number(n int64) {
	if s.dialect.prepare {
		s.parameter(n)
		return
	}
	s.text = strconv.AppendInt(s.text, n, 10)
}

// bytes adds a value of VARBINARY or BLOB.
func (s *statement) bytes(text string) {
	if s.dialect.prepare {
		s.parameter([]byte(text))
		return
	}
	s.text = append(s.text, "x'"...)
	s.text = hex.AppendEncode(s.text, []byte(text)) // not copied: it does not escape
	s.text = append(s.text, '\'')
}

// null adds NULL.
func (s *statement) null() {
	if s.dialect.prepare {
		s.parameter(nil)
		return
	}
	s.text = append(s.text, "NULL"...)
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

// parameter adds a parameter.
func (s *statement) parameter(v any) {
	s.text = append(s.text, '?')
	s.args = append(s.args, v)
}

// execute runs a statement and returns how many rows it matched.
func (t *tx) execute(s *statement) (int64, error) {
	return t.conn.execText(t.ctx, string(s.text), s.args...)
}

// rowsOf reads all rows of a statement into dest, a pointer to a slice.
func (r *reader) rowsOf(dest any, s *statement) error {
	return r.conn.listText(r.ctx, dest, string(s.text), s.args...)
}

// inserting adds rows to a table with as many statements as the dialect wants: row begins one, whose values follow in the
// order of the columns, and end runs the last statement.
type inserting struct {
	statement
	into, or string
	run      func(s *statement, rows int) error
	rows     int
	within   bool // after the first value of a row
	err      error
}

// inserting begins: into names the table and its columns, or is what to do about rows that are there. run runs each statement.
func (t *tx) inserting(into, or string, run func(s *statement, rows int) error) *inserting {
	return &inserting{statement: statement{dialect: t.conn.dialect}, into: into, or: or, run: run}
}

// row begins a row. After an error it changes nothing that counts: end reports it.
func (i *inserting) row() {
	if i.rows == i.dialect.insertRows || len(i.text) > statementBytes {
		i.flush()
	}
	switch {
	case i.rows == 0:
		i.sql(i.into)
		i.text = append(i.text, " VALUES ("...)
	default:
		i.text = append(i.text, "),("...)
	}
	i.rows++
	i.within = false
}

func (i *inserting) next() {
	if i.within {
		i.text = append(i.text, ',')
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

// orNull adds a text, NULL where it is empty.
func (i *inserting) orNull(text string) {
	i.next()
	if text == "" {
		i.null()
		return
	}
	i.statement.bytes(text)
}

func (i *inserting) flush() {
	if i.err == nil && i.rows > 0 {
		i.text = append(i.text, ')')
		i.sql(i.or)
		i.err = i.run(&i.statement, i.rows)
	}
	i.text, i.args, i.rows = i.text[:0], nil, 0
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
