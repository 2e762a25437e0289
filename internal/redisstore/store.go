package redisstore

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
)

var (
	_ bucket.Instance = (*Store)(nil)
	_ bucket.Records  = (*Store)(nil)
)

// The record window when the configuration does not say, and its bounds.
const (
	UsualRecordWindow = 10 * time.Minute
	LeastRecordWindow = bucket.LeastRecordWindow
	MostRecordWindow  = 24 * time.Hour
)

// Config says which Redis an instance is and how long to wait for it. A duration of 0 takes the
// default.
type Config struct {
	// Name is the instance's name (budget.CheckName).
	Name string
	// Where it is, in one of three ways: Addr is the host:port of a standalone Redis, Sentinels name the
	// Redis that serves now, Seeds are host:port of some servers of a Cluster.
	Addr      string
	Sentinels Sentinels
	Seeds     []string
	// Username and Password are for its ACL; "" for none.
	Username, Password string
	// DB is the database number, 0 by default; a Cluster has no other.
	DB int
	// TLS is used for connections when it is not nil; without a ServerName each server's certificate
	// must be for the host that it is reached at.
	TLS *tls.Config
	// Lanes is the number of lanes, at least 1: the parts in which one script can touch every key.
	// A standalone Redis and a group with sentinels need one; those of a Cluster spread over its masters.
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
	// RecordWindow is for how long at least a request id is remembered in store mode, by the clock of
	// the Redis: 1 s to 24 h, whole milliseconds, default 10 m. An epoch keeps the window that it got
	// its first record with.
	RecordWindow time.Duration
}

// Store is one Redis instance with its lanes. Safe for concurrent use.
type Store struct {
	config Config
	atlas  *atlas
	lanes  []atomic.Pointer[lane]
	tags   []string // hash tags, by lane

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
		{&config.IdleTimeout, 5 * time.Minute}, {&config.RecordWindow, UsualRecordWindow},
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
	s.chart()
	return s, nil
}

// chart decides where lanes are looked for, and their hash tags.
func (s *Store) chart() {
	for i := range s.lanes {
		at := bucket.Lane{Instance: s.config.Name, Index: i}
		if s.cluster() {
			s.tags = append(s.tags, hashTag(at))
		} else {
			s.tags = append(s.tags, at.String())
		}
	}
	switch {
	case s.cluster():
		s.atlas = s.clusterAtlas(s.config.Seeds)
	case len(s.config.Sentinels.Addrs) > 0:
		s.atlas = s.sentinelAtlas(s.config.Sentinels)
	default:
		s.atlas = fixedAtlas(s.config.Addr, len(s.lanes))
	}
}

func (s *Store) cluster() bool { return len(s.config.Seeds) > 0 }

func (c Config) check() []budget.FieldError {
	var faults []budget.FieldError
	fault := func(field, why string) {
		faults = append(faults, budget.FieldError{Field: field, Message: why})
	}
	if why := budget.CheckName(c.Name); why != "" {
		fault("name", why)
	}
	ways := 0
	for _, way := range []bool{c.Addr != "", len(c.Sentinels.Addrs) > 0, len(c.Seeds) > 0} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		fault("addr", "must be host:port, unless there are either sentinels or seeds")
	}
	if (len(c.Sentinels.Addrs) > 0) != (c.Sentinels.MasterName != "") {
		fault("master_name", "must be the name of the sentinels' group")
	}
	if c.Lanes < 1 || c.Lanes > maxLanes {
		fault("lanes", fmt.Sprintf("must be 1 to %d", maxLanes))
	}
	if c.DB < 0 || c.DB > 0 && len(c.Seeds) > 0 {
		fault("db", "must not be negative, and 0 on a cluster")
	}
	if c.PoolSize < 0 {
		fault("pool_size", "must not be negative")
	}
	if why := checkInstallation(c.InstallationID); why != "" {
		fault("installation_id", why)
	}
	if w := c.RecordWindow; w != 0 && (w < LeastRecordWindow || w > MostRecordWindow) {
		fault("record_window", fmt.Sprintf("must be %s to %s", LeastRecordWindow, MostRecordWindow))
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
func (s *Store) options(addr string, verify func(context.Context, *redis.Conn) error) *redis.Options {
	c, retries := s.config, -1
	if safeguard.Off(safeguard.RedisRetries) {
		retries = 3
	}
	return &redis.Options{
		Addr: addr, Username: c.Username, Password: c.Password, DB: c.DB, TLSConfig: c.TLS,
		ClientName: "budgetd-" + c.Name, OnConnect: verify,
		// Scripts answer alike in both protocols; pushes are not wanted.
		Protocol:   2,
		MaxRetries: retries, DialerRetries: 1, ContextTimeoutEnabled: true,
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
	return nil
}

// disconnected reports whether Disconnect was called.
func (s *Store) disconnected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions == nil
}

// dial returns a connection of any identity, to ask who is there, which done closes.
func (s *Store) dial(addr string) (conn *redis.Conn, done func()) {
	client := redis.NewClient(s.options(addr, nil))
	conn = client.EphemeralConn()
	return conn, func() {
		_ = conn.Close() // nobody is left who could do anything about it
		_ = client.Close()
	}
}

// locate returns the server that serves a lane, as far as is known. Errors: Unavailable.
func (s *Store) locate(ctx context.Context, op string, at bucket.Lane) (server, error) {
	whole := server{instance: s.config.Name}
	if err := s.known(op, at); err != nil {
		return whole, err
	}
	if s.disconnected() {
		return whole, whole.unavailable(op, redis.ErrClosed, "it was disconnected")
	}
	addr, err := s.atlas.find(ctx, at.Index)
	if err != nil {
		return whole, whole.unavailable(op, err, "nobody says which server serves lane "+at.String())
	}
	return server{s.config.Name, addr}, nil
}

// nameOf names a server in a sentence for people: an instance of one server by its name.
func (s *Store) nameOf(at server) string {
	if s.config.Addr != "" {
		at.addr = ""
	}
	return at.String()
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
