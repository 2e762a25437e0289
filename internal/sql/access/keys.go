package access

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/budget"
)

// Tx is an open transaction, such as *sql.Tx or a *sql.Conn that began one.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

var errNoState = errors.New("keys: the row of access_state is missing")

// newestVersion returns the number of changes so far.
func newestVersion(ctx context.Context, tx Tx) (version int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT version FROM access_state WHERE only_row = 1`).
		Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		err = errNoState
	}
	return version, err
}

// changing excludes every other change until the transaction ends, and returns the version of this
// one.
func changing(ctx context.Context, tx Tx) (version int64, err error) {
	done, err := tx.ExecContext(ctx,
		`UPDATE access_state SET version = version + 1 WHERE only_row = 1`)
	if err != nil {
		return 0, fmt.Errorf("keys: %w", err)
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		return 0, errors.Join(err, errNoState)
	}
	return newestVersion(ctx, tx)
}

const columns = `key_id, secret_hash, principal, role, tenant, budgets, subtree_id,
	created_ms, created_by, expires_ms, last_used_ms, revoked_ms, version`

// Cursor is how far the keys were read, in the order of their changes.
type Cursor struct {
	Version int64
	ID      string
}

// changes are keys that were added or changed.
type changes struct {
	Keys []access.Key
	// Odd are the ids of rows that cannot be parsed (edited by hand or written by a later budgetd).
	// Only those keys are refused. Err describes them.
	Odd []string
	Err error
	// Next is the cursor behind them.
	Next Cursor
}

// since returns at most limit keys that changed after a cursor. The zero cursor is before the
// first.
func since(ctx context.Context, tx Tx, after Cursor, limit int) (changes, error) {
	out := changes{Next: after}
	found, err := read(ctx, tx, func(id string, err error) error {
		out.Odd = append(out.Odd, id)
		out.Err = errors.Join(out.Err, err)
		return nil
	}, &out.Next, `SELECT `+columns+` FROM access_key
		WHERE version > ? OR version = ? AND key_id > ? ORDER BY version, key_id LIMIT ?`,
		after.Version, after.Version, []byte(after.ID), limit)
	out.Keys = found
	return out, err
}

// strictly makes one unparsable row fail the whole query.
func strictly(_ string, err error) error { return err }

// page returns at most limit keys after an id, by id, of a tenant or, with "", of all.
func page(ctx context.Context, tx Tx, tenant, after string, limit int) ([]access.Key, error) {
	query, args := `SELECT `+columns+` FROM access_key WHERE key_id > ?`, []any{[]byte(after)}
	if tenant != "" {
		query += ` AND tenant = ?`
		args = append(args, []byte(tenant))
	}
	return read(ctx, tx, strictly, new(Cursor), query+` ORDER BY key_id LIMIT ?`,
		append(args, limit)...)
}

// one returns a key. Errors: key_not_found.
func one(ctx context.Context, tx Tx, id string) (access.Key, error) {
	found, err := read(ctx, tx, strictly, new(Cursor),
		`SELECT `+columns+` FROM access_key WHERE key_id = ?`, []byte(id))
	if err == nil && len(found) == 0 {
		err = budget.Refuse(budget.KeyNotFound, "keys", "there is no key %.20q", id)
	}
	if err != nil {
		return access.Key{}, err
	}
	return found[0], nil
}

// read returns the keys of a query, and in last the place of the last row. It leaves out an
// unparsable row if judge returns nil.
func read(ctx context.Context, tx Tx, judge func(string, error) error, last *Cursor, query string,
	args ...any) (out []access.Key, err error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var key access.Key
		var hash, role, budgets []byte
		err := rows.Scan(&key.ID, &hash, &key.Principal, &role, &key.Scope.Tenant, &budgets,
			&key.Scope.Subtree, &key.CreatedMS, &key.CreatedBy, &key.ExpiresMS, &key.LastUsedMS,
			&key.RevokedMS, &last.Version)
		if err != nil {
			return nil, fmt.Errorf("keys: %w", err)
		}
		last.ID = key.ID
		if err := decode(&key, hash, role, budgets); err != nil {
			if err := judge(key.ID, err); err != nil {
				return nil, fmt.Errorf("keys: %w", err)
			}
			continue
		}
		out = append(out, key)
	}
	return out, rows.Err()
}

// decode checks the columns: a row written by hand must not become a key with more rights than
// intended.
func decode(key *access.Key, hash, role, budgets []byte) error {
	if len(hash) != len(key.Hash) {
		return fmt.Errorf("key %q has a hash of %d bytes", key.ID, len(hash))
	}
	copy(key.Hash[:], hash)
	if err := key.Role.UnmarshalText(role); err != nil {
		return fmt.Errorf("key %q: %w", key.ID, err)
	}
	if (key.Role == access.Delegate) != (key.Scope.Subtree != 0) ||
		key.Scope.Subtree != 0 && (budgets != nil || key.Scope.Check() != nil) {
		return fmt.Errorf("key %q: a delegate has a subtree and a tenant, and others have no subtree",
			key.ID)
	}
	if budgets == nil {
		return nil
	}
	err := json.Unmarshal(budgets, &key.Scope.Budgets)
	if err != nil || len(key.Scope.Budgets) == 0 || key.Scope.Check() != nil {
		return fmt.Errorf("key %q: its budgets are not a list of patterns", key.ID)
	}
	return nil
}
