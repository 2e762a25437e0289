package engine

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/budgetd/budgetd"
	"github.com/budgetd/budgetd/auditlog"
)

// versionTable is goose's table. The name is specific to budgetd, because a shared database may
// have another program's.
const versionTable = "budgetd_schema_version"

// ringVersion is the format of the ring's hash and labels in new databases.
const ringVersion = 1

// migrate brings the database to this binary's version. The caller excludes other nodes: by the
// file lock for SQLite, by GET_LOCK for MySQL.
func (db *DB) migrate(ctx context.Context, raw *sql.DB) error {
	return db.migrateBy(ctx, raw, db.migrations()...)
}

func (db *DB) migrateBy(ctx context.Context, raw *sql.DB, steps ...*goose.Migration) error {
	names, err := db.tableNames(ctx, raw)
	if err != nil {
		return fmt.Errorf("list the tables of the database: %w", err)
	}
	if err := refuseStrangers(names); err != nil {
		return err
	}
	if err := db.beginVersions(ctx, raw, names[versionTable]); err != nil {
		return fmt.Errorf("make the table of versions: %w", err)
	}
	provider, err := goose.NewProvider(db.dialect.goose(), raw, nil,
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true),
		goose.WithGoMigrations(steps...), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return err
	}
	current, newest, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the version of the database: %w", err)
	}
	if current > newest {
		return fmt.Errorf("the database is at version %d, this budgetd knows versions up to %d: "+
			"it was used by a newer budgetd; upgrade this one", current, newest)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("make the tables: %w", err)
	}
	return db.install(ctx, raw)
}

// beginVersions makes goose's table with its first row. goose would leave the table empty where the
// row cannot be written, hide the server's error, and refuse every later start.
func (db *DB) beginVersions(ctx context.Context, raw *sql.DB, there bool) error {
	store, err := database.NewStore(db.dialect.goose(), versionTable)
	if err == nil && !there {
		err = store.CreateVersionTable(ctx, raw)
	}
	if err != nil {
		return err
	}
	var rows int
	err = raw.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+versionTable).Scan(&rows)
	if err != nil || rows > 0 {
		return err
	}
	return store.Insert(ctx, raw, database.InsertRequest{Version: 0})
}

// migrations returns the steps from an empty database to this binary's schema.
func (db *DB) migrations() []*goose.Migration {
	return []*goose.Migration{db.migration(1, statements(budgetd.Schema))}
}

// migration returns a step made of statements. SQLite runs it in one transaction. In MySQL a schema
// change commits by itself, so an interrupted step has executed its first statements: it skips each
// CREATE whose object exists.
func (db *DB) migration(version int64, statements []string) *goose.Migration {
	if db.dialect.name == sqliteName {
		return goose.NewGoMigration(version, &goose.GoFunc{
			RunTx: func(ctx context.Context, tx *sql.Tx) error {
				return runAll(ctx, statements, tx.ExecContext)
			},
		}, nil)
	}
	return goose.NewGoMigration(version, &goose.GoFunc{
		RunDB: func(ctx context.Context, raw *sql.DB) error {
			var left []string
			for _, text := range statements {
				there, err := made(ctx, raw, text)
				if err != nil {
					return err
				}
				if !there {
					left = append(left, text)
				}
			}
			return runAll(ctx, left, raw.ExecContext)
		},
	}, nil)
}

func runAll(ctx context.Context, statements []string,
	exec func(context.Context, string, ...any) (sql.Result, error)) error {
	for _, text := range statements {
		if _, err := exec(ctx, text); err != nil {
			return fmt.Errorf("%s …: %w", strings.SplitN(text, "\n", 2)[0], err)
		}
	}
	return nil
}

var (
	createTable = regexp.MustCompile(`(?s)\ACREATE TABLE (\w+) `)
	createIndex = regexp.MustCompile(`(?s)\ACREATE (?:UNIQUE )?INDEX (\w+) ON (\w+) `)
)

const (
	countTable = `SELECT COUNT(*) FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_name = ?`
	countIndex = `SELECT COUNT(*) FROM information_schema.statistics
		WHERE table_schema = DATABASE() AND index_name = ? AND table_name = ?`
)

// made reports whether the object of a CREATE statement exists already.
func made(ctx context.Context, raw *sql.DB, text string) (bool, error) {
	query, args := "", []any(nil)
	if m := createTable.FindStringSubmatch(text); m != nil {
		query, args = countTable, []any{m[1]}
	} else if m := createIndex.FindStringSubmatch(text); m != nil {
		query, args = countIndex, []any{m[1], m[2]}
	} else {
		return false, nil
	}
	var n int
	err := raw.QueryRowContext(ctx, query, args...).Scan(&n)
	return n > 0, err
}

// refuseStrangers refuses a database that budgetd has never used and that has a table with one of
// its names. It ignores other programs' tables.
func refuseStrangers(names map[string]bool) error {
	if names[versionTable] {
		return nil
	}
	for _, text := range statements(budgetd.Schema) {
		if m := createTable.FindStringSubmatch(text); m != nil && names[m[1]] {
			return fmt.Errorf("the database has a table %q that budgetd did not make: "+
				"use a database of its own", m[1])
		}
	}
	return nil
}

func (db *DB) tableNames(ctx context.Context, raw *sql.DB) (map[string]bool, error) {
	rows, err := raw.QueryContext(ctx, db.dialect.tables())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names := map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names[name] = true
	}
	return names, rows.Err()
}

const (
	countInstallation  = `SELECT COUNT(*) FROM installation`
	insertSequence     = `INSERT INTO sequence (name, next_id) VALUES (?, 1)`
	deleteSequences    = `DELETE FROM sequence`
	insertAccessState  = `INSERT INTO access_state (only_row, version) VALUES (1, 1)`
	insertInstallation = `INSERT INTO installation (only_row, installation_id, ring_version, format,
		created_ms)
		VALUES (1, ?, ?, ?, ?)`
)

// Names of the rows in sequence.
const (
	SequenceBudget = "budget"
	SequenceBucket = "bucket"
	SequenceAlert  = "alert"
)

// schemaFormat is installation.format. Until the first release a change of schema.sql raises it.
// From then on such a change is a migration.
const schemaFormat = 8

// install inserts the rows that every database has, once.
func (db *DB) install(ctx context.Context, raw *sql.DB) error {
	tx, err := raw.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after Commit
	var n int
	if err := tx.QueryRowContext(ctx, countInstallation).Scan(&n); err != nil || n > 0 {
		return err
	}
	id, err := newInstallationID(db.random)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, deleteSequences); err != nil {
		return err
	}
	for _, name := range []string{SequenceBudget, SequenceBucket, SequenceAlert} {
		if _, err := tx.ExecContext(ctx, insertSequence, []byte(name)); err != nil {
			return err
		}
	}
	now := ToMS(db.clock())
	if _, err := tx.ExecContext(ctx, insertAccessState); err != nil {
		return err
	}
	if err := auditlog.Install(ctx, tx); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, insertInstallation, []byte(id), ringVersion, schemaFormat,
		now); err != nil {
		return err
	}
	return tx.Commit()
}

// statements splits a schema into its statements, without comments and the final semicolons. It
// ignores `--` and `;` inside quotes.
func statements(schema string) []string {
	var out []string
	var b strings.Builder
	end := func() {
		if text := strings.TrimSpace(b.String()); text != "" {
			out = append(out, text)
		}
		b.Reset()
	}
	for _, line := range strings.Split(schema, "\n") {
		quote := byte(0)
	line:
		for i := 0; i < len(line); i++ {
			c := line[i]
			switch {
			case quote != 0:
				if c == quote {
					quote = 0
				}
			case c == '\'' || c == '"' || c == '`':
				quote = c
			case strings.HasPrefix(line[i:], "--"):
				break line
			case c == ';':
				end()
				continue
			}
			b.WriteByte(c)
		}
		text := strings.TrimRight(b.String(), " \t")
		b.Reset()
		b.WriteString(text + "\n")
	}
	end()
	return out
}
