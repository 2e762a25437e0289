// Package span creates the OpenTelemetry spans of a request. A step gets a span only below a
// recorded one, so that unrecorded requests cost nothing.
package span

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Begin starts the span of a call to another system, such as redis, below the span of ctx. It
// returns the context of the call and a function that ends the span. If the span of ctx is not
// recorded, it returns ctx and a function that does nothing.
func Begin(ctx context.Context, system, op string) (context.Context, func(error)) {
	above := trace.SpanFromContext(ctx)
	if !above.IsRecording() {
		return ctx, nothing
	}
	ctx, s := above.TracerProvider().Tracer("budgetd").Start(ctx, system+" "+op,
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("db.system.name", system),
			attribute.String("db.operation.name", op)))
	return ctx, func(err error) { end(s, err) }
}

// Flight starts the span of a call that serves many requests. The span belongs to the trace of the
// first recorded request, and links to and from each recorded request. Flight returns what Begin
// does. It starts no span if no request is recorded or tracer is nil, which costs nothing.
func Flight[R interface{ Context() context.Context }](ctx context.Context, tracer trace.Tracer,
	name string, requests []R) (context.Context, func(error)) {
	var links []trace.Link
	var spans []trace.Span
	for _, r := range requests {
		if tracer == nil {
			break
		}
		s := trace.SpanFromContext(r.Context())
		if !s.IsRecording() || len(spans) > 0 && spans[len(spans)-1] == s { // of the same batch
			continue
		}
		spans, links = append(spans, s), append(links, trace.Link{SpanContext: s.SpanContext()})
	}
	if len(spans) == 0 {
		return ctx, nothing
	}
	ctx, s := tracer.Start(trace.ContextWithSpan(ctx, spans[0]), name, trace.WithLinks(links...),
		trace.WithAttributes(attribute.Int("budgetd.requests", len(requests))))
	for _, request := range spans {
		request.AddLink(trace.Link{SpanContext: s.SpanContext()})
	}
	return ctx, func(err error) { end(s, err) }
}

func nothing(error) {}

func end(s trace.Span, err error) {
	if err != nil {
		s.RecordError(err)
		s.SetStatus(codes.Error, err.Error())
	}
	s.End()
}
