package bookkeeper

import (
	"slices"
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

// save writes what differs.
func save(m *engine.Move, op string, b *books.Books) error {
	for _, set := range b.Sets() {
		added, changed, removed, err := set.Changes()
		if err != nil {
			return broken(op, err)
		}
		table := set.Table()
		if len(removed) > 0 {
			m.Save(remove(m, table, removed))
		}
		switch {
		case len(changed) == 0:
		case m.Joins() && len(changed) > 1:
			m.Save(updateAll(m, table, changed))
		default:
			for _, row := range changed {
				m.Save(updateOne(m, table, row))
			}
		}
		for rows := range slices.Chunk(added, m.InsertRows()) {
			m.Save(insert(m, table, rows))
		}
	}
	return nil
}

func remove(m *engine.Move, t *books.Table, rows []books.Change) *engine.Statement {
	s := m.Statement()
	s.SQL("DELETE FROM " + t.Name)
	for i, row := range rows {
		for j := range t.Keys {
			s.SQL(separator(j, separator(i, " WHERE (", ") OR ("), " AND ") + t.Columns[j] + " = ")
			literal(s, row.Values[j])
		}
	}
	s.SQL(")")
	return s
}

func insert(m *engine.Move, t *books.Table, rows []books.Change) *engine.Statement {
	s := m.Statement()
	s.SQL("INSERT INTO " + t.Name + " (" + strings.Join(t.Columns, ", ") + ") VALUES ")
	for i, row := range rows {
		s.SQL(separator(i, "(", ",("))
		for j, v := range row.Values {
			s.SQL(separator(j, "", ","))
			literal(s, v)
		}
		s.SQL(")")
	}
	return s
}

// updateOne writes the columns of a row that differ.
func updateOne(m *engine.Move, t *books.Table, row books.Change) *engine.Statement {
	s := m.Statement()
	s.SQL("UPDATE " + t.Name)
	n := 0
	for j, differs := range row.Differs {
		if differs {
			s.SQL(separator(n, " SET ", ", ") + t.Columns[j] + " = ")
			literal(s, row.Values[j])
			n++
		}
	}
	for j := range t.Keys {
		s.SQL(separator(j, " WHERE ", " AND ") + t.Columns[j] + " = ")
		literal(s, row.Values[j])
	}
	return s
}

// updateAll writes the columns that differ in any of the rows. It joins the table with the list of
// the new values, and finds each row by its key.
func updateAll(m *engine.Move, t *books.Table, rows []books.Change) *engine.Statement {
	var columns []int
	for j := range t.Columns {
		if j < t.Keys || slices.ContainsFunc(rows, func(r books.Change) bool { return r.Differs[j] }) {
			columns = append(columns, j)
		}
	}
	s := m.Statement()
	s.SQL("UPDATE (")
	for i, row := range rows {
		switch {
		case i == 0:
			s.SQL("SELECT ")
		case !s.ListsValues():
			s.SQL(" UNION ALL SELECT ")
		default:
			s.SQL(separator(i-1, " UNION ALL VALUES (", "),("))
		}
		for n, j := range columns {
			s.SQL(separator(n, "", ","))
			literal(s, row.Values[j])
			if i == 0 {
				s.SQL(" AS " + named(j))
			}
		}
	}
	if s.ListsValues() {
		s.SQL(")")
	}
	s.SQL(") v /*in order*/ JOIN " + t.Name + " r /*by PRIMARY*/ ON ")
	for j := range t.Keys {
		s.SQL(separator(j, "", " AND ") + "r." + t.Columns[j] + " = v." + named(j))
	}
	for n, j := range columns[t.Keys:] {
		s.SQL(separator(n, " SET ", ", ") + "r." + t.Columns[j] + " = v." + named(j))
	}
	return s
}

func named(column int) string { return "v" + strconv.Itoa(column) }

func separator(i int, first, others string) string {
	if i == 0 {
		return first
	}
	return others
}

// literal writes a value of a row: a number, a Word as text, a string as bytes, or a pointer to one
// of them, of which nil is NULL.
func literal(s *engine.Statement, v any) {
	switch v := v.(type) {
	case int64:
		s.Number(v)
	case books.Word:
		s.Word(string(v))
	case string:
		s.Bytes(v)
	case *int64:
		if v == nil {
			s.Null()
			return
		}
		s.Number(*v)
	case *string:
		if v == nil {
			s.Null()
			return
		}
		s.Bytes(*v)
	}
}
