package daemon

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/config"
	"github.com/budgetd/budgetd/internal/metrics"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// backends holds the database and the instances.
type backends struct {
	db *engine.DB
	// stores maps the names of instances to their stores.
	stores map[string]*redisstore.Store
	// partitions lists the partitions of all configured instances. drivers holds the driver of each
	// instance.
	partitions []bucket.Partition
	drivers    map[string]string
	// weaknesses are the database settings of which the last warning was given.
	weaknesses string
	// said holds the store problems of which a warning was given.
	said sync.Map
}

// open opens the database, waiting for it for a bounded time, and creates the instances. It
// connects to instances only to check their settings. Close the result also after an error.
func open(ctx context.Context, c config.Config, log *slog.Logger) (*backends, error) {
	b := &backends{stores: map[string]*redisstore.Store{}, drivers: map[string]string{}}
	var err error
	if b.db, err = openDatabase(ctx, c.Database, log); err != nil {
		return b, fmt.Errorf("database: %w", err)
	}
	if b.weaknesses, err = b.checkDatabase(ctx, "", c.Strict, log); err != nil {
		return b, fmt.Errorf("database: %w", err)
	}
	for _, i := range c.Instances {
		b.drivers[i.Name] = i.Driver
		for n := range i.Partitions {
			b.partitions = append(b.partitions, bucket.Partition{Instance: i.Name, Index: n})
		}
		store, err := newRedis(i, b.db.InstallationID(), c.StoreMode.RecordWindow)
		if err != nil {
			return b, err
		}
		b.stores[i.Name] = store
	}
	return b, b.checkStore(ctx, b.partitions, c.Strict, log)
}

// The pauses between attempts to reach the database.
const firstPause, longestPause = 200 * time.Millisecond, 2 * time.Second

// openDatabase opens the database. While the database cannot be reached, it retries for
// ConnectTimeout; any other error is final.
func openDatabase(ctx context.Context, c config.Database, log *slog.Logger) (*engine.DB, error) {
	settings := engine.Config{Driver: c.Driver, DSN: c.DSN.Reveal(), PoolSize: c.Connections}
	if c.DSNFile != "" {
		source, err := c.Source()
		if err != nil {
			return nil, err
		}
		settings.Secret = func() string { return source.Now().Reveal() }
	}
	files, err := c.TLS.Files()
	if err != nil {
		return nil, err
	}
	if files != nil {
		settings.Encrypt = files.Config
	}
	deadline := time.Now().Add(c.ConnectTimeout)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		db, err := engine.Open(ctx, settings)
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

// unreachable reports whether an error of Open may be temporary: the server cannot be reached, is
// starting, or has just gone.
func unreachable(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) ||
		budget.Is(err, budget.Unavailable)
}

func newRedis(i config.Instance, installation string, recordWindow time.Duration) (
	*redisstore.Store, error) {
	password, err := i.Source()
	if err != nil {
		return nil, fmt.Errorf("instance %s: %w", i.Name, err)
	}
	sentinels, err := i.SentinelSource()
	if err != nil {
		return nil, fmt.Errorf("instance %s: %w", i.Name, err)
	}
	encrypted, err := i.TLS.Files()
	if err != nil {
		return nil, fmt.Errorf("instance %s: %w", i.Name, err)
	}
	c := redisstore.Config{
		Name: i.Name, Username: i.Username, DB: i.DB,
		Secret:     func() string { return password.Now().Reveal() },
		Vouched:    i.Vouched,
		Partitions: i.Partitions, InstallationID: installation, PoolSize: i.Connections,
		RecordWindow: recordWindow,
		DialTimeout:  i.DialTimeout, ReadTimeout: i.Timeout, WriteTimeout: i.Timeout,
		PoolTimeout: i.Timeout,
	}
	if encrypted != nil {
		c.Encrypt = encrypted.Config
	}
	switch i.Topology {
	case config.Cluster:
		c.Seeds = i.Addrs
	case config.Sentinel:
		c.Sentinels = redisstore.Sentinels{Addrs: i.Addrs, MasterName: i.MasterName,
			Username: i.SentinelUsername,
			Secret:   func() string { return sentinels.Now().Reveal() }}
	default:
		c.Addr = i.Addrs[0]
	}
	redis, err := redisstore.New(c)
	if err != nil {
		return nil, fmt.Errorf("instance %s: %w", i.Name, err)
	}
	return redis, nil
}

// Ping returns nil if the store of a partition answers.
func (b *backends) Ping(ctx context.Context, partition bucket.Partition) error {
	_, err := b.stores[partition.Instance].Time(ctx, partition)
	return err
}

// scriptsEvery is the interval at which the scripts of stores are counted.
const scriptsEvery = 30 * time.Second

// countScripts returns the work of a loop that sets the metrics of how many scripts the stores
// keep. It skips a store that does not answer, because the outage shows elsewhere.
func (b *backends) countScripts(m *metrics.Metrics) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, partition := range b.partitions {
			if n, err := b.stores[partition.Instance].Scripts(ctx, partition); err == nil {
				m.Scripts(partition, n)
			}
		}
		return nil
	}
}

// checkStore warns of settings with which a server of an instance may lose its contents, once per
// problem and server. With strict it refuses a server that is too old. A server that cannot be
// reached does not keep the node from serving.
func (b *backends) checkStore(ctx context.Context, partitions []bucket.Partition, strict bool,
	log *slog.Logger) error {
	var refused []string
	for _, partition := range partitions {
		condition, err := b.stores[partition.Instance].Condition(ctx, partition)
		if err != nil {
			log.Warn("settings of an instance not checked yet", "instance", partition.Instance,
				"partition", partition.Index, "error", err)
			continue
		}
		if condition.Unfit != "" {
			condition.Findings = append(condition.Findings, bucket.Finding{Problem: condition.Unfit})
		}
		for _, f := range condition.Findings {
			if _, said := b.said.LoadOrStore(f.Problem, true); said { // of another partition
				continue
			}
			if strict && f.Refused {
				refused = append(refused, f.Problem)
			} else {
				log.Warn("setting of a store", "instance", partition.Instance, "problem", f.Problem)
			}
		}
	}
	return strictly(refused)
}

// strictly returns the error that refuses problems, or nil if the list is empty.
func strictly(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("strict: %s", strings.Join(problems, "; "))
}

// checkDatabase warns of settings with which the database may lose what it has committed; in strict
// mode it refuses them. It returns them as one text. It does not repeat a warning if they equal
// known, the text of the previous call.
func (b *backends) checkDatabase(ctx context.Context, known string, strict bool,
	log *slog.Logger) (string, error) {
	weaknesses, err := b.db.Weaknesses(ctx)
	switch {
	case err != nil && strict:
		return known, fmt.Errorf("strict: the settings of the database cannot be read: %w", err)
	case err != nil:
		log.Warn("settings of the database not checked", "error", err)
		return known, nil
	}
	if strict {
		return "", strictly(weaknesses)
	}
	all := strings.Join(weaknesses, "; ")
	if all != known {
		for _, weakness := range weaknesses {
			log.Warn("setting of the database", "problem", weakness)
		}
	}
	return all, nil
}

// clockEvery is the interval at which the database's clock is measured. A clock that is
// corrected at the usual bound of 500 ppm moves by 30 ms in it.
const clockEvery = time.Minute

// keepClock measures the database's clock at intervals and checks the database's settings, which
// may differ after a failover. It runs until the returned function is called.
func (b *backends) keepClock(ctx context.Context, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(clockEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if err := b.db.SyncClock(ctx); err != nil && ctx.Err() == nil {
				log.Warn("database clock not measured, the last offset stays", "error", err)
			}
			if ctx.Err() == nil {
				b.weaknesses, _ = b.checkDatabase(ctx, b.weaknesses, false, log)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// close closes everything that was opened, the database last.
func (b *backends) close(log *slog.Logger) {
	for _, store := range b.stores {
		if err := store.Disconnect(); err != nil {
			log.Warn("instance did not disconnect", "error", err)
		}
	}
	if b.db == nil {
		return
	}
	if err := b.db.Close(); err != nil {
		log.Warn("database did not close", "error", err)
	}
}

// fit returns an error if a budget may not have buckets on partitions, because some servers that
// speak the Redis protocol lack what store mode needs. It warns once of settings with which other
// servers may lose their contents. Error: Invalid.
func (b *backends) fit(ctx context.Context, partitions []bucket.Partition, log *slog.Logger) error {
	for _, partition := range partitions {
		// A server that is down is checked when its partition is verified.
		condition, err := b.stores[partition.Instance].Condition(ctx, partition)
		if err == nil && condition.Unfit != "" {
			return &budget.Error{Code: budget.Invalid, Op: "create", Message: "the definition has faults",
				Fields: []budget.FieldError{{Field: "durability", Message: condition.Unfit}}}
		}
	}
	return b.checkStore(ctx, partitions, false, log)
}
