package auditlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// pruneRows is the most rows that one transaction removes.
const pruneRows = 1000

// Prune removes rows from the beginning of the chain whose calls were made before an instant, at
// most 1,000, and returns their number. The last row always stays. The removal itself is a row, by
// which a verifier knows it from one by hand: by is its principal, its target the last removed
// position of the chain. It does nothing if another node is removing the same rows.
func Prune(ctx context.Context, tx Tx, server bool, beforeMS int64, by Row) (int64, error) {
	head, removed, err := Ends(ctx, tx)
	if err != nil {
		return 0, fmt.Errorf("audit log: %w", err)
	}
	last, err := lastBefore(ctx, tx, beforeMS, removed, head)
	if err != nil {
		return 0, fmt.Errorf("audit log: %w", err)
	}
	if last.Seq == removed.Seq {
		return 0, nil
	}
	const move = `UPDATE audit_log_head SET removed_seq = ?, removed_hash = ?
		WHERE only_row = 1 AND removed_seq = ?`
	const rows = `DELETE FROM audit_log WHERE seq <= ?`
	done, err := tx.ExecContext(ctx, move, last.Seq, last.Hash[:], removed.Seq)
	if err != nil {
		return 0, fmt.Errorf("audit log: %w", err)
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, rows, last.Seq); err != nil {
		return 0, fmt.Errorf("audit log: %w", err)
	}
	by.Op, by.Target, by.Outcome = OpPrune, last.String(), Done
	if err := Append(ctx, tx, server, by); err != nil {
		return 0, err
	}
	return last.Seq - removed.Seq, nil
}

// lastBefore returns the last row to remove, or removed if no row is old enough. Rows are removed
// in numerical order, up to the first that is young enough.
func lastBefore(ctx context.Context, tx Tx, beforeMS int64,
	removed, head Anchor) (Anchor, error) {
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
	last, text := Anchor{Seq: limit}, []byte(nil)
	if err := tx.QueryRowContext(ctx, hash, limit).Scan(&text); err != nil {
		return removed, err
	}
	if copy(last.Hash[:], text) != len(last.Hash) {
		return removed, errors.New("a hash is cut off")
	}
	return last, nil
}
