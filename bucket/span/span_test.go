package span_test

import (
	"context"
	"errors"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/budgetd/budgetd/bucket/span"
)

// request has a context.
type request struct{ ctx context.Context }

func (r request) Context() context.Context { return r.ctx }

// TestOff checks that neither a step nor a flight allocates if no span is recorded.
func TestOff(t *testing.T) {
	ctx := t.Context()
	requests := []request{{ctx}, {ctx}}
	if n := testing.AllocsPerRun(100, func() {
		inside, end := span.Begin(ctx, "sql", "commit")
		end(nil)
		_, end = span.Flight(inside, nil, "flight", requests)
		end(errors.ErrUnsupported)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestFlight checks that a flight links once to each recorded span of its requests, even if several
// requests share one, and that it has the error that ended it.
func TestFlight(t *testing.T) {
	kept := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(kept))
	tracer := provider.Tracer("test")
	plain := t.Context()
	first, one := tracer.Start(plain, "first")
	second, two := tracer.Start(plain, "second")
	if _, end := span.Flight(plain, tracer, "none", []request{{plain}}); end != nil {
		end(nil)
	}
	ctx, end := span.Flight(plain, tracer, "flight", []request{{plain}, {first}, {first}, {second}})
	_, endStep := span.Begin(ctx, "sql", "commit")
	endStep(nil)
	end(errors.ErrUnsupported)
	one.End()
	two.End()
	got := kept.GetSpans().Snapshots()
	if len(got) != 4 {
		t.Fatalf("%d spans", len(got))
	}
	step, flight := got[0], got[1]
	if step.Name() != "sql commit" || step.Parent().SpanID() != flight.SpanContext().SpanID() {
		t.Errorf("%s below %s", step.Name(), step.Parent().SpanID())
	}
	if flight.Parent().SpanID() != one.SpanContext().SpanID() || len(flight.Links()) != 2 ||
		flight.Links()[1].SpanContext.SpanID() != two.SpanContext().SpanID() {
		t.Errorf("the flight's links: %v", flight.Links())
	}
	if flight.Status().Description != errors.ErrUnsupported.Error() {
		t.Errorf("the flight ended with %v", flight.Status())
	}
	for _, r := range got[2:] {
		if len(r.Links()) != 1 || r.Links()[0].SpanContext.SpanID() != flight.SpanContext().SpanID() {
			t.Errorf("%s does not link to its flight: %v", r.Name(), r.Links())
		}
	}
}
