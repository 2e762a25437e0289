package trail

import (
	"context"
	"slices"
	"sync"
)

// Entry is a row that a call under way will append. It is safe for concurrent use.
type Entry struct {
	mu       sync.Mutex
	row      Row
	appended bool
}

// NewEntry returns an entry that begins with who calls, when, from where and what.
func NewEntry(begun Row) *Entry { return &Entry{row: begun} }

// Change notes what a transaction is about to do. A transaction that is tried again notes it again;
// the last one counts. before and after are JSON, nil for none.
func (e *Entry) Change(tenant, target string, before, after []byte) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.row.Tenant, e.row.Target = tenant, target
	e.row.Before, e.row.After = slices.Clone(before), slices.Clone(after)
}

// Ask notes the request id that the caller gave; "" leaves what was noted.
func (e *Entry) Ask(requestID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if requestID != "" {
		e.row.RequestID = requestID
	}
}

// Succeed returns the row of a transaction that is about to commit, and notes that it was appended.
func (e *Entry) Succeed() Row {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.appended = true
	row := e.row
	row.Outcome = Done
	return row
}

// End returns the row that is still to be appended once the call has ended with an outcome: Done or
// the code of its error. False: its transaction appended it.
func (e *Entry) End(outcome string) (Row, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	row := e.row
	row.Outcome = outcome
	if outcome != Done {
		// What was noted did not happen, or is not known to have happened.
		row.After = nil
	}
	return row, outcome != Done || !e.appended
}

type contextKey struct{}

// NewContext returns a context whose transactions append an entry.
func NewContext(ctx context.Context, e *Entry) context.Context {
	return context.WithValue(ctx, contextKey{}, e)
}

// FromContext returns the entry of a context, nil for none: background work has none.
func FromContext(ctx context.Context) *Entry {
	e, _ := ctx.Value(contextKey{}).(*Entry)
	return e
}
