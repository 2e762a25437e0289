package client

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"
)

// Trace is a W3C trace context (https://www.w3.org/TR/trace-context/) in the form of its two
// headers.
type Trace struct {
	// Parent is the header traceparent: version-trace id-parent id-flags, such as
	// "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".
	Parent string
	// State is the header tracestate; "" means none.
	State string
}

type traceKey struct{}

// ContextWithTrace returns a context whose calls belong to a trace. Every attempt of a call, and
// the cancel that settles it, carries the trace unchanged. An invalid traceparent is ignored, and
// the call gets a new trace.
func ContextWithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// WithTrace sets a function that finds the trace of a context that ContextWithTrace did not make.
// It connects the client to a tracing library. With OpenTelemetry:
//
//	client.WithTrace(func(ctx context.Context) client.Trace {
//		carrier := propagation.MapCarrier{}
//		propagation.TraceContext{}.Inject(ctx, carrier)
//		return client.Trace{Parent: carrier["traceparent"], State: carrier["tracestate"]}
//	})
//
// Without it, and if it returns no traceparent, each call gets a new trace that is not sampled, so
// that the attempts of one call can be found together in the service's logs.
func WithTrace(of func(context.Context) Trace) Option { return func(c *Client) { c.trace = of } }

// traceOf returns the trace of a call.
func (c *Client) traceOf(ctx context.Context) Trace {
	if t, ok := ctx.Value(traceKey{}).(Trace); ok && isTraceparent(t.Parent) {
		return t
	}
	if c.trace != nil {
		if t := c.trace(ctx); isTraceparent(t.Parent) {
			return t
		}
	}
	return newTrace()
}

// newTrace returns a new trace that is not sampled.
func newTrace() Trace {
	var ids [24]byte
	binary.BigEndian.PutUint64(ids[0:], rand.Uint64())
	binary.BigEndian.PutUint64(ids[8:], max(rand.Uint64(), 1)) // an id must not be zero
	binary.BigEndian.PutUint64(ids[16:], max(rand.Uint64(), 1))
	text := make([]byte, 0, 55)
	text = append(text, "00-"...)
	text = hex.AppendEncode(text, ids[:16])
	text = append(text, '-')
	text = hex.AppendEncode(text, ids[16:])
	return Trace{Parent: string(append(text, "-00"...))}
}

// write sets the headers. It leaves out a tracestate that a header cannot hold.
func (t Trace) write(h http.Header) {
	h["Traceparent"] = []string{t.Parent}
	if t.State != "" && len(t.State) <= maxTraceBytes && printable(t.State) {
		h["Tracestate"] = []string{t.State}
	}
}

// maxTraceBytes bounds each header: the standard requires that 512 bytes of tracestate are passed
// on.
const maxTraceBytes = 512

// isTraceparent reports whether text is a traceparent. Later versions may append fields.
func isTraceparent(text string) bool {
	const length = 2 + 1 + 32 + 1 + 16 + 1 + 2
	if len(text) < length || len(text) > maxTraceBytes || !printable(text) ||
		text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return false
	}
	version, trace, parent, flags := text[:2], text[3:35], text[36:52], text[53:length]
	if version == "ff" || strings.Trim(trace, "0") == "" || strings.Trim(parent, "0") == "" {
		return false
	}
	if len(text) > length && (version == "00" || text[length] != '-') {
		return false
	}
	return lowerHex(version) && lowerHex(trace) && lowerHex(parent) && lowerHex(flags)
}

func lowerHex(text string) bool { return strings.Trim(text, "0123456789abcdef") == "" }

// printable reports whether a header can hold text unchanged.
func printable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
