package books

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"sync"
)

// Table describes the table of a type of rows.
type Table struct {
	Name string
	// Columns are the columns that the rows have, the primary key first.
	Columns []string
	// Keys is how many columns the primary key has.
	Keys int
}

var tables sync.Map // by the type of the rows

// tableOf returns the table of a type of rows, from the tags of its fields: db names the column,
// key marks those of the primary key, which come first.
func tableOf[R any](name string) *Table {
	rowType := reflect.TypeFor[R]()
	if known, is := tables.Load(rowType); is {
		return known.(*Table)
	}
	t := &Table{Name: name}
	for i := range rowType.NumField() {
		f := rowType.Field(i)
		t.Columns = append(t.Columns, f.Tag.Get("db"))
		if _, is := f.Tag.Lookup("key"); is {
			t.Keys++
		}
	}
	tables.Store(rowType, t)
	return t
}

// Set is the rows of one table in Books: as they were loaded, and as they are.
type Set[R any, K comparable] struct {
	table *Table
	key   func(*R) K
	at    map[K]*R
	now   []*R // in the order in which they were loaded or added
	was   []*R // as loaded; nil for a new row
	bare  []bool
	gone  []*R // those of was that were removed
}

func newSet[R any, K comparable](name string, key func(*R) K) Set[R, K] {
	return Set[R, K]{table: tableOf[R](name), key: key, at: map[K]*R{}}
}

// All returns the rows in the order in which they were loaded or added.
func (s *Set[R, K]) All() []*R { return s.now }

// Get returns the row with a key, or nil.
func (s *Set[R, K]) Get(key K) *R { return s.at[key] }

// Add adds a new row.
func (s *Set[R, K]) Add(row R) *R {
	s.add(&row, nil, false)
	return &row
}

// Load adds rows that were read, and leaves those out that are there. bare means that no lock
// covers them, so they must not change.
func (s *Set[R, K]) Load(rows []R, bare bool) {
	for i := range rows {
		if s.at[s.key(&rows[i])] == nil {
			was := rows[i]
			s.add(&rows[i], &was, bare)
		}
	}
}

func (s *Set[R, K]) add(now, was *R, bare bool) {
	s.now = append(s.now, now)
	s.was = append(s.was, was)
	s.bare = append(s.bare, bare)
	s.at[s.key(now)] = now
}

// Remove removes the rows for which which is true. It is for tables without units, whose rows are
// covered by their budget's lock.
func (s *Set[R, K]) Remove(which func(*R) bool) {
	old := *s
	s.now, s.was, s.bare = nil, nil, nil
	for i, row := range old.now {
		switch {
		case !which(row):
			s.add(row, old.was[i], old.bare[i])
		default:
			delete(s.at, s.key(row))
			if old.was[i] != nil {
				s.gone = append(s.gone, old.was[i])
			}
		}
	}
}

// Table returns the table of the rows.
func (s *Set[R, K]) Table() *Table { return s.table }

// Change is a row to write: its values in the order of the columns and, for a row that was there,
// which of them differ from what was loaded.
type Change struct {
	Values  []any
	Differs []bool
}

// Changes returns the new rows, the changed ones and the removed ones, each in the order of the
// primary key. Error: a row was changed that no lock covers.
func (s *Set[R, K]) Changes() (added, changed, removed []Change, err error) {
	for i, now := range s.now {
		if s.was[i] == nil {
			added = append(added, Change{Values: valuesOf(now)})
			continue
		}
		if reflect.DeepEqual(now, s.was[i]) {
			continue
		}
		if s.bare[i] {
			return nil, nil, nil, fmt.Errorf("%s %v was read without a lock and changed", s.table.Name,
				s.key(now))
		}
		changed = append(changed, difference(valuesOf(s.was[i]), valuesOf(now)))
	}
	order := func(a, b Change) int { return s.table.compare(a.Values, b.Values) }
	slices.SortFunc(added, order)
	slices.SortFunc(changed, order)
	for _, row := range s.gone {
		removed = append(removed, Change{Values: valuesOf(row)})
	}
	slices.SortFunc(removed, order)
	return added, changed, removed, nil
}

func valuesOf[R any](row *R) []any {
	v := reflect.ValueOf(row).Elem()
	out := make([]any, v.NumField())
	for i := range out {
		out[i] = v.Field(i).Interface()
	}
	return out
}

func difference(was, now []any) Change {
	c := Change{Values: now, Differs: make([]bool, len(now))}
	for i := range now {
		c.Differs[i] = !reflect.DeepEqual(was[i], now[i])
	}
	return c
}

// compare compares rows by their primary keys.
func (t *Table) compare(a, b []any) int {
	for i := range t.Keys {
		n := 0
		switch x := a[i].(type) {
		case int64:
			n = cmp.Compare(x, b[i].(int64))
		case string:
			n = cmp.Compare(x, b[i].(string))
		}
		if n != 0 {
			return n
		}
	}
	return 0
}
