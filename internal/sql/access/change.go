package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/budget"
)

// createKey stores a new key. At key.CreatedMS a principal of a tenant may have at most
// access.MaxLiveKeys live keys, and the tenant at most perTenant. Errors: too_many_keys.
func createKey(ctx context.Context, tx Tx, key access.Key, perTenant int) error {
	version, err := changing(ctx, tx)
	if err != nil {
		return err
	}
	return create(ctx, tx, key, version, perTenant)
}

// createFirst stores the key of the first administrator unless any key exists, even a revoked or
// expired one, and reports whether it did.
func createFirst(ctx context.Context, tx Tx, key access.Key) (bool, error) {
	version, err := changing(ctx, tx)
	if err != nil {
		return false, err
	}
	var n int
	err = tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM access_key`).Scan(&n)
	if err != nil || n > 0 {
		return false, err
	}
	return true, create(ctx, tx, key, version, 1)
}

func create(ctx context.Context, tx Tx, key access.Key, version int64, perTenant int) error {
	const insert = `INSERT INTO access_key (key_id, secret_hash, principal, role, tenant, budgets,
		subtree_id, created_ms, created_by, expires_ms, version)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	tenant, principal := []byte(key.Scope.Tenant), []byte(key.Principal)
	if err := room(ctx, tx, key, perTenant); err != nil {
		return err
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
		key.Scope.Subtree, key.CreatedMS, []byte(key.CreatedBy), key.ExpiresMS, version)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	return nil
}

// room makes sure that a key may be added. A tenant keeps as many keys that have ended as it may
// have live ones; further ones are removed, those that were issued first before others. Errors:
// too_many_keys.
func room(ctx context.Context, tx Tx, key access.Key, perTenant int) error {
	const live = `revoked_ms = 0 AND (expires_ms = 0 OR expires_ms > ?)`
	const ended = `(revoked_ms <> 0 OR expires_ms <> 0 AND expires_ms <= ?)`
	const counts = `SELECT COUNT(CASE WHEN ` + live + ` AND principal = ? THEN 1 END),
		COUNT(CASE WHEN ` + live + ` THEN 1 END), COUNT(*) FROM access_key WHERE tenant = ?`
	tenant, principal := []byte(key.Scope.Tenant), []byte(key.Principal)
	var own, all, rows int
	err := tx.QueryRowContext(ctx, counts, key.CreatedMS, principal, key.CreatedMS, tenant).
		Scan(&own, &all, &rows)
	switch {
	case err != nil:
		return fmt.Errorf("keys: %w", err)
	case own >= access.MaxLiveKeys:
		return budget.Refuse(budget.TooManyKeys, "create key",
			"%q has %d live keys: revoke one of them first", key.Principal, own)
	case all >= perTenant:
		return budget.Refuse(budget.TooManyKeys, "create key",
			"the tenant has %d live keys, which is the most: revoke some of them first", all)
	}
	if spare := rows - all - perTenant; spare > 0 {
		_, err = removeEnded(ctx, tx, `tenant = ? AND `+ended, min(spare, removeRows), tenant,
			key.CreatedMS)
	}
	return err
}

// removeRows is the most keys that one transaction removes.
const removeRows = 1000

// remove removes at most 1,000 keys that were revoked or expired before an instant, and returns
// their number. The key that was issued last always stays, so that createFirst stays without
// effect.
func remove(ctx context.Context, tx Tx, beforeMS int64) (int, error) {
	const ended = `(revoked_ms <> 0 AND revoked_ms < ? OR expires_ms <> 0 AND expires_ms < ?)`
	return removeEnded(ctx, tx, ended, removeRows, beforeMS, beforeMS)
}

// removeEnded removes at most so many keys that meet a condition. No node has to learn of it: keys
// that have ended are refused by nodes that still know them.
func removeEnded(ctx context.Context, tx Tx, condition string, most int, args ...any) (int, error) {
	rows, err := tx.QueryContext(ctx, `SELECT key_id FROM access_key WHERE `+condition+`
		AND created_ms < (SELECT MAX(created_ms) FROM access_key)
		ORDER BY created_ms, key_id LIMIT ?`, append(args, most)...)
	if err != nil {
		return 0, fmt.Errorf("keys: %w", err)
	}
	var ids [][]byte
	for rows.Next() {
		var id []byte
		if err := rows.Scan(&id); err != nil {
			return 0, errors.Join(err, rows.Close())
		}
		ids = append(ids, id)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return 0, fmt.Errorf("keys: %w", err)
	}
	for _, id := range ids {
		if _, err := tx.ExecContext(ctx, `DELETE FROM access_key WHERE key_id = ?`, id); err != nil {
			return 0, fmt.Errorf("keys: %w", err)
		}
	}
	return len(ids), nil
}

// revoke revokes a key from nowMS on and returns it as it was and as it is now. A key that is
// already revoked stays unchanged. Errors: key_not_found.
func revoke(ctx context.Context, tx Tx, id string, nowMS int64) (was, is access.Key, err error) {
	const update = `UPDATE access_key SET revoked_ms = ?, version = ?
		WHERE key_id = ? AND revoked_ms = 0`
	was, version, err := lock(ctx, tx, id)
	if err != nil {
		return was, is, err
	}
	if _, err := tx.ExecContext(ctx, update, nowMS, version, []byte(id)); err != nil {
		return was, is, fmt.Errorf("keys: %w", err)
	}
	if is = was; is.RevokedMS == 0 {
		is.RevokedMS = nowMS
	}
	return was, is, nil
}

// lock excludes every other change until the transaction ends, and reads a key. Errors:
// key_not_found.
func lock(ctx context.Context, tx Tx, id string) (key access.Key, version int64, err error) {
	if version, err = changing(ctx, tx); err == nil {
		key, err = one(ctx, tx, id)
	}
	return key, version, err
}

// Rotation is what became of a key that was rotated: as it was, as it is now, and the key after it.
type Rotation struct{ Was, Is, Next access.Key }

// rotate stores another key for the principal of a live one, with its role, scope and lifetime, and
// makes the earlier one expire at untilMS, unless it expires sooner. fresh has the new key's id,
// hash, creation, creator and latest expiry (0: none); Rotate fills its other fields. Errors:
// key_not_found, key_not_live, too_many_keys.
func rotate(ctx context.Context, tx Tx, id string, fresh access.Key, untilMS int64,
	perTenant int) (Rotation, error) {
	const update = `UPDATE access_key SET expires_ms = ?, version = ?
		WHERE key_id = ? AND (expires_ms = 0 OR expires_ms > ?)`
	old, version, err := lock(ctx, tx, id)
	if err != nil {
		return Rotation{}, err
	}
	if why := old.Check(fresh.CreatedMS); why != access.Accepted {
		return Rotation{}, budget.Refuse(budget.KeyNotLive, "rotate key", "the key is %s", why)
	}
	fresh.Principal, fresh.Role, fresh.Scope = old.Principal, old.Role, old.Scope
	if last := fresh.ExpiresMS; old.ExpiresMS != 0 {
		fresh.ExpiresMS = fresh.CreatedMS + old.ExpiresMS - old.CreatedMS
		if last != 0 {
			fresh.ExpiresMS = min(fresh.ExpiresMS, last)
		}
	}
	if err := create(ctx, tx, fresh, version, perTenant); err != nil {
		return Rotation{}, err
	}
	if _, err := tx.ExecContext(ctx, update, untilMS, version, []byte(id), untilMS); err != nil {
		return Rotation{}, fmt.Errorf("keys: %w", err)
	}
	out := Rotation{Was: old, Is: old, Next: fresh}
	if old.ExpiresMS == 0 || old.ExpiresMS > untilMS {
		out.Is.ExpiresMS = untilMS
	}
	return out, nil
}

// noteUse writes the hours of the last use, in milliseconds by key id. It does not count as a
// change, so no node reads the keys again for it.
func noteUse(ctx context.Context, tx Tx, used map[string]int64) error {
	const update = `UPDATE access_key SET last_used_ms = ? WHERE key_id = ? AND last_used_ms < ?`
	var errs []error
	for id, ms := range used {
		_, err := tx.ExecContext(ctx, update, ms, []byte(id), ms)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
