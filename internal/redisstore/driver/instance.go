package driver

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Instance is one Redis instance with its partitions. It is safe for concurrent use.
type Instance struct {
	config   Config
	topology *topology
	tags     []string // hash tags, by partition

	mu       sync.RWMutex
	sessions map[sessionKey]*session // nil once disconnected
}

// New returns an instance without connecting, so that budgetd starts while an instance is down. It
// returns Invalid with every faulty field.
func New(config Config) (*Instance, error) {
	if faults := config.check(); len(faults) > 0 {
		return nil, &budget.Error{Code: budget.Invalid, Op: "configure instance", Fields: faults}
	}
	i := &Instance{config: config.withDefaults(), sessions: make(map[sessionKey]*session)}
	// go-redis logs errors that it also returns; errors are logged once, where they stop.
	logging.Disable()
	i.chart()
	return i, nil
}

// Config returns the configuration with its defaults.
func (i *Instance) Config() Config { return i.config }

// Prefix returns the prefix of every key of a partition: `budgetd:<installation id>:{<tag>}:`.
func (i *Instance) Prefix(at bucket.Partition) string {
	return "budgetd:" + i.config.InstallationID + ":{" + i.tags[at.Index] + "}:"
}

// Known returns Unavailable unless the partition is one of this instance.
func (i *Instance) Known(op string, at bucket.Partition) error {
	if at.Instance != i.config.Name || at.Index < 0 || at.Index >= len(i.tags) {
		return budget.Refuse(budget.Unavailable, op, "instance %s has no partition %s/%d",
			i.config.Name, at.Instance, at.Index)
	}
	return nil
}

// chart sets the hash tags of partitions and the topology.
func (i *Instance) chart() {
	for index := range i.config.Partitions {
		at := bucket.Partition{Instance: i.config.Name, Index: index}
		if i.config.isCluster() {
			i.tags = append(i.tags, hashTag(at))
		} else {
			i.tags = append(i.tags, at.String())
		}
	}
	switch {
	case i.config.isCluster():
		i.topology = i.clusterTopology(i.config.Seeds)
	case len(i.config.Sentinels.Addrs) > 0:
		i.topology = i.sentinelTopology(i.config.Sentinels)
	default:
		i.topology = fixedTopology(i.config.Addr, len(i.tags))
	}
}

// options returns a client's settings; verify, if set, checks each new connection.
func (i *Instance) options(addr string,
	verify func(context.Context, *redis.Conn) error) *redis.Options {
	c, network := i.config, "tcp"
	if path, socket := strings.CutPrefix(addr, socketScheme); socket {
		network, addr = "unix", path
	}
	options := &redis.Options{
		CredentialsProvider: credentials(c.Username, c.Secret),
		Network:             network, Addr: addr, Username: c.Username, Password: c.Password,
		DB: c.DB, TLSConfig: c.TLS,
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
	if c.Encrypt != nil {
		options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialer := &net.Dialer{Timeout: c.DialTimeout}
			return (&tls.Dialer{NetDialer: dialer, Config: c.Encrypt()}).DialContext(ctx, network, addr)
		}
	}
	return options
}

// credentials returns a function for the user and password of each connection; nil without a
// secret.
func credentials(user string, secret func() string) func() (string, string) {
	if secret == nil {
		return nil
	}
	return func() (string, string) { return user, secret() }
}

// Disconnect closes all connections after the running calls. Every later call is unavailable.
// Disconnecting twice is harmless.
func (i *Instance) Disconnect() error {
	i.mu.Lock()
	sessions := i.sessions
	i.sessions = nil
	i.mu.Unlock()
	for _, n := range sessions {
		n.end()
	}
	return nil
}

// disconnected reports whether Disconnect was called.
func (i *Instance) disconnected() bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.sessions == nil
}

// dial returns a connection to a server of any identity; done closes it.
func (i *Instance) dial(addr string) (conn *redis.Conn, done func()) {
	client := redis.NewClient(i.options(addr, nil))
	conn = client.EphemeralConn()
	return conn, func() {
		_ = conn.Close() // nothing can be done about an error here
		_ = client.Close()
	}
}

// locate returns the server that serves a partition, according to the topology, or Unavailable.
func (i *Instance) locate(ctx context.Context, op string, at bucket.Partition) (server, error) {
	whole := server{instance: i.config.Name}
	if err := i.Known(op, at); err != nil {
		return whole, err
	}
	if i.disconnected() {
		return whole, whole.unavailable(op, redis.ErrClosed, "it was disconnected")
	}
	addr, err := i.topology.find(ctx, at.Index)
	if err != nil {
		return whole, whole.unavailable(op, err, "no server is known for partition "+at.String())
	}
	return server{i.config.Name, addr}, nil
}

// nameOf names a server in messages: an instance of one server by its name.
func (i *Instance) nameOf(at server) string {
	if i.config.Addr != "" {
		at.addr = ""
	}
	return at.String()
}
