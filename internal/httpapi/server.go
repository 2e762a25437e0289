package httpapi

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/budgetd/budgetd/internal/httpapi/front"
)

// Limits bound what callers can make the service hold. All must be positive.
type Limits struct {
	// BodyBytes bounds a body, BatchBytes that of a batch, BatchItems its deductions.
	BodyBytes, BatchBytes int64
	BatchItems            int
	// HeaderBytes bounds request line and headers together, Headers their number.
	HeaderBytes, Headers int
	// InFlight is how many requests are answered at once; more are told to come back.
	InFlight int
	// RequestTimeout bounds the work on one request, after it was read.
	RequestTimeout time.Duration
	// HeaderTimeout and ReadTimeout bound how long headers, and a request as a whole, may take to
	// arrive; WriteTimeout how long its answer may take to leave; IdleTimeout how long a connection
	// stays open between two requests.
	HeaderTimeout, ReadTimeout, WriteTimeout, IdleTimeout time.Duration
}

// NewServer returns a server for a listener of the caller's: what is too large or too slow ends by
// itself. Package front answers data calls in their usual form, net/http everything else.
func NewServer(api *API, limits Limits, log *slog.Logger) *front.Server {
	return front.New(api, NewWebServer(api, limits, log), front.Limits{
		HeaderTimeout: limits.HeaderTimeout, ReadTimeout: limits.ReadTimeout,
		IdleTimeout: limits.IdleTimeout, WriteTimeout: limits.WriteTimeout})
}

// tlsKey finds in the context of a request what its connection has negotiated, where the request itself
// does not say it.
type tlsKey struct{}

// NewWebServer returns net/http's server alone, which answers all calls. It answers headers beyond
// HeaderBytes with a plain 431 before the API sees them.
func NewWebServer(api *API, limits Limits, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:                      api,
		ReadHeaderTimeout:            limits.HeaderTimeout,
		ReadTimeout:                  limits.ReadTimeout,
		WriteTimeout:                 limits.ReadTimeout + limits.RequestTimeout + limits.WriteTimeout,
		IdleTimeout:                  limits.IdleTimeout,
		MaxHeaderBytes:               limits.HeaderBytes,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		DisableGeneralOptionsHandler: true,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if state := front.ConnectionState(c); state != nil {
				ctx = context.WithValue(ctx, tlsKey{}, state)
			}
			return ctx
		},
	}
}
