package driver

import (
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Config identifies the Redis of an instance and bounds the waits for it. A duration of 0 means the
// default.
type Config struct {
	// Name is the instance's name (budget.CheckName).
	Name string
	// The address has one of three forms. Addr is the host:port of a standalone Redis or the path
	// of its socket as unix:///run/redis.sock. Sentinels name the Redis that serves now. Seeds are
	// host:port of some servers of a Cluster.
	Addr      string
	Sentinels Sentinels
	Seeds     []string
	// Username and Password are for its ACL; "" for none. Secret, if set, returns the password
	// instead, for each connection.
	Username, Password string
	Secret             func() string
	// Vouched means that settings which cannot be read are as store mode needs them, and that INFO
	// may lack the run id. The operator vouches for that.
	Vouched bool
	// DB is the database number; a Cluster has only 0.
	DB int
	// TLS encrypts connections if it is not nil. Without a ServerName each server's certificate
	// must be for the host of its address.
	TLS *tls.Config
	// Encrypt, if set, returns the settings of one connection and replaces TLS.
	Encrypt func() *tls.Config
	// Partitions is the number of partitions, at least 1: the parts in which one script can touch
	// every key. The partitions of a Cluster are spread over its masters.
	Partitions int
	// InstallationID separates installations that share a Redis: 1-32 of [A-Za-z0-9_-].
	InstallationID string
	// PoolSize is the most connections that calls use at a time; default 16.
	PoolSize int
	// DialTimeout bounds a connect, ReadTimeout and WriteTimeout a reply and a request, PoolTimeout
	// the wait for a free connection; default 1 s each. A context's deadline applies if it is
	// earlier.
	DialTimeout, ReadTimeout, WriteTimeout, PoolTimeout time.Duration
	// IdleTimeout closes connections that were unused for that long, default 5 m. It should be
	// below the server's own `timeout`.
	IdleTimeout time.Duration
	// RecordWindow is the minimum time for which a request id is remembered in store mode, by the
	// clock of the Redis: 1 s to 24 h, whole milliseconds, default 10 m.
	RecordWindow time.Duration
}

// The default record window and its bounds.
const (
	UsualRecordWindow = 10 * time.Minute
	LeastRecordWindow = time.Second
	MostRecordWindow  = 24 * time.Hour
)

// socketScheme begins the address of a Unix socket.
const socketScheme = "unix://"

func (c Config) isEncrypted() bool { return c.TLS != nil || c.Encrypt != nil }

func (c Config) isCluster() bool { return len(c.Seeds) > 0 }

// withDefaults returns the configuration with its zero values replaced.
func (c Config) withDefaults() Config {
	for _, d := range []struct {
		value *time.Duration
		usual time.Duration
	}{
		{&c.DialTimeout, time.Second}, {&c.ReadTimeout, time.Second}, {&c.WriteTimeout, time.Second},
		{&c.PoolTimeout, time.Second}, {&c.IdleTimeout, 5 * time.Minute}, {&c.RecordWindow,
			UsualRecordWindow},
	} {
		if *d.value == 0 {
			*d.value = d.usual
		}
	}
	if c.PoolSize == 0 {
		c.PoolSize = 16
	}
	return c
}

// check returns every faulty field.
func (c Config) check() []budget.FieldError {
	var faults []budget.FieldError
	fault := func(field, why string) {
		faults = append(faults, budget.FieldError{Field: field, Message: why})
	}
	if why := budget.CheckName(c.Name); why != "" {
		fault("name", why)
	}
	c.checkAddr(fault)
	if c.Partitions < 1 || c.Partitions > maxPartitions {
		fault("partitions", fmt.Sprintf("must be 1 to %d", maxPartitions))
	}
	if c.DB < 0 || c.DB > 0 && c.isCluster() {
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

// checkAddr checks the address of the instance.
func (c Config) checkAddr(fault func(field, why string)) {
	ways := 0
	for _, way := range []bool{c.Addr != "", len(c.Sentinels.Addrs) > 0, len(c.Seeds) > 0} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		fault("addr", "must be host:port or unix:///path, unless there are either sentinels or seeds")
	}
	if path, socket := strings.CutPrefix(c.Addr, socketScheme); socket &&
		!strings.HasPrefix(path, "/") {
		fault("addr", "must have an absolute path: unix:///run/redis.sock")
	}
	if (len(c.Sentinels.Addrs) > 0) != (c.Sentinels.MasterName != "") {
		fault("master_name", "must be the name of the sentinels' group")
	}
}

// maxInstallationBytes is the width of the installation id's column.
const maxInstallationBytes = 32

// checkInstallation returns what is wrong with an installation id, or "".
func checkInstallation(id string) string {
	if id == "" || len(id) > maxInstallationBytes {
		return fmt.Sprintf("is %d bytes long, 1 to %d are allowed", len(id), maxInstallationBytes)
	}
	for i := range len(id) {
		c := id[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' &&
			c != '_' {
			return "may hold letters, digits, - and _ only"
		}
	}
	return ""
}
