package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/budgetd/budgetd/internal/config"
	"github.com/budgetd/budgetd/internal/httpapi"
	"github.com/budgetd/budgetd/internal/httpapi/front"
	"github.com/budgetd/budgetd/internal/metrics"
)

// serve starts everything, serves until ctx ends, and stops everything in the reverse order. The
// error says why it could not start, or why serving ended.
func serve(ctx context.Context, c config.Config, log *slog.Logger) error {
	// First, because a port in use is the most likely obstacle and says so at once. Whoever connects
	// now waits until all is open.
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer listener.Close() // Serve closes it earlier
	observer := metrics.New(buildVersion())
	ground, err := open(ctx, c, log)
	defer ground.close(log)
	if ctx.Err() != nil {
		return nil // stopped while starting
	}
	if err != nil {
		return err
	}
	service, err := ground.service(c, log, observer)
	if err != nil {
		return err
	}
	service.start(ctx, log)
	defer stopService(ctx, service, c.Stop, log)
	defer ground.keepClock(ctx, c.Background.Clock, log)()

	limits := limitsOf(c.HTTP)
	api := httpapi.New(httpapi.Config{Service: service, Drivers: ground.drivers, Limits: limits, Log: log,
		Observer: observer, Metrics: observer.Handler()})
	server := httpapi.NewServer(api, limits, log)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	log.Info("listening", "addr", listener.Addr().String(), "version", buildVersion())
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	stopServer(ctx, api, server, c.Stop, log)
	<-ended
	return nil
}

// stopServer tells balancers, stops accepting, and lets requests under way finish.
func stopServer(ctx context.Context, api *httpapi.API, server *front.Server, stop config.Stop,
	log *slog.Logger) {
	log.Info("stopping")
	api.Leave()
	time.Sleep(stop.Notice)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stop.FinishTimeout)
	defer cancel()
	err := server.Shutdown(bounded)
	if errors.Is(err, context.DeadlineExceeded) {
		log.Warn("requests are cut off", "finish_timeout", stop.FinishTimeout)
		err = server.Close()
	}
	if err != nil {
		log.Warn("the listener did not close", "error", err)
	}
}

// stopService lets background work under way finish. What does not is finished by the next node, from
// its status.
func stopService(ctx context.Context, service *node, stop config.Stop, log *slog.Logger) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stop.DrainTimeout)
	defer cancel()
	if err := service.stop(bounded); err != nil {
		log.Warn("background work is cut off", "drain_timeout", stop.DrainTimeout, "error", err)
	}
	log.Info("stopped")
}

func limitsOf(c config.HTTP) httpapi.Limits {
	return httpapi.Limits{
		BodyBytes: int64(c.MaxBodyBytes), BatchBytes: int64(c.MaxBatchBytes), BatchItems: c.MaxBatchItems,
		HeaderBytes: c.MaxHeaderBytes, Headers: c.MaxHeaders,
		InFlight: c.MaxInFlight, RequestTimeout: c.RequestTimeout, HeaderTimeout: c.HeaderTimeout,
		ReadTimeout: c.ReadTimeout, WriteTimeout: c.WriteTimeout, IdleTimeout: c.IdleTimeout,
	}
}
