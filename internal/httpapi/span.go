package httpapi

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// begin starts the span of a request whose caller sent this traceparent ("" for none). The answer
// and the log name this span. A data call gets a span only if the caller's is sampled; for other
// calls the tracer decides. Without a span it returns nil. It must be called before the context of
// the work is used.
func (a *API) begin(w *requestContext, r *route, traceparent string) trace.Span {
	m := &w.marks
	if a.tracer == nil || r.data != nil && !m.sampled() {
		return nil
	}
	ctx := w.parent
	if m.traceID != "" {
		_, parent, flags := parseTraceparent(traceparent)
		var c trace.SpanContextConfig
		c.TraceID, _ = trace.TraceIDFromHex(m.traceID)
		c.SpanID, _ = trace.SpanIDFromHex(parent)
		if odd(flags) {
			c.TraceFlags = trace.FlagsSampled
		}
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(c))
	}
	method, path, _ := strings.Cut(r.pattern, " ")
	ctx, span := a.tracer.Start(ctx, r.pattern, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("http.request.method", method),
			attribute.String("http.route", path)))
	w.parent = ctx
	own := span.SpanContext()
	m.traceID, m.spanID, m.flags = own.TraceID().String(), own.SpanID().String(),
		own.TraceFlags().String()
	return span
}

// sampled reports whether the caller's trace is recorded.
func (m *marks) sampled() bool { return m.traceID != "" && odd(m.flags) }

// odd reports whether two hexadecimal digits have their lowest bit set.
func odd(flags string) bool { return strings.IndexByte("13579bdf", flags[1]) >= 0 }

// end ends the span of an answered request. span may be nil.
func end(span trace.Span, status int) {
	if span == nil {
		return
	}
	span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status == 0 || status >= 500 {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// recorded returns the trace of a span for metrics, or "" if it is not recorded. span may be nil.
func recorded(span trace.Span) string {
	if span == nil || !span.IsRecording() {
		return ""
	}
	return span.SpanContext().TraceID().String()
}
