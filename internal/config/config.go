package config

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/budgetd/budgetd/client/tlsfiles"
	"github.com/budgetd/budgetd/internal/secret"
)

// NodeName returns node.name, or the node's address if that is not set.
func (c Config) NodeName() string { return cmp.Or(c.Node.Name, c.NodeAddress()) }

// NodeAddress returns the address at which the node listens. If that is all interfaces, its host is
// the machine's.
func (c Config) NodeAddress() string {
	host, port, err := net.SplitHostPort(c.Listen)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return net.JoinHostPort(host, port)
}

// Node identifies this node.
type Node struct{ Name string }

// Config is the whole configuration. See config.yaml for units, defaults and ranges.
type Config struct {
	Node      Node
	Listen    string
	Listeners Listeners
	// Auth is Loopback, ByKeys or NoAuth.
	Auth      string
	Keys      Keys
	TLS       ServerTLS
	OIDC      OIDC
	AuditLog  AuditLog
	Database  Database
	Instances []Instance
	Strict    bool
	Deduct    Deduct
	StoreMode StoreMode
	Recycle   Recycle
	Audit     Audit
	Metrics   Metrics
	Tracing   Tracing
	Series    Series
	Alerts    Alerts
	Webhooks  Webhooks
	Cache     Cache
	HTTP      HTTP
	Stop      Stop
	Log       Log
}

// Database selects the database of the ledger.
type Database struct {
	// Driver is SQLite or MySQL. DSN includes the contents of DSNFile.
	Driver         string
	DSN            secret.Text
	DSNFile        string
	Connections    int
	ConnectTimeout time.Duration
	// TLS applies to MySQL only.
	TLS TLS
}

// The drivers of the database.
const (
	SQLite = "sqlite"
	MySQL  = "mysql"
)

// Instance is a store for buckets of budgets in store mode.
type Instance struct {
	// Driver is Redis.
	Name, Driver string
	// Partitions is never 0: the default depends on the topology.
	Partitions int
	// Addrs are the addresses of the Redis server, of the sentinels, or of some servers of the
	// cluster, depending on Topology.
	Addrs    []string
	Topology string
	// MasterName is the sentinels' name of the group. SentinelPassword includes the contents of its
	// file.
	MasterName, SentinelUsername, SentinelPasswordFile string
	// Password includes the contents of PasswordFile.
	Username, PasswordFile     string
	Password, SentinelPassword secret.Text
	// Vouched means that the operator answers for settings that the server does not let budgetd
	// read.
	Vouched bool
	// Durable means that every write is on disk before it is answered, and that there are no
	// replicas.
	Durable              bool
	DB, Connections      int
	DialTimeout, Timeout time.Duration
	TLS                  TLS
}

// Redis is the driver of instances.
const Redis = "redis"

// The topologies of Redis instances.
const (
	Standalone = "standalone"
	Sentinel   = "sentinel"
	Cluster    = "cluster"
)

// clusterPartitions is the default number of partitions of a cluster. Other topologies have one
// partition.
const clusterPartitions = 16

// TLS configures TLS for connections to an instance.
type TLS struct {
	Enabled                               bool
	CAFile, CertFile, KeyFile, ServerName string
}

// Deduct bounds deductions.
type Deduct struct {
	Deadline, StepTimeout time.Duration
	Queue, BatchSize      int
}

// StoreMode configures budgets with durability "store".
type StoreMode struct {
	// RecordWindow is how long stores remember request ids, WithoutDatabase how long they serve while
	// the database does not answer.
	RecordWindow, WithoutDatabase time.Duration
}

// Audit configures the interval and speed of background audits.
type Audit struct {
	Interval time.Duration
	// Rows is the number of ledger rows recounted per second.
	Rows int
}

// Metrics bounds what /metrics shows.
type Metrics struct{ Budgets int }

// Tracing names the collector of OpenTelemetry spans ("" for none), and the share of those
// administrative calls that get a span although they belong to no trace.
type Tracing struct {
	Endpoint string
	Sample   float64
}

// Series says how long samples of the budgets' figures are kept; 0 takes no samples.
type Series struct{ Keep time.Duration }

// Alerts configures thresholds and how long alerts are kept.
type Alerts struct {
	// Defaults gives thresholds to budgets without their own.
	Defaults bool
	// Keep is how long resolved alerts and messages are kept.
	Keep time.Duration
}

// Webhooks configures the sending of messages.
type Webhooks struct {
	// SecretsDir is the folder with one file per secret. If it is "", no message can be sent.
	SecretsDir string
	// Allow lists networks to which messages may be sent although they are not public, or without
	// TLS.
	Allow []netip.Prefix
	// Timeout bounds one attempt.
	Timeout time.Duration
}

// Cache bounds what a node caches.
type Cache struct{ Budgets int }

// HTTP bounds the requests of callers.
type HTTP struct {
	MaxBodyBytes, MaxBatchBytes int
	// MaxBodiesBytes bounds the bodies of all requests in progress together.
	MaxBodiesBytes                          int
	MaxHeaderBytes, MaxHeaders, MaxInFlight int
	// MaxConnections bounds the open connections of each address; 0 means no bound.
	MaxConnections                            int
	HeaderTimeout, ReadTimeout                time.Duration
	RequestTimeout, WriteTimeout, IdleTimeout time.Duration
}

// Stop bounds the phases of a stop.
type Stop struct{ Notice, FinishTimeout, DrainTimeout time.Duration }

// Log configures the log.
type Log struct {
	Level slog.Level
	// JSON writes one JSON object per line instead of text.
	JSON bool
}

// Client returns the TLS settings, or nil without TLS. If ServerName is empty, the connecting side
// uses the host to which it connects. It returns an error for a file that cannot be read or holds
// no certificate.
func (t TLS) Client() (*tls.Config, error) {
	files, err := t.Files()
	if files == nil || err != nil {
		return nil, err
	}
	return files.Config(), nil
}

// Files returns TLS settings that read the files for every connection, or nil without TLS. Its
// errors are those of Client.
func (t TLS) Files() (*tlsfiles.Client, error) {
	if !t.Enabled {
		return nil, nil
	}
	files, err := tlsfiles.NewClient(tlsfiles.ClientFiles{CA: t.CAFile, Cert: t.CertFile,
		Key:        t.KeyFile,
		ServerName: t.ServerName})
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return files, nil
}

// settings returns the TLS settings in a section.
func (t *TLS) settings(within string) []setting {
	return []setting{
		{within + "enabled", flag(&t.Enabled)},
		{within + "ca_file", text(&t.CAFile)},
		{within + "cert_file", text(&t.CertFile)},
		{within + "key_file", text(&t.KeyFile)},
		{within + "server_name", text(&t.ServerName)},
	}
}
