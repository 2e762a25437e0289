package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// probe tries one thing that the ledger relies on. A server that only looks like MySQL accepts the
// statements and does something else.
type probe struct {
	name string
	// lacks is what the server does instead, and remedy the setting that mends it.
	lacks, remedy string
	steps         []step
}

// step is a statement on one of two connections, and the answers that are right: the value that it
// reads, the number of rows that it matches ("1 rows"), or its error ("error 1205"). Without any,
// every answer but an error is right.
type step struct {
	on    int
	text  string
	right []string
}

// The two connections of a step.
const first, second = 0, 1

const (
	begin       = `START TRANSACTION`
	insertProbe = `INSERT INTO sequence (name, next_id) VALUES ('self-test', 1)`
	matchProbe  = `UPDATE sequence SET next_id = 1 WHERE name = 'self-test'`
	countProbe  = `SELECT COUNT(*) FROM sequence WHERE name = 'self-test'`
	shareProbe  = `SELECT next_id FROM sequence WHERE name = 'self-test' LOCK IN SHARE MODE`
	lockProbe   = `SELECT next_id FROM sequence WHERE name = 'self-test' FOR UPDATE NOWAIT`
	deleteProbe = `DELETE FROM sequence WHERE name = 'self-test'`
	breakCheck  = `INSERT INTO installation (only_row, installation_id, ring_version, format,
		created_ms) VALUES (2, 'self-test', 1, 1, 1)`
	insertHeld = `INSERT INTO quarantine (bucket_id, epoch, budget_id, instance, partition_number,
		quantity,
		released_quantity, cause, created_at) VALUES (-1, 1, -1, 'self-test', 0, 2, 1, '', 0)`
	releaseHeld  = `UPDATE quarantine SET released_quantity = 2 WHERE bucket_id = -1 AND epoch = 1`
	selectIsHeld = `SELECT is_held FROM quarantine WHERE bucket_id = -1 AND epoch = 1`
)

var (
	oneRow    = []string{"1 rows"}
	one, none = []string{"1"}, []string{"0"}
	// blocked is the answer of MariaDB and of MySQL to NOWAIT when the row is locked.
	blocked = []string{"error 1205", "error 3572"}
	// refused is their answer to a row that a CHECK forbids.
	refused = []string{"error 4025", "error 3819"}
)

// probes are in this order because a later one relies on the earlier ones. Only the row of the
// isolation is ever committed, and the locks use it.
var probes = []probe{
	{"rollback", "it keeps what was rolled back",
		"tables must be InnoDB: default_storage_engine=InnoDB in an empty database", []step{
			{first, begin, nil}, {first, insertProbe, oneRow}, {first, "ROLLBACK", nil},
			{first, countProbe, none}}},
	{"found rows", "an UPDATE counts the rows that it changes, not those that it finds",
		"what stands before the server must pass CLIENT_FOUND_ROWS on", []step{
			{first, begin, nil}, {first, insertProbe, oneRow}, {first, matchProbe, oneRow}}},
	{"isolation", "a transaction sees what others have not committed, or not what they have",
		"it must obey transaction_isolation=READ-COMMITTED of a session; TiDB: tidb_txn_mode=pessimistic",
		[]step{{first, begin, nil}, {first, insertProbe, oneRow}, {second, begin, nil},
			{second, countProbe, none}, {first, "COMMIT", nil}, {second, countProbe, one}}},
	{"locks", "a row that one transaction has locked is not closed to another one",
		"tables must be InnoDB; TiDB: tidb_enable_shared_lock_promotion=ON and tidb_txn_mode=pessimistic",
		[]step{{first, begin, nil}, {first, shareProbe, one}, {second, begin, nil},
			{second, lockProbe, blocked}, {first, "COMMIT", nil}, {second, lockProbe, one},
			{first, begin, nil}, {first, lockProbe, blocked}}},
	{"check", "it does not enforce CHECK",
		"MariaDB: check_constraint_checks=ON; TiDB: tidb_enable_check_constraint=ON in an empty database",
		[]step{{first, begin, nil}, {first, breakCheck, refused}}},
	{"generated column", "it does not compute generated columns",
		"let budgetd make its tables in an empty database of MySQL or MariaDB", []step{
			{first, begin, nil}, {first, insertHeld, oneRow}, {first, selectIsHeld, one},
			{first, releaseHeld, oneRow}, {first, selectIsHeld, none}}},
}

// selfTest runs the probes on two connections of a pool, which have the settings of those that
// serve. It returns an error that says what the server lacks and which setting mends it. It needs
// no right that serving does not need, and leaves nothing behind. The caller excludes other nodes.
func selfTest(ctx context.Context, raw *sql.DB, version, database string) error {
	if strings.Contains(strings.ToLower(version), "vitess") {
		if err := oneShard(ctx, raw, database); err != nil {
			return err
		}
	}
	var conns [2]*sql.Conn
	for i := range conns {
		conn, err := raw.Conn(ctx)
		if err != nil {
			return fmt.Errorf("self-test of the database: %w", err)
		}
		defer conn.Close()
		conns[i] = conn
	}
	clean := func() error { // also what a node left that ended here
		_, err := conns[first].ExecContext(ctx, deleteProbe)
		return err
	}
	err := clean()
	for _, p := range probes {
		if err == nil {
			err = p.run(ctx, conns)
		}
	}
	return errors.Join(err, clean())
}

// oneShard refuses a keyspace of Vitess in several shards, over which no transaction is atomic.
func oneShard(ctx context.Context, raw *sql.DB, keyspace string) error {
	rows, err := raw.QueryContext(ctx, "SHOW VITESS_SHARDS")
	if err != nil {
		return fmt.Errorf("the database is Vitess, and does not say how many shards it has: %w", err)
	}
	defer rows.Close()
	keyspace, _, _ = strings.Cut(keyspace, "@")
	shards := 0
	for rows.Next() {
		var shard string
		if err := rows.Scan(&shard); err != nil {
			return err
		}
		if strings.HasPrefix(shard, keyspace+"/") {
			shards++
		}
	}
	if shards > 1 {
		return fmt.Errorf("the database is Vitess with %d shards of the keyspace %s, over which no "+
			"transaction is atomic: use a keyspace without shards", shards, keyspace)
	}
	return rows.Err()
}

// run takes the steps until an answer is wrong.
func (p probe) run(ctx context.Context, conns [2]*sql.Conn) (err error) {
	defer func() {
		for _, conn := range conns {
			_, e := conn.ExecContext(ctx, "ROLLBACK")
			err = errors.Join(err, e)
		}
	}()
	for _, s := range p.steps {
		answer, err := s.run(ctx, conns[s.on])
		if err != nil {
			return fmt.Errorf("self-test of the database, %s: %w", p.name, err)
		}
		wrong := s.right == nil && strings.HasPrefix(answer, "error")
		if wrong || s.right != nil && !slices.Contains(s.right, answer) {
			return fmt.Errorf("budgetd cannot rely on this database server: %s (%q answers %q, not %q): %s",
				p.lacks, s.text, answer, strings.Join(s.right, " or "), p.remedy)
		}
	}
	return nil
}

// run returns the answer to a step. An error is one that is not an answer of the server.
func (s step) run(ctx context.Context, conn *sql.Conn) (answer string, err error) {
	if strings.HasPrefix(s.text, "SELECT") {
		var value sql.NullString
		err = conn.QueryRowContext(ctx, s.text).Scan(&value)
		answer = value.String
	} else {
		var result sql.Result
		if result, err = conn.ExecContext(ctx, s.text); err == nil {
			var n int64
			n, err = result.RowsAffected()
			answer = fmt.Sprintf("%d rows", n)
		}
	}
	var refusal *mysql.MySQLError
	switch {
	case errors.As(err, &refusal):
		return fmt.Sprintf("error %d", refusal.Number), nil
	case errors.Is(err, sql.ErrNoRows):
		return "no row", nil
	}
	return answer, err
}
