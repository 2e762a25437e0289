package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestRightsAreCheckedAtOpen checks that a user who may read the tables but lacks a right of
// budgetd is refused with the missing rights, and that one with exactly the documented rights is
// accepted.
func TestRightsAreCheckedAtOpen(t *testing.T) {
	server := testservers.SharedMariaDB(t)
	dsn := server.NewDatabase(t)
	mustOpen(t, Config{Driver: "mysql", DSN: dsn}) // makes the tables
	admin := foreign(t, "mysql", dsn)
	owner, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ rights, missing string }{
		{"SELECT", "the user may not DELETE, INSERT and UPDATE"},
		{"SELECT, INSERT, UPDATE", "the user may not DELETE"},
		{"SELECT, INSERT, UPDATE, DELETE", ""},
	} {
		user := testservers.UniqueName()
		do(t, admin, fmt.Sprintf("CREATE USER %s@'%%' IDENTIFIED BY 'pass'", user),
			fmt.Sprintf("GRANT %s ON %s.* TO %s@'%%'", test.rights, owner.DBName, user))
		t.Cleanup(func() { do(t, admin, fmt.Sprintf("DROP USER %s@'%%'", user)) })
		as := owner.Clone()
		as.User, as.Passwd = user, "pass"
		db, err := Open(t.Context(), Config{Driver: "mysql", DSN: as.FormatDSN()})
		if err == nil {
			_ = db.Close()
		}
		if test.missing == "" && err != nil || test.missing != "" && (err == nil ||
			!strings.Contains(err.Error(), test.missing) ||
			!strings.Contains(err.Error(), "GRANT SELECT, INSERT, UPDATE, DELETE ON "+owner.DBName)) {
			t.Errorf("%s: %v", test.rights, err)
		}
	}
}
