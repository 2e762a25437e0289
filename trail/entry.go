package trail

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

// NewEntry returns an entry that begins with the caller, time, source and operation.
func NewEntry(begun Row) *Entry { return &Entry{row: begun} }

// Change records what a transaction is about to do. A retried transaction records it again; the
// last record counts. before and after are JSON, nil for none.
func (e *Entry) Change(tenant, target string, before, after []byte) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.row.Tenant, e.row.Target = tenant, target
	e.row.Before, e.row.After = slices.Clone(before), slices.Clone(after)
}

// Ask records the caller's request id; "" keeps the previous one.
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

// End returns the row that is still to be appended once the call has ended with an outcome: Done or
// the code of its error. ok is false if its transaction appended it.
func (e *Entry) End(outcome string) (Row, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	row := e.row
	row.Outcome = outcome
	if outcome != Done {
		// The recorded change did not happen, or is not known to have happened.
		row.After = nil
	}
	return row, outcome != Done || !e.appended
}

type contextKey struct{}

// NewContext returns a context whose transactions append an entry.
func NewContext(ctx context.Context, e *Entry) context.Context {
	return context.WithValue(ctx, contextKey{}, e)
}

// FromContext returns the entry of a context, or nil without one, as in background work.
func FromContext(ctx context.Context) *Entry {
	e, _ := ctx.Value(contextKey{}).(*Entry)
	return e
}
