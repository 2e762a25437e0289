package daemon

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/budgetd/budgetd/internal/config"
)

// tracesPath is the path of OTLP over HTTP, below a collector's endpoint.
const tracesPath = "/v1/traces"

// lastSpans bounds how long a stopping process tries to send its last spans.
const lastSpans = 2 * time.Second

// tracing returns a tracer and a function that sends the last spans. The tracer is nil if no
// collector is configured. A collector that does not answer costs only spans.
func tracing(ctx context.Context, c config.Config, log *slog.Logger) (trace.Tracer, func(), error) {
	if c.Tracing.Endpoint == "" {
		return nil, func() {}, nil
	}
	otel.SetLogger(logr.FromSlogHandler(sdkLog{log}))
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(strings.TrimSuffix(c.Tracing.Endpoint, "/")+tracesPath))
	if err != nil {
		return nil, func() {}, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("spans not sent", "error", err)
	}))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(c.Tracing.Sample))),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "budgetd"),
			attribute.String("service.version", buildVersion()),
			attribute.String("service.instance.id", c.NodeName()))))
	return provider.Tracer("budgetd"), func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
		defer cancel()
		if err := provider.Shutdown(bounded); err != nil {
			log.Warn("spans not sent", "error", err)
		}
	}, nil
}

// sdkLog logs what OpenTelemetry finds wrong in its environment variables, such as the headers. It
// leaves out the values and the errors, which quote secrets.
type sdkLog struct{ log *slog.Logger }

// Enabled implements slog.Handler.
func (sdkLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements slog.Handler.
func (s sdkLog) Handle(_ context.Context, r slog.Record) error {
	s.log.Warn("a variable OTEL_* cannot be read", "problem", r.Message)
	return nil
}

// WithAttrs implements slog.Handler.
func (s sdkLog) WithAttrs([]slog.Attr) slog.Handler { return s }

// WithGroup implements slog.Handler.
func (s sdkLog) WithGroup(string) slog.Handler { return s }
