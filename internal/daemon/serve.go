package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/budgetd/budgetd/internal/config"
	"github.com/budgetd/budgetd/internal/console"
	"github.com/budgetd/budgetd/internal/httpapi"
	"github.com/budgetd/budgetd/internal/metrics"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// serve starts everything, serves until ctx ends, and stops everything in the reverse order. Its
// error says why the start or the serving failed.
func serve(ctx context.Context, c config.Config, file string, log *slog.Logger,
	notes *annotator) error {
	// Listen first, because a port may be in use. Connections made now wait until budgetd is ready.
	listeners, err := openListeners(ctx, c)
	defer listeners.close()
	if err != nil {
		return err
	}
	observer := metrics.New(buildVersion())
	backends, err := open(ctx, c, log)
	defer backends.close(log)
	if ctx.Err() != nil {
		return nil // stopped during the start
	}
	if err != nil {
		return err
	}
	tracer, sendSpans, err := tracing(ctx, c, log)
	if err != nil {
		return fmt.Errorf("tracing: %w", err)
	}
	defer sendSpans()
	service, err := backends.service(c, log, observer, tracer)
	if err != nil {
		return err
	}
	named := nameOf(service.budgets.NameOf)
	notes.nameOf.Store(&named)
	security, err := backends.security(ctx, c, log)
	if err != nil {
		return err
	}
	service.work = append(service.work, security.work...)
	service.work = append(service.work, loop{"scripts", scriptsEvery,
		backends.countScripts(observer)})
	service.start(ctx, log)
	defer stopService(ctx, service, c.Stop, log)
	defer backends.keepClock(ctx, log)()
	page, err := console.New(security.login != nil)
	if err != nil {
		return err
	}
	api := httpapi.Config{
		Service:   service,
		Console:   page,
		Dashboard: service.dashboard, Gauges: service.gauges,
		Drivers: backends.drivers, SQLNow: backends.db.Now,
		Limits:   limitsOf(c.HTTP),
		Log:      log,
		Auth:     security.auth,
		Observer: observer, Metrics: observer.Handler(), Tracer: tracer,
		AuditLog: security.auditLog,
		Keys:     security.keys, Names: service.manage,
		Alerts: service.alerts, Webhooks: service.alerts.Outbox,
	}
	if security.login != nil {
		api.Login = security.login
	}
	listeners.serve(ctx, api, log)
	started(c, file, listeners, backends, log)
	go feedWatchdog(ctx, log)
	select {
	case err := <-listeners.ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	tellSystemd(log, systemd.SdNotifyStopping)
	listeners.stop(ctx, c.Stop, log)
	return nil
}

// started logs what is running, one line per address.
func started(c config.Config, file string, listeners *listeners, b *backends, log *slog.Logger) {
	var stores []string
	for _, i := range c.Instances {
		stores = append(stores, i.Name+" ("+i.Driver+")")
	}
	dsn := c.Database.DSN.Reveal()
	database, data := c.Database.Driver+" "+engine.Place(c.Database.Driver, dsn), ""
	if c.Database.Driver == config.SQLite {
		data, _ = filepath.Abs(filepath.Dir(dsn)) // "" after an error
	}
	for n := range listeners.all {
		one := listeners.all[len(listeners.all)-1-n]
		log.Info("listening", "addr", one.listener.Addr().String(), "version", buildVersion(),
			"listener", one.name, "tls", listeners.tls != nil, "auth", c.Auth, "commit", buildCommit(),
			"database", database, "data", data, "installation", b.db.InstallationID(),
			"instances", strings.Join(stores, ", "), "config", file)
	}
}

// stopService waits for background work. The next node completes unfinished work by its status.
func stopService(ctx context.Context, service *node, stop config.Stop, log *slog.Logger) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stop.DrainTimeout)
	defer cancel()
	if err := service.stop(bounded); err != nil {
		log.Warn("background work is cut off", "drain_timeout", stop.DrainTimeout.String(), "error", err)
	}
	log.Info("stopped")
}

func limitsOf(c config.HTTP) httpapi.Limits {
	return httpapi.Limits{
		BodyBytes: int64(c.MaxBodyBytes), BatchBytes: int64(c.MaxBatchBytes),
		BodiesBytes: int64(c.MaxBodiesBytes), Connections: c.MaxConnections,
		HeaderBytes: c.MaxHeaderBytes, Headers: c.MaxHeaders,
		InFlight: c.MaxInFlight, RequestTimeout: c.RequestTimeout, HeaderTimeout: c.HeaderTimeout,
		ReadTimeout: c.ReadTimeout, WriteTimeout: c.WriteTimeout, IdleTimeout: c.IdleTimeout,
	}
}
