package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

var _ bucket.Instance = (*Store)(nil)

// Config says which Redis an instance is and how long to wait for it. A duration of 0 takes the
// default.
type Config struct {
	// Name is the instance's name (budget.CheckName), Addr its host:port.
	Name, Addr string
	// Username and Password are for its ACL; "" for none.
	Username, Password string
	// DB is the database number, 0 by default.
	DB int
	// TLS is used for connections when it is not nil.
	TLS *tls.Config
	// Lanes is the number of lanes, at least 1: the parts in which one script can touch every key.
	// A standalone Redis needs one.
	Lanes int
	// InstallationID keeps installations that share a Redis apart: 1-32 of [A-Za-z0-9_-].
	InstallationID string
	// PoolSize is the most connections that calls use at a time; default 16.
	PoolSize int
	// DialTimeout bounds a connect, default 1 s; ReadTimeout and WriteTimeout a reply and a request,
	// default 1 s each; PoolTimeout the wait for a free connection, default 1 s. A context's
	// deadline applies if it is earlier. A context that is cancelled ends the waits for a connection,
	// not the wait for a reply: that one is ReadTimeout's.
	DialTimeout, ReadTimeout, WriteTimeout, PoolTimeout time.Duration
	// IdleTimeout closes connections that nobody used for so long, default 5 m. It should be below
	// the server's own `timeout`.
	IdleTimeout time.Duration
}

// Store is one Redis instance with its lanes. Safe for concurrent use.
type Store struct {
	config Config
	// control opens a connection of any identity for each use: to ask who is there.
	control *redis.Client
	lanes   []atomic.Pointer[lane]

	mu       sync.Mutex
	sessions map[*session]bool // nil once disconnected
}

// lane is what Activate made of a lane.
type lane struct {
	activation int64
	scripts    [verbs]script
	prefix     string // of its keys
	session    *session
	// lost: a call found the scripts missing.
	lost atomic.Bool
}

// New makes an instance. It does not connect: an instance that is down does not keep budgetd from
// starting. Errors: Invalid with every faulty field.
func New(config Config) (*Store, error) {
	faults := config.check()
	if len(faults) > 0 {
		return nil, &budget.Error{Code: budget.Invalid, Op: "configure instance", Fields: faults}
	}
	for _, d := range []struct {
		value *time.Duration
		usual time.Duration
	}{
		{&config.DialTimeout, time.Second}, {&config.ReadTimeout, time.Second},
		{&config.WriteTimeout, time.Second}, {&config.PoolTimeout, time.Second},
		{&config.IdleTimeout, 5 * time.Minute},
	} {
		if *d.value == 0 {
			*d.value = d.usual
		}
	}
	if config.PoolSize == 0 {
		config.PoolSize = 16
	}
	s := &Store{config: config, lanes: make([]atomic.Pointer[lane], config.Lanes),
		sessions: make(map[*session]bool)}
	// go-redis logs what it also returns; errors are logged once, where they stop.
	logging.Disable()
	s.control = redis.NewClient(s.options(nil))
	return s, nil
}

func (c Config) check() []budget.FieldError {
	var faults []budget.FieldError
	fault := func(field, why string) {
		faults = append(faults, budget.FieldError{Field: field, Message: why})
	}
	if why := budget.CheckName(c.Name); why != "" {
		fault("name", why)
	}
	if c.Addr == "" {
		fault("addr", "is missing; it must be host:port")
	}
	if c.Lanes < 1 || c.Lanes > 1024 {
		fault("lanes", "must be 1 to 1024")
	}
	if c.DB < 0 {
		fault("db", "must not be negative")
	}
	if c.PoolSize < 0 {
		fault("pool_size", "must not be negative")
	}
	if why := checkInstallation(c.InstallationID); why != "" {
		fault("installation_id", why)
	}
	for field, d := range map[string]time.Duration{"dial_timeout": c.DialTimeout,
		"read_timeout": c.ReadTimeout, "write_timeout": c.WriteTimeout,
		"pool_timeout": c.PoolTimeout, "idle_timeout": c.IdleTimeout} {
		if d < 0 {
			fault(field, "must not be negative")
		}
	}
	return faults
}

// options returns a client's settings; verify, when set, is asked about each new connection.
func (s *Store) options(verify func(context.Context, *redis.Conn) error) *redis.Options {
	c := s.config
	return &redis.Options{
		Addr: c.Addr, Username: c.Username, Password: c.Password, DB: c.DB, TLSConfig: c.TLS,
		ClientName: "budgetd-" + c.Name, OnConnect: verify,
		// Scripts answer alike in both protocols; pushes are not wanted.
		Protocol:   2,
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: c.DialTimeout, ReadTimeout: c.ReadTimeout, WriteTimeout: c.WriteTimeout,
		PoolTimeout: c.PoolTimeout, ConnMaxIdleTime: c.IdleTimeout,
		PoolSize: c.PoolSize, PipelinePoolSize: -1,
		DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled},
	}
}

// Disconnect closes all connections, after the calls that are under way. Every later call is
// unavailable. Disconnecting twice is harmless. (Close ends epochs.)
func (s *Store) Disconnect() error {
	s.mu.Lock()
	sessions := s.sessions
	s.sessions = nil
	s.mu.Unlock()
	for session := range sessions {
		session.end()
	}
	if err := s.control.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("disconnect instance %s: %w", s.config.Name, err)
	}
	return nil
}

// find returns a lane as it was last activated. Errors: Unavailable for a lane that is not of this
// instance, ErrMemoryLost before the first Activate and once its memory was found lost.
func (s *Store) find(op string, at bucket.Lane) (*lane, error) {
	if err := s.known(op, at); err != nil {
		return nil, err
	}
	l := s.lanes[at.Index].Load()
	if l == nil || l.lost.Load() || l.session.lost.Load() {
		return nil, bucket.ErrMemoryLost
	}
	return l, nil
}

func (s *Store) known(op string, at bucket.Lane) error {
	if at.Instance != s.config.Name || at.Index < 0 || at.Index >= len(s.lanes) {
		return budget.Refuse(budget.Unavailable, op, "instance %s has no lane %s/%d",
			s.config.Name, at.Instance, at.Index)
	}
	return nil
}
