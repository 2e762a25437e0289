package auditlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/budgetd/budgetd/trail"
)

// Ends returns the position of the last row of the chain, and that of the last row removed from its
// beginning; a zero Anchor if there is no such row.
func Ends(ctx context.Context, tx Tx) (head, removed trail.Anchor, err error) {
	const query = `SELECT last_seq, last_hash, removed_seq, removed_hash
		FROM audit_log_head WHERE only_row = 1`
	var last, first []byte
	err = tx.QueryRowContext(ctx, query).Scan(&head.Seq, &last, &removed.Seq, &first)
	if errors.Is(err, sql.ErrNoRows) {
		err = errNoHead
	}
	copy(head.Hash[:], last)
	copy(removed.Hash[:], first)
	return head, removed, err
}

// Query selects rows.
type Query struct {
	// After is the number of the row before the first one.
	After int64
	// FromMS and ToMS bound when the calls were made; ToMS 0 means no bound.
	FromMS, ToMS int64
	// Principal, Tenant and Op filter the rows; "" means all.
	Principal, Tenant, Op string
	// Limit is the most rows, at least 1.
	Limit int
}

// Read returns rows in numerical order.
func Read(ctx context.Context, tx Tx, q Query) (rows []trail.Row, err error) {
	query := `SELECT seq, at_ms, principal, key_id, source, op, tenant, target, request_id,
		correlation_id, before_json, after_json, outcome, times, hash FROM audit_log
		WHERE seq > ? AND at_ms >= ?`
	args := []any{q.After, q.FromMS}
	if q.ToMS != 0 {
		query += ` AND at_ms < ?`
		args = append(args, q.ToMS)
	}
	for _, column := range []struct{ name, value string }{{"principal", q.Principal},
		{"tenant", q.Tenant}, {"op", q.Op}} {
		if column.value != "" {
			query += ` AND ` + column.name + ` = ?`
			args = append(args, []byte(column.value))
		}
	}
	query += ` ORDER BY seq LIMIT ?`
	found, err := tx.QueryContext(ctx, query, append(args, q.Limit)...)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	for found.Next() {
		row, err := scan(found)
		if err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		rows = append(rows, row)
	}
	return rows, found.Err()
}

func scan(found *sql.Rows) (row trail.Row, err error) {
	var hash []byte
	err = found.Scan(
		&row.Seq,
		&row.AtMS,
		&row.Principal,
		&row.KeyID,
		&row.Source,
		&row.Op,
		&row.Tenant,
		&row.Target,
		&row.RequestID,
		&row.CorrelationID,
		&row.Before,
		&row.After,
		&row.Outcome,
		&row.Times,
		&hash,
	)
	if err == nil && copy(row.Hash[:], hash) != len(row.Hash) {
		err = fmt.Errorf("row %d has a hash of %d bytes", row.Seq, len(hash))
	}
	return row, err
}
