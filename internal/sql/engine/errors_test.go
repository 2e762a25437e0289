package engine

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/budgetd/budgetd/budget"
)

// TestNotDoneSaysWhy checks that an error of something not done names the reason and what to do.
func TestNotDoneSaysWhy(t *testing.T) {
	for _, test := range []struct {
		cause error
		want  budget.Reason
		says  string
	}{
		{driver.ErrBadConn, budget.ReasonDatabaseDown, "cannot be reached"},
		{context.DeadlineExceeded, budget.ReasonDatabaseDown, "did not answer in time"},
		{context.Canceled, "", "given up"},
		{&mysql.MySQLError{Number: 1213}, budget.ReasonOverloaded, "the same rows"},
		{&mysql.MySQLError{Number: 1114}, budget.ReasonDatabaseDown, "out of space"},
		{&mysql.MySQLError{Number: 1030}, budget.ReasonDatabaseDown, "out of space"},
		{&mysql.MySQLError{Number: 1665}, budget.ReasonDatabaseDown, "its settings or rights"},
		{&mysql.MySQLError{Number: 1142}, budget.ReasonDatabaseDown, "its settings or rights"},
	} {
		var e *budget.Error
		if err := notDone("commit", fmt.Errorf("write: %w", test.cause)); !errors.As(err, &e) ||
			e.Code != budget.Unavailable || e.Reason != test.want || e.RetryAfter <= 0 ||
			!strings.Contains(e.Message, test.says) || !strings.Contains(e.Message, "nothing was changed") {
			t.Errorf("%v: %v, reason %q", test.cause, err, e.Reason)
		}
	}
}
