package auditlog

import (
	"context"
	"fmt"
)

// verifyRows is the number of rows that Verify reads at a time.
const verifyRows = 1000

// Verify recomputes the whole chain, which must go through the anchors, and returns its head. It
// returns a *Break where the chain is broken. tx must be a read-only transaction with one
// snapshot; otherwise rows appended meanwhile look like additions.
func Verify(ctx context.Context, tx Tx, through ...Anchor) (Anchor, error) {
	head, removed, err := Ends(ctx, tx)
	if err != nil {
		return head, fmt.Errorf("audit log: %w", err)
	}
	v := NewVerifier(removed, through...)
	for after := int64(-1 << 63); ; {
		rows, err := Read(ctx, tx, Query{After: after, FromMS: -1 << 63, Limit: verifyRows})
		if err != nil {
			return head, err
		}
		for _, row := range rows {
			if err := v.Add(row); err != nil {
				return head, err
			}
			after = row.Seq
		}
		if len(rows) < verifyRows {
			return head, v.End(head)
		}
	}
}
