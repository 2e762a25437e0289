package httpapi

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// marks identify a request in answers and logs.
type marks struct {
	correlation string
	// traceID, flags and spanID belong to a W3C trace that the caller began, and are "" without
	// one. spanID is this node's own.
	traceID, flags, spanID string
}

// maxCorrelationBytes bounds a correlation id from a caller.
const maxCorrelationBytes = 128

// mark takes the correlation id and trace from the caller, or makes an id. It replaces an invalid
// one instead of refusing the request.
func (a *API) mark(r *http.Request) marks {
	return a.marksOf(single(r.Header["X-Correlation-Id"]), single(r.Header["Traceparent"]))
}

// single returns the value of a header that occurs once, else "".
func single(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// marksOf parses the values of the two headers, "" for an absent one.
func (a *API) marksOf(correlation, traceparent string) (m marks) {
	if m.correlation = correlation; !saneID(correlation) {
		m.correlation = a.newID()
	}
	if traceparent != "" {
		m.traceID, _, m.flags = parseTraceparent(traceparent)
	}
	if m.traceID != "" {
		var span [8]byte
		binary.BigEndian.PutUint64(span[:], rand.Uint64())
		m.spanID = hex.EncodeToString(span[:])
	}
	return m
}

func (c *call) mark(h http.Header) {
	m := &c.work.marks
	c.correlation[0] = m.correlation
	h["X-Correlation-Id"] = c.correlation[:]
	if text := m.traceparent(); text != "" {
		h.Set("Traceparent", text)
	}
}

// traceparent returns the header of the answer, or "" without a trace.
func (m *marks) traceparent() string {
	if m.traceID == "" {
		return ""
	}
	return "00-" + m.traceID + "-" + m.spanID + "-" + m.flags
}

// randomID returns 130 random bits in base32, as crypto/rand.Text writes them. Ids must be distinct
// but not secret, so the runtime's generator, which the system seeds, suffices.
func randomID() string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	const perWord = 12 // characters of 5 bits
	var text [26]byte
	var bits uint64
	for i := range text {
		if i%perWord == 0 {
			bits = rand.Uint64()
		}
		text[i] = alphabet[bits%32]
		bits >>= 5
	}
	return string(text[:])
}

// saneID reports whether an id can be written into headers and logs unchanged.
func saneID(id string) bool {
	if id == "" || len(id) > maxCorrelationBytes {
		return false
	}
	for i := range len(id) {
		c := id[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("-._~:/+=@", rune(c)) {
			return false
		}
	}
	return true
}

// parseTraceparent parses version-traceid-parentid-flags of https://www.w3.org/TR/trace-context/.
// It returns "" for any other text. Later versions may append fields.
func parseTraceparent(text string) (traceID, parentID, flags string) {
	const length = 2 + 1 + 32 + 1 + 16 + 1 + 2
	if len(text) < length || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return "", "", ""
	}
	version, trace, parent, flags := text[:2], text[3:35], text[36:52], text[53:55]
	longer := len(text) > length
	switch {
	case !lowerHex(version), !lowerHex(trace), !lowerHex(parent), !lowerHex(flags):
	case version == "ff", version == "00" && longer, longer && text[length] != '-':
	case strings.Trim(trace, "0") == "", strings.Trim(parent, "0") == "":
	default:
		return trace, parent, flags
	}
	return "", "", ""
}

func lowerHex(text string) bool {
	return strings.Trim(text, "0123456789abcdef") == ""
}

// LogHandler adds the correlation id and the trace of the request, if any, to every record that is
// logged with its context, also by the service.
func LogHandler(next slog.Handler) slog.Handler { return logHandler{next} }

type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, record slog.Record) error {
	if m, ok := ctx.Value(marksKey{}).(*marks); ok {
		record = record.Clone()
		record.AddAttrs(slog.String("correlation_id", m.correlation))
		if m.traceID != "" {
			record.AddAttrs(slog.String("trace_id", m.traceID), slog.String("span_id", m.spanID))
		}
	}
	return h.Handler.Handle(ctx, record)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name)}
}

// The most lines of one kind that requests may log. At 20,000 refused requests a second an
// unlimited log would fail next. A store that is down fails all its requests alike, so one line in
// ten seconds suffices. Errors that need a person may appear more often.
const (
	linesPerSecond = 50
	quiet          = 10 * time.Second
)

// kind is the key by which lines are counted. There are at most a few hundred.
type kind struct {
	op     string
	code   budget.Code
	reason budget.Reason
}

// logSampler lets some lines of each kind through and counts the others.
type logSampler struct {
	mu        sync.Mutex
	intervals map[kind]*logInterval
}

// logInterval is a stretch of time and the number of lines of a kind that were logged in it.
type logInterval struct {
	until             time.Time
	lines, suppressed int
}

// pass reports whether a line may be logged, at most `most` per every. It also returns how many
// lines of its kind were suppressed since the last one.
func (g *logSampler) pass(k kind, now time.Time, most int, every time.Duration) (
	suppressed int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.intervals[k]
	if s == nil {
		s = new(logInterval)
		if g.intervals == nil {
			g.intervals = map[kind]*logInterval{}
		}
		g.intervals[k] = s
	}
	if !now.Before(s.until) {
		s.until, s.lines = now.Add(every), 0
	}
	if s.lines >= most {
		s.suppressed++
		return 0, false
	}
	s.lines++
	suppressed, s.suppressed = s.suppressed, 0
	return suppressed, true
}

// requestContext is the context of the work on one request. It acts like context.WithTimeout, but
// costs nothing until somebody waits for its end; most calls only look at Deadline. It carries the
// request's ids to the log. Services may keep it after the answer.
type requestContext struct {
	parent context.Context
	marks  marks
	// until is when the work must end; zero means when its parent ends.
	until time.Time

	mu    sync.Mutex
	ended bool
	// inner is the context for those who wait; nil until one does.
	inner  context.Context
	cancel context.CancelFunc
}

// marksKey is the context key of a request's *marks.
type marksKey struct{}

func (w *requestContext) Deadline() (time.Time, bool) {
	if w.until.IsZero() {
		return w.parent.Deadline()
	}
	return w.until, true
}

func (w *requestContext) Done() <-chan struct{} {
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

func (w *requestContext) Err() error {
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

// Value returns values of inner too: package context finds its own there, so it can derive contexts
// without a goroutine for each.
func (w *requestContext) Value(key any) any {
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

// end ends the work after the request was answered.
func (w *requestContext) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended = true; w.cancel != nil {
		w.cancel()
	}
}
