package auditlog

import (
	"context"
	"slices"
	"sync"
)

// Entry is the row that a call in progress will append. It is safe for concurrent use.
type Entry struct {
	mu       sync.Mutex
	row      Row
	appended bool
}

// NewEntry returns an entry of a call. row has its caller, time, source and operation.
func NewEntry(row Row) *Entry { return &Entry{row: row} }

// Change records what a transaction is about to do, replacing what was recorded before, so a
// transaction can be retried. before and after are JSON; nil means that the object does not exist.
// Change on a nil entry does nothing.
func (e *Entry) Change(tenant, target string, before, after []byte) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.row.Tenant, e.row.Target = tenant, target
	e.row.Before, e.row.After = slices.Clone(before), slices.Clone(after)
}

// Ask records the caller's request id. "" changes nothing.
func (e *Entry) Ask(requestID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if requestID != "" {
		e.row.RequestID = requestID
	}
}

// Succeed returns the row of a transaction that is about to commit, and marks it as appended.
func (e *Entry) Succeed() Row {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.appended = true
	row := e.row
	row.Outcome = Done
	return row
}

// End returns the row of a call that has ended with an outcome: Done or the code of its error.
// missing reports whether the row must still be appended; it is false if the call's transaction did
// that.
func (e *Entry) End(outcome string) (row Row, missing bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	row = e.row
	row.Outcome = outcome
	if outcome != Done {
		// The recorded change did not happen, or is not known to have happened.
		row.After = nil
	}
	return row, outcome != Done || !e.appended
}

type contextKey struct{}

// NewContext returns a context that carries an entry. Transactions in it append the entry.
func NewContext(ctx context.Context, e *Entry) context.Context {
	return context.WithValue(ctx, contextKey{}, e)
}

// FromContext returns the entry of a context, or nil if it has none, as in background work.
func FromContext(ctx context.Context) *Entry {
	e, _ := ctx.Value(contextKey{}).(*Entry)
	return e
}
