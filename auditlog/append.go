package auditlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
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
	var none Hash
	_, err := tx.ExecContext(ctx, insert, none[:], none[:])
	return err
}

const (
	// link moves the head to the next row, as Link does. The server computes the hash, so the
	// head is not locked while a node waits for an answer. The hash is assigned first: it is that of
	// the number before.
	link = `UPDATE audit_log_head SET last_hash = UNHEX(SHA2(CONCAT(?, last_hash,
		UNHEX(LPAD(HEX(last_seq + 1), 16, '0')), ?), 256)), last_seq = last_seq + 1
		WHERE only_row = 1`
	columns = `INSERT INTO audit_log (at_ms, principal, key_id, source, op, tenant, target,
		request_id, correlation_id, before_json, after_json, outcome, times, seq, hash) `
	linked = columns + `SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, last_seq, last_hash
		FROM audit_log_head WHERE only_row = 1`
	chained = columns + `VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// Append adds a row at the end of the chain, if the transaction commits. It must take the last lock
// of its transaction. A server links the row itself; SQLite, which has one writer and no SHA-256,
// leaves that to this process.
func Append(ctx context.Context, tx Tx, server bool, row Row) (err error) {
	if server {
		err = linkThere(ctx, tx, row)
	} else {
		err = linkHere(ctx, tx, fitted(row))
	}
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	return nil
}

// AppendOf appends the row of the context's entry, if there is one. Every writing transaction calls
// it before it commits; background work has no entry and appends nothing.
func AppendOf(ctx context.Context, tx Tx, server bool) error {
	entry := FromContext(ctx)
	if entry == nil {
		return nil
	}
	return Append(ctx, tx, server, entry.Succeed())
}

func linkThere(ctx context.Context, tx Tx, row Row) error {
	for _, s := range Linking(row) {
		if err := hit(tx.ExecContext(ctx, s.Text, s.Values...)); err != nil {
			return err
		}
	}
	return nil
}

// Statement is a text with a value for each question mark.
type Statement struct {
	Text   string
	Values []any
}

// Linking returns the statements by which a server appends a row, the last of a transaction.
func Linking(row Row) []Statement {
	row = fitted(row)
	row.Times = max(row.Times, 1)
	digest := row.Digest()
	return []Statement{{link, []any{[]byte(LinkFormat), digest[:]}}, {linked, valuesOf(row)}}
}

func valuesOf(row Row) []any {
	return []any{row.AtMS, []byte(row.Principal), []byte(row.KeyID), []byte(row.Source),
		[]byte(row.Op), []byte(row.Tenant), []byte(row.Target), []byte(row.RequestID),
		[]byte(row.CorrelationID), row.Before, row.After, []byte(row.Outcome), row.Times}
}

func linkHere(ctx context.Context, tx Tx, row Row) error {
	const move = `UPDATE audit_log_head SET last_seq = ?, last_hash = ? WHERE only_row = 1`
	head, _, err := Ends(ctx, tx)
	if err != nil {
		return err
	}
	row = Link(head, row)
	if err := hit(tx.ExecContext(ctx, move, row.Seq, row.Hash[:])); err != nil {
		return err
	}
	return hit(tx.ExecContext(ctx, chained, append(valuesOf(row), row.Seq, row.Hash[:])...))
}

// hit returns the error of a statement that must change one row.
func hit(done sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		return errors.Join(err, errNoHead)
	}
	return nil
}

// fitted cuts callers' texts to the width of their columns, because a row that the database refuses
// would prevent its effect.
func fitted(row Row) Row {
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
