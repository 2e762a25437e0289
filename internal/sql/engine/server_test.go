package engine

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestReplicaIsNotRead checks that a server that became read-only is neither read from nor opened
// until it accepts writes again, even if it would answer and the user may write there.
func TestReplicaIsNotRead(t *testing.T) {
	server := testservers.MariaDB(t)
	dsn := server.NewDatabase(t)
	db := mustOpen(t, Config{Driver: "mysql", DSN: dsn})
	admin := foreign(t, "mysql", dsn)
	if _, err := look(t, db); err != nil {
		t.Fatal(err)
	}
	do(t, admin, "SET GLOBAL read_only = 1")
	time.Sleep(writerEvery)
	if _, err := look(t, db); !budget.Is(err, budget.Unavailable) || !strings.Contains(err.Error(), "read_only is 1") {
		t.Errorf("read from a replica: %v", err)
	}
	if err := write(t, db); !budget.Is(err, budget.Unavailable) {
		t.Errorf("written to a replica: %v", err)
	}
	if _, err := Open(t.Context(), Config{Driver: "mysql", DSN: dsn}); err == nil || !strings.Contains(err.Error(), "read_only is 1") {
		t.Errorf("opened: %v", err)
	}
	do(t, admin, "SET GLOBAL read_only = 0")
	if _, err := look(t, db); err != nil {
		t.Errorf("writable again: %v", err)
	}
}

// TestSessionOfTheServersChoice checks that the server's session defaults affect neither budgetd nor
// the tables that it makes.
func TestSessionOfTheServersChoice(t *testing.T) {
	server := testservers.MariaDB(t, testservers.MariaDBArgs("--skip-character-set-client-handshake",
		"--character-set-server=gbk", "--collation-server=gbk_chinese_ci", "--completion-type=CHAIN",
		"--default-storage-engine=Aria"))
	server.Execute(t, "SET GLOBAL check_constraint_checks = 0")
	db := mustOpen(t, Config{Driver: "mysql", DSN: server.NewDatabase(t)})
	err := db.Read(context.Background(), "test", func(r *Reader) error {
		var row struct {
			Client     string `db:"client"`
			Completion string `db:"completion"`
		}
		_, err := r.Get(&row, "SELECT @@character_set_client AS client, @@completion_type AS completion")
		if row.Client != "utf8mb4" || row.Completion != "NO_CHAIN" {
			t.Errorf("%+v", row)
		}
		if err != nil {
			return err
		}
		var others int
		_, err = r.Get(&others, `SELECT COUNT(*) FROM information_schema.tables
			WHERE table_schema = DATABASE() AND engine <> 'InnoDB'`)
		if others > 0 {
			t.Errorf("%d tables are not of InnoDB", others)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Write(context.Background(), "test", func(t *Tx) error {
		_, err := t.Exec(`INSERT INTO installation (only_row, installation_id, ring_version, format,
			created_ms) VALUES (2, 'x', 1, 1, 1)`)
		return err
	})
	const checkViolated = 4025
	var refusal *mysql.MySQLError
	if !errors.As(err, &refusal) || refusal.Number != checkViolated {
		t.Errorf("a row that a CHECK forbids: %v", err)
	}
}

func TestSmallPacketsAreRefused(t *testing.T) {
	server := testservers.MariaDB(t, testservers.MariaDBArgs("--max-allowed-packet=8M"))
	_, err := Open(t.Context(), Config{Driver: "mysql", DSN: server.NewDatabase(t)})
	if err == nil || !strings.Contains(err.Error(), "max_allowed_packet of the database server is 8388608 bytes") {
		t.Errorf("opened: %v", err)
	}
}

// TestPlain checks that plain accepts read_only as a number and as a word, because servers report
// either.
func TestPlain(t *testing.T) {
	for want, v := range map[string]driver.Value{"0": int64(0), "OFF": []byte("OFF"), "1": []byte("1")} {
		if got := plain(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}
