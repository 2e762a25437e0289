package auditlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/budgetd/budgetd/trail"
)

// Tx is an open transaction, such as *sql.Tx or a *sql.Conn that began one.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// errNoHead means that Install has not been run.
var errNoHead = errors.New("audit log: the head of the chain is missing")

// Install creates the head of an empty chain and leaves an existing one alone. The tables must
// exist.
func Install(ctx context.Context, tx Tx) error {
	const there = `SELECT COUNT(*) FROM audit_log_head`
	const insert = `INSERT INTO audit_log_head (only_row, last_seq, last_hash, removed_seq,
		removed_hash)
		VALUES (1, 0, ?, 0, ?)`
	var n int
	if err := tx.QueryRowContext(ctx, there).Scan(&n); err != nil || n > 0 {
		return err
	}
	var none trail.Hash
	_, err := tx.ExecContext(ctx, insert, none[:], none[:])
	return err
}

// lock locks the head until the transaction ends and returns it. The update comes first: in every
// engine it takes the lock before the row is read, whatever the isolation level.
func lock(ctx context.Context, tx Tx) (trail.Anchor, error) {
	const take = `UPDATE audit_log_head SET last_seq = last_seq + 1 WHERE only_row = 1`
	done, err := tx.ExecContext(ctx, take)
	if err != nil {
		return trail.Anchor{}, err
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		return trail.Anchor{}, errors.Join(err, errNoHead)
	}
	head, _, err := Ends(ctx, tx)
	head.Seq--
	return head, err
}

// Append adds a row at the end of the chain and returns it with its number and hash. It must take
// the last lock of its transaction. The row is appended only if the transaction commits.
func Append(ctx context.Context, tx Tx, row trail.Row) (trail.Row, error) {
	head, err := lock(ctx, tx)
	if err != nil {
		return trail.Row{}, fmt.Errorf("audit log: %w", err)
	}
	row = trail.Link(head, fitted(row))
	const insert = `INSERT INTO audit_log (seq, at_ms, principal, key_id, source, op, tenant, target,
		request_id, correlation_id, before_json, after_json, outcome, times, hash)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	_, err = tx.ExecContext(
		ctx,
		insert,
		row.Seq,
		row.AtMS,
		[]byte(row.Principal),
		[]byte(row.KeyID),
		[]byte(row.Source),
		[]byte(row.Op),
		[]byte(row.Tenant),
		[]byte(row.Target),
		[]byte(row.RequestID),
		[]byte(row.CorrelationID),
		row.Before,
		row.After,
		[]byte(row.Outcome),
		row.Times,
		row.Hash[:],
	)
	if err != nil {
		return trail.Row{}, fmt.Errorf("audit log: %w", err)
	}
	const update = `UPDATE audit_log_head SET last_hash = ? WHERE only_row = 1`
	if _, err := tx.ExecContext(ctx, update, row.Hash[:]); err != nil {
		return trail.Row{}, fmt.Errorf("audit log: %w", err)
	}
	return row, nil
}

// AppendOf appends the row of the context's entry, if there is one. Every writing transaction calls
// it before it commits; background work has no entry and appends nothing.
func AppendOf(ctx context.Context, tx Tx) error {
	entry := trail.FromContext(ctx)
	if entry == nil {
		return nil
	}
	_, err := Append(ctx, tx, entry.Succeed())
	return err
}

// fitted cuts callers' texts to the width of their columns, because a row that the database refuses
// would prevent its effect.
func fitted(row trail.Row) trail.Row {
	for _, column := range []struct {
		text *string
		most int
	}{{&row.Principal, 128}, {&row.KeyID, 10}, {&row.Source, 64}, {&row.Op, 32}, {&row.Tenant, 63},
		{&row.Target, 256}, {&row.RequestID, 128}, {&row.CorrelationID, 128}, {&row.Outcome, 64}} {
		if len(*column.text) > column.most {
			// ToValidUTF8 removes a character that the cut split.
			*column.text = strings.ToValidUTF8((*column.text)[:column.most], "")
		}
	}
	return row
}
