package engine

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/budgetd/budgetd/budget"
)

const (
	defaultPoolSize, maxPoolSize = 16, 1000

	// idleLimit is how long an unused connection is kept. It is shorter than sessionWait, after
	// which the server would close it.
	idleLimit    = 5 * time.Second
	connLifetime = 5 * time.Minute

	dialTimeout  = 5 * time.Second
	readTimeout  = 30 * time.Second // longer than several lock waits; contexts usually end before
	writeTimeout = 10 * time.Second
	// auditReadTimeout is for sums of every row of a ledger: about 1 us a row, several times that
	// on a busy server.
	auditReadTimeout = 10 * time.Minute
	// auditPoolSize bounds the concurrent snapshots.
	auditPoolSize = 4

	// migrationLock bounds the wait for another node that creates the tables.
	migrationLock = 60 * time.Second

	// writerEvery is the interval at which a connection in use checks that its server accepts
	// writes.
	writerEvery = time.Second
	// leastPacket is the minimum of max_allowed_packet: a statement of statementBytes with every
	// byte escaped, and a margin.
	leastPacket = 16 << 20
)

// session is set by every connection. It leaves out the isolation level, whose variable has no
// spelling that all servers know. The setting in a comment is MariaDB's; without it a list of
// 1,000 values and more (500 keys of two columns) becomes a join with a temporary table, which
// reads and locks rows that are not in the list. A server may have switched CHECK off (MariaDB) and
// make tables without transactions by default.
const session = `SET SESSION
	sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ONLY_FULL_GROUP_BY',
	character_set_client = utf8mb4, character_set_connection = utf8mb4,
		character_set_results = utf8mb4,
	/*M!100300 in_predicate_conversion_threshold = 0, check_constraint_checks = 1, */
	default_storage_engine = InnoDB,
	time_zone = '+00:00', autocommit = 1, completion_type = 0, innodb_lock_wait_timeout = 2,
		lock_wait_timeout = 10,
	wait_timeout = `

const (
	isolation = `SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED`
	// servingSession releases the row locks of a stopped node after 10 s.
	servingSession = session + `10`
	// migratingSession allows for a slow statement of the migration.
	migratingSession = session + `28800`
)

// openServer opens a database on a MySQL or MariaDB server.
func (db *DB) openServer(ctx context.Context, config Config) error {
	parsed, err := parseDSN(config.DSN)
	if err != nil {
		return err
	}
	if err := perConnection(parsed, config); err != nil {
		return err
	}
	db.dialect = newMySQLDialect()
	if err := db.prepareServer(ctx, parsed.Clone()); err != nil {
		return err
	}
	auditing := parsed.Clone()
	auditing.ReadTimeout = max(parsed.ReadTimeout, auditReadTimeout)
	size := config.PoolSize
	if size <= 0 {
		size = defaultPoolSize
	}
	serving, err := db.newServerPool(parsed, min(size, maxPoolSize))
	if err != nil {
		return err
	}
	db.writers, db.readers = serving, serving
	if db.auditors, err = db.newServerPool(auditing, auditPoolSize); err != nil {
		return err
	}
	db.lookers = make(chan struct{}, max(min(size, maxPoolSize)/2, 1))
	db.committers, err = db.newCommitters(parsed, min(size, maxPoolSize))
	return err
}

// perConnection makes each connection read secrets and certificates, so that they can be rotated
// while the process runs.
func perConnection(parsed *mysql.Config, config Config) error {
	if config.Secret == nil && config.Encrypt == nil {
		return nil
	}
	return parsed.Apply(mysql.BeforeConnect(func(_ context.Context, c *mysql.Config) error {
		if config.Secret != nil {
			now, err := mysql.ParseDSN(config.Secret())
			if err != nil {
				return errors.New("database.dsn cannot be read any more")
			}
			c.User, c.Passwd = now.User, now.Passwd
		}
		if config.Encrypt != nil {
			c.TLS = config.Encrypt()
			if host, _, err := net.SplitHostPort(c.Addr); err == nil && c.TLS.ServerName == "" {
				c.TLS.ServerName = host
			}
		}
		return nil
	}))
}

func (db *DB) newServerPool(parsed *mysql.Config, size int) (*serverPool, error) {
	inner, err := mysql.NewConnector(parsed)
	if err != nil {
		return nil, fmt.Errorf("database.dsn: %w", err)
	}
	pool := sql.OpenDB(&connector{Connector: inner, settings: []string{isolation, servingSession}})
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	pool.SetConnMaxIdleTime(idleLimit)
	pool.SetConnMaxLifetime(connLifetime)
	return &serverPool{db: sqlx.NewDb(pool, "mysql"), dialect: db.dialect}, nil
}

// prepareServer checks the server's version and creates or completes the tables, on connections of
// its own and under the migration lock.
func (db *DB) prepareServer(ctx context.Context, parsed *mysql.Config) error {
	parsed.ReadTimeout = 0 // a migration may take long; ctx ends it
	parsed.ParseTime = true
	inner, err := mysql.NewConnector(parsed)
	if err != nil {
		return fmt.Errorf("database.dsn: %w", err)
	}
	raw := sql.OpenDB(&connector{Connector: inner, settings: []string{isolation, migratingSession}})
	defer raw.Close()
	var version string
	var packet int64
	const question = "SELECT VERSION(), @@global.max_allowed_packet"
	if err := raw.QueryRowContext(ctx, question).Scan(&version, &packet); err != nil {
		err = fmt.Errorf("connect to the database %s at %s: %w", parsed.DBName, parsed.Addr, err)
		if fateOf(err) == lost {
			err = &budget.Error{Code: budget.Unavailable, Op: "open", Err: err}
		}
		return err
	}
	if err := checkVersion(version); err != nil {
		return err
	}
	if packet < leastPacket {
		return fmt.Errorf(
			"max_allowed_packet of the database server is %d bytes, budgetd needs %d: "+
				"set it in the server's "+
				"configuration",
			packet,
			leastPacket,
		)
	}
	isMariaDB := strings.Contains(strings.ToLower(version), mariaDB)
	db.dialect.valuesList = isMariaDB // from 10.3
	unlock, err := lockMigration(ctx, raw, parsed.DBName)
	if err != nil {
		return err
	}
	defer unlock()
	if err := checkBinlog(ctx, raw); err != nil {
		return err
	}
	if err := checkRights(ctx, raw, parsed); err != nil {
		return err
	}
	return db.migrate(ctx, raw)
}

// lockMigration excludes other nodes from creating the tables of the same database. GET_LOCK
// belongs to a connection, so one is held until unlock.
func lockMigration(ctx context.Context, raw *sql.DB, database string) (unlock func(), err error) {
	conn, err := raw.Conn(ctx)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(database))
	name := "budgetd/" + hex.EncodeToString(sum[:16]) // names are the server's, of at most 64 bytes
	var got sql.NullInt64
	seconds := int(migrationLock.Seconds())
	err = conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", name, seconds).Scan(&got)
	if err == nil && got.Int64 != 1 {
		err = fmt.Errorf("another budgetd has been making the tables of the database %s for %s", database,
			migrationLock)
	}
	drop := func() {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the lock goes with the connection
		_ = conn.Close()
	}
	if err != nil {
		drop()
		return nil, err
	}
	return drop, nil
}

// connector opens connections and sets their sessions.
type connector struct {
	driver.Connector
	settings []string
	// named makes connections read the server's id of them.
	named bool
}

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	execer, ok := conn.(driver.ExecerContext)
	if !ok {
		_ = conn.Close()
		return nil, Defect("the driver's connection cannot execute")
	}
	for _, text := range c.settings {
		if _, err := execer.ExecContext(ctx, text, nil); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("set up the session: %w", err)
		}
	}
	full, ok := conn.(driverConn)
	if !ok {
		_ = conn.Close()
		return nil, Defect("the driver's connection lacks a method of %T", &serverConn{})
	}
	s := &serverConn{driverConn: full}
	err = s.writable(ctx)
	if err == nil && c.named {
		err = s.readThread(ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return s, nil
}

// driverConn is the part of the driver's connections that database/sql uses.
type driverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// serverConn is a connection to a server that accepts writes. A server that became a replica may be
// behind, so what it lacks is not missing and it must not be read from; but by itself it refuses
// only writes.
type serverConn struct {
	driverConn
	seen     time.Time // when the server last took writes
	prepared map[string]driver.Stmt
	thread   thread // of committers only
}

// kept begins a query whose text a connection keeps prepared. It is for frequent queries with few
// texts that take the server longer to parse than to execute: at most maxKept of them.
const kept, maxKept = "/*kept*/", 64

// QueryContext runs a query: as a prepared statement if it is marked as kept and the server has
// room for it, else as text.
func (c *serverConn) QueryContext(ctx context.Context, query string,
	args []driver.NamedValue) (driver.Rows, error) {
	if s := c.statement(ctx, query); s != nil {
		rows, err := s.QueryContext(ctx, args)
		if !forgotten(err) {
			return rows, err
		}
		c.prepared[query] = nil // nothing was read; from now on it goes as text
	}
	return c.driverConn.QueryContext(ctx, query, args)
}

// statement returns the prepared statement of a kept query; nil means to send it as text.
func (c *serverConn) statement(ctx context.Context, query string) driver.StmtQueryContext {
	if !strings.HasPrefix(query, kept) {
		return nil
	}
	s, known := c.prepared[query]
	if !known && len(c.prepared) < maxKept {
		var err error
		if s, err = c.PrepareContext(ctx, query); err != nil && ctx.Err() != nil {
			return nil // the text fails as well, and the next one may prepare it
		}
		if c.prepared == nil {
			c.prepared = map[string]driver.Stmt{}
		}
		c.prepared[query] = s // nil after another error: it comes again with the text, or does not matter
	}
	q, _ := s.(driver.StmtQueryContext)
	return q
}

// forgotten reports whether the server no longer knows a prepared statement, or wants it prepared
// again.
func forgotten(err error) bool {
	const unknownStatement, needsReprepare = 1243, 1615
	var e *mysql.MySQLError
	return errors.As(err, &e) && (e.Number == unknownStatement || e.Number == needsReprepare)
}

// ResetSession is called before a connection is reused. It returns driver.ErrBadConn to have it
// replaced.
func (c *serverConn) ResetSession(ctx context.Context) error {
	if err := c.driverConn.ResetSession(ctx); err != nil {
		return err
	}
	if time.Since(c.seen) < writerEvery {
		return nil
	}
	if err := c.writable(ctx); err != nil {
		return driver.ErrBadConn
	}
	return nil
}

// writable returns ER_READ_ONLY_MODE unless the server accepts writes.
func (c *serverConn) writable(ctx context.Context) error {
	at := time.Now()
	values, err := c.pair(ctx, `SELECT @@global.read_only, @@global.innodb_read_only`)
	if err != nil {
		return err
	}
	for i, name := range []string{"read_only", "innodb_read_only"} {
		if value := values[i]; value != "0" && value != "OFF" {
			return &mysql.MySQLError{
				Number:  1836,
				Message: name + " is " + value + ": it is a replica, or was made one",
			}
		}
	}
	c.seen = at
	return nil
}

// plain returns a column's value as text: the driver has numbers and bytes.
func plain(v driver.Value) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return fmt.Sprint(v)
}

// checkVersion refuses servers without the CHECK constraints that the schema relies on.
func checkVersion(version string) error {
	var major, minor, patch int
	if _, err := fmt.Sscanf(strings.TrimPrefix(version, "5.5.5-"), "%d.%d.%d", &major, &minor,
		&patch); err != nil {
		return fmt.Errorf("the database server's version %q cannot be read", version)
	}
	number := major*10_000 + minor*100 + patch
	if strings.Contains(strings.ToLower(version), mariaDB) {
		if number < 10_06_00 {
			return fmt.Errorf("the database server is MariaDB %s, budgetd needs 10.6 or later", version)
		}
		return nil
	}
	if number < 8_00_16 {
		return fmt.Errorf("the database server is MySQL %s, budgetd needs 8.0.16 or later", version)
	}
	return nil
}
