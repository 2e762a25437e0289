package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/budgetd/budgetd"
)

// rights are the verbs that budgetd needs on each of its tables, each as a statement that changes
// nothing: %[1]s is a table, %[2]s one of its columns.
var rights = []struct{ verb, try string }{
	{"SELECT", "SELECT 1 FROM %[1]s WHERE 1 = 0"},
	{"INSERT", "INSERT INTO %[1]s SELECT * FROM %[1]s WHERE 1 = 0"},
	{"UPDATE", "UPDATE %[1]s SET %[2]s = %[2]s WHERE 1 = 0"},
	{"DELETE", "DELETE FROM %[1]s WHERE 1 = 0"},
}

const selectFirstColumn = `SELECT column_name FROM information_schema.columns
	WHERE table_schema = DATABASE() AND table_name = ? AND ordinal_position = 1`

// checkBinlog refuses a server whose binary log takes no transaction of budgetd.
func checkBinlog(ctx context.Context, raw *sql.DB) error {
	const question = `SELECT @@global.log_bin = 1 AND @@global.binlog_format = 'STATEMENT'`
	var refuses bool
	if err := raw.QueryRowContext(ctx, question).Scan(&refuses); err != nil {
		return fmt.Errorf("read binlog_format of the database server: %w", err)
	}
	if refuses {
		return errors.New("binlog_format of the database server is STATEMENT, which refuses what " +
			"budgetd writes: set it to ROW")
	}
	return nil
}

// checkRights tries what budgetd does with its tables. It returns an error with all rights that the
// user lacks, and how to grant them. It changes nothing. A table may be missing: a server denies a
// right before it looks for the table.
func checkRights(ctx context.Context, raw *sql.DB, parsed *mysql.Config) error {
	const denied, columnDenied = 1142, 1143 // ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_…
	const noTable = 1146
	var verbs, tables []string
	for _, text := range statements(budgetd.Schema) {
		m := createTable.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		column := "missing"
		err := raw.QueryRowContext(ctx, selectFirstColumn, m[1]).Scan(&column)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("the table %s cannot be read: %w", m[1], err)
		}
		for _, right := range rights {
			_, err := raw.ExecContext(ctx, fmt.Sprintf(right.try, m[1], column))
			var answer *mysql.MySQLError
			switch {
			case errors.As(err, &answer) && (answer.Number == denied || answer.Number == columnDenied):
				verbs, tables = append(verbs, right.verb), append(tables, m[1])
			case errors.As(err, &answer) && answer.Number == noTable:
			case err != nil:
				return fmt.Errorf("the right to %s %s cannot be checked: %w", right.verb, m[1], err)
			}
		}
	}
	if len(verbs) == 0 {
		return nil
	}
	slices.Sort(verbs)
	verbs, tables = slices.Compact(verbs), slices.Compact(tables)
	return fmt.Errorf("the user may not %s in %s: GRANT SELECT, INSERT, UPDATE, DELETE ON %s.* TO %s",
		inWords(verbs), strings.Join(tables, ", "), parsed.DBName, parsed.User)
}

// inWords joins words as in a sentence.
func inWords(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

const selectVariables = `SHOW VARIABLES WHERE Variable_name IN
	('innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'innodb_doublewrite', 'wsrep_on')`

// Weaknesses returns the settings of the database under which a committed transaction may be lost,
// each with its remedy, or nil. A SQLite file is opened with safe settings.
func (db *DB) Weaknesses(ctx context.Context) ([]string, error) {
	if db.dialect.name == sqliteName {
		return nil, nil
	}
	values := map[string]string{}
	err := db.Read(ctx, "check settings", func(r *Reader) error {
		var rows []struct {
			Name  string `db:"Variable_name"`
			Value string `db:"Value"`
		}
		if err := r.List(&rows, selectVariables); err != nil {
			return err
		}
		for _, row := range rows {
			values[row.Name] = row.Value
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return weaknesses(values), nil
}

// weaknesses checks the variables of a server.
func weaknesses(values map[string]string) []string {
	is := func(name string, good ...string) bool {
		value, known := values[name]
		for _, g := range good {
			if strings.EqualFold(value, g) {
				return true
			}
		}
		return !known
	}
	var found []string
	weak := func(name, why, remedy string) {
		found = append(found, fmt.Sprintf("%s=%s: %s; %s", name, values[name], why, remedy))
	}
	if !is("innodb_flush_log_at_trx_commit", "1", "3") { // 3: MariaDB's 1
		weak("innodb_flush_log_at_trx_commit", "a crash of the server may lose commits", "set it to 1")
	}
	if !is("log_bin", "OFF", "0") && !is("sync_binlog", "1") {
		weak("sync_binlog", "a crash may lose commits that replicas have, or replicas those it has",
			"set it to 1")
	}
	if !is("innodb_doublewrite", "ON", "1", "DETECT_AND_RECOVER") {
		weak("innodb_doublewrite", "a crash may leave torn pages",
			"set it to ON, unless the file system writes pages atomically")
	}
	if !is("wsrep_on", "OFF", "0") {
		weak("wsrep_on", "a Galera cluster with several primaries may undo commits at a failover",
			"let budgetd use one of its nodes only")
	}
	return found
}
