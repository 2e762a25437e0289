package auditlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/budgetd/budgetd/trail"
)

// pruneRows is the most rows that one transaction removes.
const pruneRows = 1000

// Prune removes rows from the beginning of the chain whose calls were made before an instant, at
// most 1,000, and returns their number. The last row always stays. The removal itself is a row: by
// is its principal, and its target the last removed position of the chain.
func Prune(ctx context.Context, tx Tx, beforeMS int64, by trail.Row) (int64, error) {
	head, err := lock(ctx, tx)
	if err != nil {
		return 0, fmt.Errorf("audit log: %w", err)
	}
	_, removed, err := Ends(ctx, tx)
	if err != nil {
		return 0, fmt.Errorf("audit log: %w", err)
	}
	last, err := lastBefore(ctx, tx, beforeMS, removed, head)
	if err == nil && last.Seq > removed.Seq {
		err = remove(ctx, tx, last)
	}
	// Append increments the head itself.
	const restore = `UPDATE audit_log_head SET last_seq = ? WHERE only_row = 1`
	if err == nil {
		_, err = tx.ExecContext(ctx, restore, head.Seq)
	}
	if err == nil && last.Seq > removed.Seq {
		by.Target = last.String()
		_, err = Append(ctx, tx, by)
	}
	if err != nil {
		return 0, fmt.Errorf("audit log: %w", err)
	}
	return last.Seq - removed.Seq, nil
}

// lastBefore returns the last row to remove, or removed if no row is old enough. Rows are removed
// in numerical order, up to the first that is young enough.
func lastBefore(ctx context.Context, tx Tx, beforeMS int64,
	removed, head trail.Anchor) (trail.Anchor, error) {
	const young = `SELECT MIN(seq) FROM audit_log WHERE seq > ? AND seq <= ? AND at_ms >= ?`
	const hash = `SELECT hash FROM audit_log WHERE seq = ?`
	limit := min(removed.Seq+pruneRows, head.Seq-1)
	var first sql.NullInt64
	err := tx.QueryRowContext(ctx, young, removed.Seq, limit, beforeMS).Scan(&first)
	if err != nil {
		return removed, err
	}
	if first.Valid {
		limit = first.Int64 - 1
	}
	if limit <= removed.Seq {
		return removed, nil
	}
	last, text := trail.Anchor{Seq: limit}, []byte(nil)
	if err := tx.QueryRowContext(ctx, hash, limit).Scan(&text); err != nil {
		return removed, err
	}
	if copy(last.Hash[:], text) != len(last.Hash) {
		return removed, errors.New("a hash is cut off")
	}
	return last, nil
}

func remove(ctx context.Context, tx Tx, last trail.Anchor) error {
	const rows = `DELETE FROM audit_log WHERE seq <= ?`
	const head = `UPDATE audit_log_head SET removed_seq = ?, removed_hash = ? WHERE only_row = 1`
	if _, err := tx.ExecContext(ctx, rows, last.Seq); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, head, last.Seq, last.Hash[:])
	return err
}
