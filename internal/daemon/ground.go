package daemon

import (
	"context"
	"crypto/rand"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/config"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/sqlstore"
)

// ground is what the service lives on: the database and the instances.
type ground struct {
	db        *sqlstore.DB
	stores    []*redisstore.Store
	instances map[string]bucket.Instance
	lanes     map[string]int
	drivers   map[string]string
}

// open opens the database, waiting for it a bounded time, and makes the instances; it does not
// connect to them, except to check their settings. Close what it returns also after an error.
func open(ctx context.Context, c config.Config, log *slog.Logger) (*ground, error) {
	g := &ground{instances: map[string]bucket.Instance{},
		lanes: map[string]int{}, drivers: map[string]string{}}
	var err error
	if g.db, err = openDatabase(ctx, c.Database, log); err != nil {
		return g, fmt.Errorf("database: %w", err)
	}
	for _, i := range c.Instances {
		g.lanes[i.Name], g.drivers[i.Name] = i.Lanes, i.Driver
		if i.Driver == config.SQL {
			g.instances[i.Name] = g.db.Rows(i.Name, i.Lanes)
			continue
		}
		store, err := newRedis(i, g.db.InstallationID())
		if err != nil {
			return g, err
		}
		g.stores = append(g.stores, store)
		g.instances[i.Name] = store
		if err := checkSettings(ctx, i.Name, store, c.Strict, log); err != nil {
			return g, err
		}
	}
	return g, nil
}

// Pauses between attempts to reach the database.
const firstPause, longestPause = 200 * time.Millisecond, 2 * time.Second

// openDatabase opens the database. One that cannot be reached is tried again for ConnectTimeout; any
// other error is final.
func openDatabase(ctx context.Context, c config.Database, log *slog.Logger) (*sqlstore.DB, error) {
	deadline := time.Now().Add(c.ConnectTimeout)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		db, err := sqlstore.Open(ctx, sqlstore.Config{Driver: c.Driver, DSN: c.DSN, PoolSize: c.Connections})
		if err == nil || !unreachable(err) || ctx.Err() != nil {
			return db, err
		}
		if time.Now().Add(pause).After(deadline) {
			return nil, fmt.Errorf("not reachable for %s: %w", c.ConnectTimeout, err)
		}
		log.Warn("database not reachable yet", "retry_in", pause, "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// unreachable reports whether an error of Open may be gone in a moment: a server that is not there,
// is not up yet or just left.
func unreachable(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || budget.Is(err, budget.Unavailable)
}

func newRedis(i config.Instance, installation string) (*redisstore.Store, error) {
	encrypted, err := i.TLS.Client(i.Addrs[0])
	if err != nil {
		return nil, fmt.Errorf("instance %s: %w", i.Name, err)
	}
	store, err := redisstore.New(redisstore.Config{
		Name: i.Name, Addr: i.Addrs[0], Username: i.Username, Password: i.Password, DB: i.DB, TLS: encrypted,
		Lanes: i.Lanes, InstallationID: installation, PoolSize: i.Connections,
		DialTimeout: i.DialTimeout, ReadTimeout: i.Timeout, WriteTimeout: i.Timeout, PoolTimeout: i.Timeout,
	})
	if err != nil {
		return nil, fmt.Errorf("instance %s: %w", i.Name, err)
	}
	return store, nil
}

// checkSettings warns of settings with which an instance may lose what it said was done, or refuses
// them. An instance that cannot be reached does not keep the others from serving.
func checkSettings(ctx context.Context, name string, store *redisstore.Store, strict bool,
	log *slog.Logger) error {
	warnings, err := store.Settings(ctx)
	if err != nil {
		log.Warn("settings of an instance not checked", "instance", name, "error", err)
		return nil
	}
	var refused []error
	for _, warning := range warnings {
		if strict {
			refused = append(refused, errors.New(warning))
			continue
		}
		log.Warn("setting of an instance", "instance", name, "problem", warning)
	}
	if len(refused) > 0 {
		return fmt.Errorf("strict: %w", errors.Join(refused...))
	}
	return nil
}

// service makes the service on this ground.
func (g *ground) service(c config.Config, log *slog.Logger, observer bucket.Observer) (
	*bucket.Service, error) {
	return bucket.New(bucket.Config{
		SQL: g.db, Instances: g.instances, Lanes: g.lanes, Clock: bucket.SystemClock{},
		Rand: func(b []byte) { _, _ = rand.Read(b) }, // never fails
		Log:  log, Observer: observer,
		Settings: bucket.Settings{
			Deadline: c.Deduct.Deadline, StepTimeout: c.Deduct.StepTimeout, Committers: c.Deduct.Committers,
			Queue: c.Deduct.Queue, BatchSize: c.Deduct.BatchSize,
			Refresh: c.Background.Refresh, Chores: c.Background.Chores,
			CachedBudgets: c.Cache.Budgets, CachedIDs: c.Cache.RequestIDs,
		},
	})
}

// keepClock measures the database's clock every period, until the function that it returns is called.
func (g *ground) keepClock(ctx context.Context, period time.Duration, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if err := g.db.SyncClock(ctx); err != nil && ctx.Err() == nil {
				log.Warn("database clock not measured, the last offset stays", "error", err)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// close closes whatever was opened, the database last.
func (g *ground) close(log *slog.Logger) {
	for _, store := range g.stores {
		if err := store.Disconnect(); err != nil {
			log.Warn("instance did not disconnect", "error", err)
		}
	}
	if g.db == nil {
		return
	}
	if err := g.db.Close(); err != nil {
		log.Warn("database did not close", "error", err)
	}
}
