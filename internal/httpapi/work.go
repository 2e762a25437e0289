package httpapi

import (
	"context"
	"sync"
	"time"
)

// work is the context of the work on one request. It is a context.WithTimeout that costs nothing
// until somebody waits for its end: most calls look at Deadline at most. It carries the request's
// ids to the log. Services may keep it, also after the answer.
type work struct {
	parent context.Context
	marks  marks
	// until is when the work must end; zero: when its parent does.
	until time.Time

	mu    sync.Mutex
	ended bool
	// inner is the context that somebody waits for; nil until then.
	inner  context.Context
	cancel context.CancelFunc
}

// marksKey finds the *marks of a request in its context.
type marksKey struct{}

func (w *work) Deadline() (time.Time, bool) {
	if w.until.IsZero() {
		return w.parent.Deadline()
	}
	return w.until, true
}

func (w *work) Done() <-chan struct{} {
	if w.until.IsZero() {
		return w.parent.Done()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inner == nil {
		w.inner, w.cancel = context.WithDeadline(w.parent, w.until)
		if w.ended {
			w.cancel()
		}
	}
	return w.inner.Done()
}

func (w *work) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.inner != nil:
		return w.inner.Err()
	case w.ended:
		return context.Canceled
	case !w.until.IsZero() && !time.Now().Before(w.until):
		return context.DeadlineExceeded
	}
	return w.parent.Err()
}

// Value knows what inner does: package context finds it there, and derives contexts without a
// goroutine for each.
func (w *work) Value(key any) any {
	if key == (marksKey{}) {
		return &w.marks
	}
	w.mu.Lock()
	inner := w.inner
	w.mu.Unlock()
	if inner == nil {
		inner = w.parent
	}
	return inner.Value(key)
}

// end ends the work: the request is answered.
func (w *work) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended = true; w.cancel != nil {
		w.cancel()
	}
}
