package engine

import (
	"context"
	"fmt"
	"strings"
)

const selectVariables = `SHOW VARIABLES WHERE Variable_name IN
	('innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'innodb_doublewrite', 'wsrep_on')`

// Weaknesses returns the settings of the database under which a committed transaction may be lost,
// each with how to mend it; nil when there are none. A SQLite file is opened with safe ones.
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

// weaknesses judges the variables of a server.
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
