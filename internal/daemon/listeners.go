package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/budgetd/budgetd/client/tlsfiles"
	"github.com/budgetd/budgetd/internal/config"
	"github.com/budgetd/budgetd/internal/httpapi"
	"github.com/budgetd/budgetd/internal/httpapi/front"
)

// listener is one address with its calls.
type listener struct {
	name     string
	calls    httpapi.CallSet
	listener net.Listener
	api      *httpapi.API
	server   *front.Server
}

// listeners holds all of them.
type listeners struct {
	all   []*listener
	tls   *tlsfiles.Server // nil without TLS
	ended chan error
}

// openListeners listens at every address. Close the result also after an error.
func openListeners(ctx context.Context, c config.Config) (*listeners, error) {
	l := &listeners{}
	rest := httpapi.DataCalls | httpapi.AdminCalls | httpapi.MetricsCalls
	for _, one := range []struct {
		name, addr string
		calls      httpapi.CallSet
	}{{"metrics", c.Listeners.Metrics, httpapi.MetricsCalls},
		{"admin", c.Listeners.Admin, httpapi.AdminCalls | httpapi.DataCalls},
		{"listen", c.Listen, 0}} {
		if one.addr == "" {
			continue
		}
		calls := one.calls
		switch one.name {
		case "metrics":
			rest &^= httpapi.MetricsCalls
		case "admin":
			rest &^= httpapi.AdminCalls
		default:
			calls = rest
		}
		socket, err := new(net.ListenConfig).Listen(ctx, "tcp", one.addr)
		if err != nil {
			return l, fmt.Errorf("%s: %w%s", one.name, err, inUse(one.name, err))
		}
		l.all = append(l.all, &listener{name: one.name, calls: calls, listener: socket})
	}
	if c.TLS.CertFile != "" {
		var err error
		if l.tls, err = tlsfiles.NewServer(c.TLS.Files()); err != nil {
			return l, fmt.Errorf("tls: %w", err)
		}
	}
	l.ended = make(chan error, len(l.all))
	return l, nil
}

// inUse returns what to do if the address is in use, or "".
func inUse(name string, err error) string {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return ""
	}
	key := name
	if key != "listen" {
		key = "listeners." + name
	}
	return fmt.Sprintf(": another program, perhaps another budgetd, listens there; stop it (ss -ltnp "+
		"shows it), or set %s or %s to another port", key, "BUDGETD_"+
		strings.ToUpper(strings.ReplaceAll(key, ".", "_")))
}

// close ends listening.
func (l *listeners) close() {
	for _, one := range l.all {
		_ = one.listener.Close() // Serve closes it earlier
	}
}

// certificateEvery is the interval at which the files of the certificate are checked.
const certificateEvery = time.Second

// serve starts to answer at every address.
func (l *listeners) serve(ctx context.Context, api httpapi.Config, log *slog.Logger) {
	for _, one := range l.all {
		settings := api
		settings.Calls = one.calls
		one.api = httpapi.New(settings)
		one.server = httpapi.NewServer(one.api, api.Limits, log)
		go func() {
			if l.tls != nil {
				l.ended <- one.server.ServeTLS(one.listener, l.tls.Config())
				return
			}
			l.ended <- one.server.Serve(one.listener)
		}()
	}
	if l.tls != nil {
		go l.tls.Watch(ctx, certificateEvery, log)
	}
}

// stop makes /readyz fail, stops accepting, and lets requests in progress finish.
func (l *listeners) stop(ctx context.Context, stop config.Stop, log *slog.Logger) {
	log.Info("stopping", "notice", stop.Notice)
	for _, one := range l.all {
		one.api.Leave()
	}
	time.Sleep(stop.Notice)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stop.FinishTimeout)
	defer cancel()
	for _, one := range l.all {
		err := one.server.Shutdown(bounded)
		if errors.Is(err, context.DeadlineExceeded) {
			log.Warn("requests are cut off", "listener", one.name,
				"finish_timeout", stop.FinishTimeout.String())
			err = one.server.Close()
		}
		if err != nil {
			log.Warn("the listener did not close", "listener", one.name, "error", err)
		}
	}
	for range l.all {
		if err := <-l.ended; err != nil {
			log.Debug("a listener ended", "error", err)
		}
	}
}
