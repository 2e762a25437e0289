package keys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/budget"
)

// Create stores a new key. A principal of a tenant may have at most access.MaxLiveKeys live keys at
// key.CreatedMS. Errors: too_many_keys.
func Create(ctx context.Context, tx Tx, key access.Key) error {
	if err := changing(ctx, tx); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	return create(ctx, tx, key)
}

// CreateFirst stores the key of the first administrator unless any key exists, even a revoked or
// expired one, and reports whether it did.
func CreateFirst(ctx context.Context, tx Tx, key access.Key) (bool, error) {
	if err := changing(ctx, tx); err != nil {
		return false, fmt.Errorf("keys: %w", err)
	}
	var n int
	err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM access_key`).Scan(&n)
	if err != nil || n > 0 {
		return false, err
	}
	return true, create(ctx, tx, key)
}

func create(ctx context.Context, tx Tx, key access.Key) error {
	const live = `SELECT COUNT(*) FROM access_key WHERE tenant = ? AND principal = ? AND revoked_ms = 0
		AND (expires_ms = 0 OR expires_ms > ?)`
	const insert = `INSERT INTO access_key (key_id, secret_hash, principal, role, tenant, budgets,
		created_ms, created_by, expires_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	tenant, principal := []byte(key.Scope.Tenant), []byte(key.Principal)
	var n int
	if err := tx.QueryRowContext(ctx, live, tenant, principal, key.CreatedMS).Scan(&n); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if n >= access.MaxLiveKeys {
		return budget.Refuse(budget.TooManyKeys, "create key",
			"%q has %d live keys: revoke one of them first", key.Principal, n)
	}
	role, err := key.Role.MarshalText()
	if err != nil {
		return err
	}
	var budgets []byte
	if len(key.Scope.Budgets) > 0 {
		if budgets, err = json.Marshal(key.Scope.Budgets); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, insert, []byte(key.ID), key.Hash[:], principal, role, tenant, budgets,
		key.CreatedMS, []byte(key.CreatedBy), key.ExpiresMS)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	return nil
}

// Revoke revokes a key from nowMS on and returns it as it was and as it is now. A key that is
// already revoked stays unchanged. Errors: key_not_found.
func Revoke(ctx context.Context, tx Tx, id string, nowMS int64) (was, is access.Key, err error) {
	const update = `UPDATE access_key SET revoked_ms = ? WHERE key_id = ? AND revoked_ms = 0`
	if was, err = lock(ctx, tx, id); err != nil {
		return was, is, err
	}
	if _, err := tx.ExecContext(ctx, update, nowMS, []byte(id)); err != nil {
		return was, is, fmt.Errorf("keys: %w", err)
	}
	if is = was; is.RevokedMS == 0 {
		is.RevokedMS = nowMS
	}
	return was, is, nil
}

// lock excludes every other change until the transaction ends, and reads a key. Errors:
// key_not_found.
func lock(ctx context.Context, tx Tx, id string) (access.Key, error) {
	if err := changing(ctx, tx); err != nil {
		return access.Key{}, fmt.Errorf("keys: %w", err)
	}
	return One(ctx, tx, id)
}

// Rotation is what became of a key that was rotated: as it was, as it is now, and the key after it.
type Rotation struct{ Was, Is, Next access.Key }

// Rotate stores another key for the principal of a live one, with its role, scope and lifetime, and
// makes the earlier one expire at untilMS, unless it expires sooner. fresh has the new key's id,
// hash, creation and creator; Rotate fills its other fields. Errors: key_not_found, key_not_live,
// too_many_keys.
func Rotate(ctx context.Context, tx Tx, id string, fresh access.Key,
	untilMS int64) (Rotation, error) {
	const update = `UPDATE access_key SET expires_ms = ?
		WHERE key_id = ? AND (expires_ms = 0 OR expires_ms > ?)`
	old, err := lock(ctx, tx, id)
	if err != nil {
		return Rotation{}, err
	}
	if why := old.Check(fresh.CreatedMS); why != access.Accepted {
		return Rotation{}, budget.Refuse(budget.KeyNotLive, "rotate key", "the key is %s", why)
	}
	fresh.Principal, fresh.Role, fresh.Scope = old.Principal, old.Role, old.Scope
	if old.ExpiresMS != 0 {
		fresh.ExpiresMS = fresh.CreatedMS + old.ExpiresMS - old.CreatedMS
	}
	if err := create(ctx, tx, fresh); err != nil {
		return Rotation{}, err
	}
	if _, err := tx.ExecContext(ctx, update, untilMS, []byte(id), untilMS); err != nil {
		return Rotation{}, fmt.Errorf("keys: %w", err)
	}
	out := Rotation{Was: old, Is: old, Next: fresh}
	if old.ExpiresMS == 0 || old.ExpiresMS > untilMS {
		out.Is.ExpiresMS = untilMS
	}
	return out, nil
}

// NoteUse writes the hours of the last use, in milliseconds by key id. It does not count as a
// change, so no node reads the keys again for it.
func NoteUse(ctx context.Context, tx Tx, used map[string]int64) error {
	const update = `UPDATE access_key SET last_used_ms = ? WHERE key_id = ? AND last_used_ms < ?`
	var errs []error
	for id, ms := range used {
		_, err := tx.ExecContext(ctx, update, ms, []byte(id), ms)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
