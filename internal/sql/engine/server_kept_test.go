package engine

import (
	"context"
	"database/sql/driver"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// keeping is a driver's connection that counts queries, and may not know what it prepared.
type keeping struct {
	driverConn
	prepares, executes, texts int
	refuse, forget            error
}

func (k *keeping) PrepareContext(context.Context, string) (driver.Stmt, error) {
	k.prepares++
	if k.refuse != nil {
		return nil, k.refuse
	}
	return keptStatement{nil, k}, nil
}

func (k *keeping) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	k.texts++
	return nil, nil
}

type keptStatement struct {
	driver.Stmt
	of *keeping
}

func (s keptStatement) QueryContext(context.Context, []driver.NamedValue) (driver.Rows, error) {
	s.of.executes++
	return nil, s.of.forget
}

// TestKeptStatements checks that a kept query is prepared once per connection. One that the server
// does not prepare, or forgot, is sent as text from then on, and so is every other query.
func TestKeptStatements(t *testing.T) {
	type counts struct{ prepares, executes, texts int }
	for _, c := range []struct {
		name, query    string
		refuse, forget error
		want           counts
		fails          bool
	}{
		{"kept", kept + "SELECT 1", nil, nil, counts{1, 3, 0}, false},
		{"another", "SELECT 1", nil, nil, counts{0, 0, 3}, false},
		{"no more are prepared", kept + "SELECT 1", &mysql.MySQLError{Number: 1461}, nil, counts{1, 0, 3}, false},
		{"unknown to the server", kept + "SELECT 1", nil, &mysql.MySQLError{Number: 1243}, counts{1, 1, 3}, false},
		{"to be prepared again", kept + "SELECT 1", nil, &mysql.MySQLError{Number: 1615}, counts{1, 1, 3}, false},
		{"fails", kept + "SELECT 1", nil, driver.ErrBadConn, counts{1, 3, 0}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &keeping{refuse: c.refuse, forget: c.forget}
			conn := &serverConn{driverConn: k}
			for range 3 {
				if _, err := conn.QueryContext(t.Context(), c.query, nil); (err != nil) != c.fails {
					t.Error(err)
				}
			}
			if got := (counts{k.prepares, k.executes, k.texts}); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
