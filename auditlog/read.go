package auditlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Ends returns the position of the last row of the chain, and that of the last row removed from its
// beginning; a zero Anchor if there is no such row.
func Ends(ctx context.Context, tx Tx) (head, removed Anchor, err error) {
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

// Page is a part of the audit log, with the ends of the whole log, which Ends returns.
type Page struct {
	Rows          []Row
	Head, Removed Anchor
}

// Query selects rows. Zero fields select all of them.
type Query struct {
	// After and Before are the numbers of the rows around those that are wanted; Before 0 means no
	// bound.
	After, Before int64
	// FromMS and ToMS bound when the calls were made; ToMS 0 means no bound.
	FromMS, ToMS int64
	// Principal, Tenant, Target and Op filter the rows; "" means all.
	Principal, Tenant, Target, Op string
	// NewestFirst reads from the end of the log.
	NewestFirst bool
	// Limit is the most rows, at least 1.
	Limit int
}

// Read returns rows in numerical order, or the other way round. It walks the primary key, or the
// index of a filter, in that direction. So a page costs as much at either end of the log, and a
// filter costs what it finds. FromMS and ToMS cost the rows between them and the end that it begins
// at.
func Read(ctx context.Context, tx Tx, q Query) (rows []Row, err error) {
	query, args := statement(q)
	found, err := tx.QueryContext(ctx, query, args...)
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

// statement returns the query of Read with its arguments.
func statement(q Query) (query string, args []any) {
	query = `SELECT seq, at_ms, principal, key_id, source, op, tenant, target, request_id,
		correlation_id, before_json, after_json, outcome, times, hash FROM audit_log
		WHERE seq > ?`
	args = []any{q.After}
	for _, bound := range []struct {
		condition string
		value     int64
	}{{`seq < ?`, q.Before}, {`at_ms >= ?`, q.FromMS}, {`at_ms < ?`, q.ToMS}} {
		if bound.value != 0 {
			query += ` AND ` + bound.condition
			args = append(args, bound.value)
		}
	}
	for _, column := range []struct{ name, value string }{{"principal", q.Principal},
		{"tenant", q.Tenant}, {"op", q.Op}, {"target", q.Target}} {
		if column.value != "" {
			query += ` AND ` + column.name + ` = ?`
			args = append(args, []byte(column.value))
		}
	}
	if q.NewestFirst {
		return query + ` ORDER BY seq DESC LIMIT ?`, append(args, q.Limit)
	}
	return query + ` ORDER BY seq LIMIT ?`, append(args, q.Limit)
}

func scan(found *sql.Rows) (row Row, err error) {
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
