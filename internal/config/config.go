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

// NodeName is node.name, or where the node listens.
func (c Config) NodeName() string { return cmp.Or(c.Node.Name, c.NodeAddress()) }

// NodeAddress is where the node listens; with an address of all interfaces, its host.
func (c Config) NodeAddress() string {
	host, port, err := net.SplitHostPort(c.Listen)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return net.JoinHostPort(host, port)
}

// Node says which node this is.
type Node struct{ Name string }

// Config is everything that can be configured. See config.yaml for units, defaults and ranges.
type Config struct {
	Node      Node
	Listen    string
	Listeners Listeners
	// Auth is Loopback, ByKeys or NoAuth.
	Auth       string
	Keys       Keys
	TLS        ServerTLS
	OIDC       OIDC
	AuditLog   AuditLog
	Database   Database
	Instances  []Instance
	Strict     bool
	Deduct     Deduct
	StoreMode  StoreMode
	Background Background
	Recycle    Recycle
	Audit      Audit
	Metrics    Metrics
	Tracing    Tracing
	Series     Series
	Alerts     Alerts
	Webhooks   Webhooks
	Cache      Cache
	HTTP       HTTP
	Stop       Stop
	Log        Log
}

// Database is where the ledger is.
type Database struct {
	// Driver is SQLite or MySQL. DSN is final: DSNFile has been read into it.
	Driver         string
	DSN            secret.Text
	DSNFile        string
	Connections    int
	ConnectTimeout time.Duration
	// TLS is for MySQL only.
	TLS TLS
}

// The drivers of the database.
const (
	SQLite = "sqlite"
	MySQL  = "mysql"
)

// Instance is a store that buckets live in. All but Name, Driver and Lanes is for Redis only.
type Instance struct {
	// Driver is SQL or Redis.
	Name, Driver string
	// Lanes is final: 0 has become what the topology needs.
	Lanes int
	// Addrs are the Redis, the sentinels or some servers of the cluster, as Topology says.
	Addrs    []string
	Topology string
	// MasterName is the sentinels' name of the group. SentinelPassword is final, as Password.
	MasterName, SentinelUsername, SentinelPasswordFile string
	// Password is final: PasswordFile has been read into it.
	Username, PasswordFile     string
	Password, SentinelPassword secret.Text
	// Vouched: the operator answers for settings that the server does not let be read.
	Vouched bool
	// Durable: every write is on disk before its answer, and there are no replicas.
	Durable              bool
	DB, Connections      int
	DialTimeout, Timeout time.Duration
	TLS                  TLS
}

// The drivers of instances.
const (
	SQL   = "sql"
	Redis = "redis"
)

// The topologies of Redis instances.
const (
	Standalone = "standalone"
	Sentinel   = "sentinel"
	Cluster    = "cluster"
)

// clusterLanes is the number of lanes of a cluster that is not given one; everything else has one.
const clusterLanes = 16

// TLS says how connections to an instance are encrypted.
type TLS struct {
	Enabled                               bool
	CAFile, CertFile, KeyFile, ServerName string
}

// Deduct bounds deductions.
type Deduct struct {
	Deadline, StepTimeout time.Duration
	Queue, BatchSize      int
}

// StoreMode says how long stores remember request ids.
type StoreMode struct{ RecordWindow time.Duration }

// Background says how often things run by themselves.
type Background struct{ Clock time.Duration }

// Audit says how often and how fast the books are checked in the background.
type Audit struct {
	Interval time.Duration
	// Rows is how many rows of the ledger are recounted per second.
	Rows int
}

// Metrics bounds what /metrics shows.
type Metrics struct{ Budgets int }

// Tracing says where spans of OpenTelemetry go, "" for nowhere, and which share of the
// administrative calls that belong to no trace gets one.
type Tracing struct {
	Endpoint string
	Sample   float64
}

// Series says how long samples of the budgets' figures are kept; 0: none are taken.
type Series struct{ Keep time.Duration }

// Alerts says when budgets need attention.
type Alerts struct {
	// Defaults gives thresholds to budgets that have none of their own.
	Defaults bool
	// Keep is how long resolved alerts and messages are kept.
	Keep time.Duration
}

// Webhooks says how messages are sent.
type Webhooks struct {
	// SecretsDir is the folder with a file for each secret; "": nothing can be sent.
	SecretsDir string
	// Allow are networks that may be sent to although they are not public, or unencrypted.
	Allow []netip.Prefix
	// Timeout bounds one attempt.
	Timeout time.Duration
}

// Cache bounds what a node remembers.
type Cache struct{ Budgets int }

// HTTP bounds what callers may send.
type HTTP struct {
	MaxBodyBytes, MaxBatchBytes             int
	MaxBatchItems                           int
	MaxHeaderBytes, MaxHeaders, MaxInFlight int
	// MaxConnections is how many may be open at each address; 0: any number.
	MaxConnections                            int
	HeaderTimeout, ReadTimeout                time.Duration
	RequestTimeout, WriteTimeout, IdleTimeout time.Duration
}

// Stop bounds stopping.
type Stop struct{ Notice, FinishTimeout, DrainTimeout time.Duration }

// Log says what is logged and how.
type Log struct {
	Level slog.Level
	// JSON: one object per line instead of text.
	JSON bool
}

// Client returns the settings of encrypted connections, nil when they are not encrypted. Without a
// ServerName the side that connects takes the host that it connects to. Errors: a file that cannot
// be read or holds no certificate.
func (t TLS) Client() (*tls.Config, error) {
	files, err := t.Files()
	if files == nil || err != nil {
		return nil, err
	}
	return files.Config(), nil
}

// Files returns the settings of encrypted connections as files that are read for every connection,
// nil when they are not encrypted. Errors are those of Client.
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

// settings are the keys of encrypted connections below a section.
func (t *TLS) settings(within string) []setting {
	return []setting{
		{within + "enabled", flag(&t.Enabled)},
		{within + "ca_file", text(&t.CAFile)},
		{within + "cert_file", text(&t.CertFile)},
		{within + "key_file", text(&t.KeyFile)},
		{within + "server_name", text(&t.ServerName)},
	}
}
