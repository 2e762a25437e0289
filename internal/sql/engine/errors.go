package engine

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"

	"github.com/budgetd/budgetd/budget"
)

// fate classifies an error by what it means for its transaction.
type fate uint8

const (
	// decided is an answer such as a refusal, not an error of the database.
	decided fate = iota + 1
	// again means that the engine asks to retry the transaction.
	again
	// taken means that the unique key exists, because another transaction was faster. A retry finds
	// the row.
	taken
	// lost means that the connection is lost, or was never established.
	lost
	// full means that the engine cannot write now because it lacks space, memory, connections or
	// permission, or because of one of its settings.
	full
	// over means that the caller's context ended.
	over
	// wrong is an unexpected error: a defect, or a database that was changed from outside.
	wrong
)

// ErrAgain makes Write retry the whole transaction, because a row changed between the read and the
// lock.
var ErrAgain = errors.New("read before the lock and changed since")

// mysqlFates are the expected errors of MySQL and MariaDB. The numbers are those of mysqld_error.h;
// rejectReadOnly turns 1290, 1792 and 1836 into driver.ErrBadConn.
var mysqlFates = map[uint16]fate{
	1205: again, // ER_LOCK_WAIT_TIMEOUT: rolls back the statement only
	1213: again, // ER_LOCK_DEADLOCK
	1020: again, // ER_CHECKREAD: changed since the snapshot
	1317: again, // ER_QUERY_INTERRUPTED: KILL QUERY
	1615: again, // ER_NEED_REPREPARE
	3572: again, // ER_LOCK_NOWAIT
	1062: taken, // ER_DUP_ENTRY
	1047: lost,  // ER_UNKNOWN_COM_ERROR: a Galera server without its cluster refuses everything
	1053: lost,  // ER_SERVER_SHUTDOWN
	1077: lost,  // ER_NORMAL_SHUTDOWN
	1079: lost,  // ER_SHUTDOWN_COMPLETE
	1152: lost,  // ER_ABORTING_CONNECTION
	1184: lost,  // ER_NEW_ABORTING_CONNECTION
	1158: lost,  // ER_NET_READ_ERROR
	1159: lost,  // ER_NET_READ_INTERRUPTED
	1160: lost,  // ER_NET_ERROR_ON_WRITE
	1161: lost,  // ER_NET_WRITE_INTERRUPTED
	1927: lost,  // MariaDB ER_CONNECTION_KILLED
	3032: lost,  // MySQL ER_SERVER_OFFLINE_MODE
	4031: lost,  // MySQL ER_CLIENT_INTERACTION_TIMEOUT
	1021: full,  // ER_DISK_FULL
	1037: full,  // ER_OUTOFMEMORY
	1041: full,  // ER_OUT_OF_RESOURCES
	1114: full,  // ER_RECORD_FILE_FULL
	1206: full,  // ER_LOCK_TABLE_FULL
	1026: full,  // ER_ERROR_ON_WRITE
	1030: full,  // ER_GET_ERRNO: the storage engine's own error, such as 28, no space left
	1197: full,  // ER_TRANS_CACHE_FULL: max_binlog_cache_size
	1534: full,  // ER_BINLOG_ROW_LOGGING_FAILED
	1598: full,  // ER_BINLOG_LOGGING_IMPOSSIBLE
	1665: full,  // ER_BINLOG_STMT_MODE_AND_ROW_ENGINE: binlog_format became STATEMENT
	1142: full,  // ER_TABLEACCESS_DENIED_ERROR
	1143: full,  // ER_COLUMNACCESS_DENIED_ERROR
	1227: full,  // ER_SPECIFIC_ACCESS_DENIED_ERROR
	1040: full,  // ER_CON_COUNT_ERROR
	1203: full,  // ER_TOO_MANY_USER_CONNECTIONS
	1226: full,  // ER_USER_LIMIT_REACHED
	1044: full,  // ER_DBACCESS_DENIED_ERROR
	1045: full,  // ER_ACCESS_DENIED_ERROR
	1049: full,  // ER_BAD_DB_ERROR
	1129: full,  // ER_HOST_IS_BLOCKED
	1290: full,  // ER_OPTION_PREVENTS_STATEMENT
	1792: full,  // ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
	1836: full,  // ER_READ_ONLY_MODE
	3024: again, // MySQL ER_QUERY_TIMEOUT
	1969: again, // MariaDB ER_STATEMENT_TIMEOUT
}

// sqliteFates are the expected errors of SQLite, by primary or extended result code (sqlite3.h).
var sqliteFates = map[int]fate{
	5:    again, // SQLITE_BUSY
	6:    again, // SQLITE_LOCKED
	9:    again, // SQLITE_INTERRUPT
	15:   again, // SQLITE_PROTOCOL
	1555: taken, // SQLITE_CONSTRAINT_PRIMARYKEY
	2067: taken, // SQLITE_CONSTRAINT_UNIQUE
	7:    full,  // SQLITE_NOMEM
	8:    full,  // SQLITE_READONLY
	10:   full,  // SQLITE_IOERR
	13:   full,  // SQLITE_FULL
	14:   full,  // SQLITE_CANTOPEN
}

// IsTaken reports whether an error says that a row with the key exists.
func IsTaken(err error) bool { return fateOf(err) == taken }

// fateOf classifies an error by type and number, never by text. nil has no fate.
func fateOf(err error) fate {
	var (
		answer  *budget.Error
		my      *mysql.MySQLError
		lite    *sqlite.Error
		network net.Error
	)
	switch {
	case errors.As(err, &answer):
		return decided
	case errors.Is(err, ErrAgain):
		return again
	case errors.As(err, &my):
		return cmpFate(mysqlFates[my.Number])
	case errors.As(err, &lite):
		if f, known := sqliteFates[lite.Code()]; known {
			return f
		}
		return cmpFate(sqliteFates[lite.Code()&0xff])
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return over
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, mysql.ErrInvalidConn),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, mysql.ErrPktSync), errors.Is(err, mysql.ErrMalformPkt), errors.As(err, &network):
		return lost
	}
	return wrong
}

func cmpFate(f fate) fate {
	if f == 0 {
		return wrong
	}
	return f
}

// rolledBack reports whether an error of COMMIT means that the transaction was certainly not
// committed. After any other error it may have been: even an interrupted COMMIT may have reached
// the log before, while it waited for a replica.
func rolledBack(err error) bool {
	var my *mysql.MySQLError
	var lite *sqlite.Error
	const deadlock, busy, tableLocked, diskFull = 1213, 5, 6, 13
	switch {
	case errors.As(err, &my):
		return my.Number == deadlock
	case errors.As(err, &lite):
		// A full disk has no room for the page of the log that commits.
		return slices.Contains([]int{busy, tableLocked, diskFull}, lite.Code()&0xff)
	}
	return false
}

// retried reports whether a retry of the transaction may help.
func (f fate) retried() bool { return f == again || f == taken || f == lost }

// notDone returns the error of a read, or of a transaction that was certainly not committed.
func notDone(op string, err error) error {
	switch fateOf(err) {
	case decided:
		return err
	case wrong, taken:
		return &budget.Error{Code: budget.Internal, Op: op,
			Message: "the database answered unexpectedly", Err: err}
	}
	e := &budget.Error{Code: budget.Unavailable, Op: op, Reason: budget.ReasonDatabaseDown,
		RetryAfter: time.Second, Err: err}
	switch why := "the database cannot be reached"; {
	case errors.Is(err, context.Canceled):
		e.Reason, e.Message = "", "the request was given up; nothing was changed"
	case fateOf(err) == again:
		e.Reason = budget.ReasonOverloaded
		e.Message = "too many transactions want the same rows; nothing was changed; repeat later"
	case fateOf(err) == full:
		why = "the database refuses to work: it is out of space, memory or connections, or read-only, " +
			"or its settings or rights do not let it"
		e.Message = why + "; nothing was changed; an operator has to act"
	case fateOf(err) == over:
		why = "the database did not answer in time"
		fallthrough
	default:
		e.Message = why + "; nothing was changed; repeat later"
	}
	return e
}

// maybeDone returns the error of a transaction that may have been committed.
func maybeDone(op string, err error) error {
	return &budget.Error{Code: budget.OutcomeUnknown, Op: op,
		Message: "the connection to the database was lost while it committed", Err: err}
}

// Defect returns an error for rows that violate the invariants.
func Defect(format string, args ...any) error { return fmt.Errorf("sql: "+format, args...) }

// calm is how long nothing must have been refused before a change that is accepted ends the state
// Refusing: on a full disk some changes still fit.
const calm = 5 * time.Second

// refusal is the first of the changes that the database refused for lack of space, memory,
// connections or permission since it last accepted one for good.
type refusal struct {
	err  error
	last atomic.Int64 // the latest one, Unix nanoseconds of this machine's clock
}

// Refusing returns why the database refuses changes, or nil. Reads may work all the while. It is
// safe for concurrent use.
func (db *DB) Refusing() error {
	if r := db.refusal.Load(); r != nil {
		return r.err
	}
	return nil
}

// refused notes a change that the database refused.
func (db *DB) refused(err error) {
	if fateOf(err) != full {
		return
	}
	r := db.refusal.Load()
	if r == nil {
		r = &refusal{err: err}
		if !db.refusal.CompareAndSwap(nil, r) {
			return // another one was first
		}
	}
	r.last.Store(db.clock().UnixNano())
}

// accepted notes a change that was committed.
func (db *DB) accepted() {
	r := db.refusal.Load()
	if r != nil && db.clock().UnixNano()-r.last.Load() >= int64(calm) {
		db.refusal.CompareAndSwap(r, nil)
	}
}
