package config

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/budgetd/budgetd/budget"
)

// settings returns all settings outside the list of instances.
func (c *Config) settings() []setting {
	return slices.Concat(c.accessSettings(), c.serviceSettings(),
		c.Database.TLS.settings("database.tls."))
}

// serviceSettings returns all settings except those of accessSettings.
func (c *Config) serviceSettings() []setting {
	return []setting{
		{"node.name", text(&c.Node.Name)},
		{"database.driver", choice(&c.Database.Driver, SQLite, MySQL)},
		{"database.dsn", nonEmpty(hidden(&c.Database.DSN))},
		{"database.dsn_file", text(&c.Database.DSNFile)},
		{"database.connections", integer(&c.Database.Connections, 0, 1000)},
		{"database.connect_timeout", duration(&c.Database.ConnectTimeout, "0s", "1h")},

		{"strict", flag(&c.Strict)},

		{"deduct.deadline", duration(&c.Deduct.Deadline, "10ms", "1m")},
		{"deduct.step_timeout", duration(&c.Deduct.StepTimeout, "10ms", "1m")},
		{"deduct.queue", integer(&c.Deduct.Queue, 1, 1_000_000)},
		{"deduct.batch_size", integer(&c.Deduct.BatchSize, 1, 4096)},

		{"store_mode.record_window", duration(&c.StoreMode.RecordWindow, "1s", "24h")},
		{"store_mode.without_database", duration(&c.StoreMode.WithoutDatabase, "0s", "1h")},

		{"recycle.schedule", schedule(&c.Recycle.Schedule)},
		{"recycle.timezone", timezone(&c.Recycle.Timezone)},
		{"recycle.stranded_share", share(&c.Recycle.StrandedShare)},

		{"audit.interval", duration(&c.Audit.Interval, "100ms", "1m")},
		{"audit.rows", integer(&c.Audit.Rows, 1, 10_000_000)},

		{"metrics.budgets", integer(&c.Metrics.Budgets, 0, 10_000)},

		{"tracing.endpoint", collector(&c.Tracing.Endpoint)},
		{"tracing.sample", share(&c.Tracing.Sample)},

		{"series.keep", duration(&c.Series.Keep, "0s", "744h")},

		{"alerts.defaults", flag(&c.Alerts.Defaults)},
		{"alerts.keep", duration(&c.Alerts.Keep, "48h", "17520h")},

		{"webhooks.secrets_dir", text(&c.Webhooks.SecretsDir)},
		{"webhooks.allow", networks(&c.Webhooks.Allow)},
		{"webhooks.timeout", duration(&c.Webhooks.Timeout, "100ms", "1m")},

		{"cache.budgets", integer(&c.Cache.Budgets, 1, 10_000_000)},

		{"http.max_body_bytes", integer(&c.HTTP.MaxBodyBytes, 1024, 104_857_600)},
		{"http.max_batch_bytes", integer(&c.HTTP.MaxBatchBytes, 1024, 104_857_600)},
		{"http.max_bodies_bytes", integer(&c.HTTP.MaxBodiesBytes, 1_048_576, 2_147_483_647)},
		{"http.max_header_bytes", integer(&c.HTTP.MaxHeaderBytes, 4096, 1_048_576)},
		{"http.max_headers", integer(&c.HTTP.MaxHeaders, 10, 10_000)},
		{"http.max_connections", integer(&c.HTTP.MaxConnections, 0, 1_000_000)},
		{"http.max_in_flight", integer(&c.HTTP.MaxInFlight, 1, 1_000_000)},
		{"http.header_timeout", duration(&c.HTTP.HeaderTimeout, "100ms", "5m")},
		{"http.read_timeout", duration(&c.HTTP.ReadTimeout, "100ms", "5m")},
		{"http.request_timeout", duration(&c.HTTP.RequestTimeout, "100ms", "5m")},
		{"http.write_timeout", duration(&c.HTTP.WriteTimeout, "100ms", "5m")},
		{"http.idle_timeout", duration(&c.HTTP.IdleTimeout, "1s", "1h")},

		{"stop.notice", duration(&c.Stop.Notice, "0s", "5m")},
		{"stop.finish_timeout", duration(&c.Stop.FinishTimeout, "0s", "5m")},
		{"stop.drain_timeout", duration(&c.Stop.DrainTimeout, "0s", "5m")},

		{"log.level", level(&c.Log.Level)},
		{"log.format", oneOf(&c.Log.JSON, "json", "text")},
	}
}

// settings returns all settings of one instance.
func (i *Instance) settings() []setting {
	return append([]setting{
		{"name", name(&i.Name)},
		{"driver", store(&i.Driver)},
		{"partitions", integer(&i.Partitions, 0, 64)},
		{"addrs", addresses(&i.Addrs)},
		{"topology", choice(&i.Topology, Standalone, Sentinel, Cluster)},
		{"master_name", text(&i.MasterName)},
		{"sentinel_username", text(&i.SentinelUsername)},
		{"sentinel_password", hidden(&i.SentinelPassword)},
		{"sentinel_password_file", text(&i.SentinelPasswordFile)},
		{"username", text(&i.Username)},
		{"password", hidden(&i.Password)},
		{"password_file", text(&i.PasswordFile)},
		{"vouched", flag(&i.Vouched)},
		{"durable", flag(&i.Durable)},
		{"db", integer(&i.DB, 0, 65_535)},
		{"connections", integer(&i.Connections, 1, 1000)},
		{"dial_timeout", duration(&i.DialTimeout, "10ms", "1m")},
		{"timeout", duration(&i.Timeout, "10ms", "1m")},
	}, i.TLS.settings("tls.")...)
}

// checkWhole returns contradictions between keys. It is called once each key is valid by itself.
func (c *Config) checkWhole(defaultDSN string) []Fault {
	faults := c.checkAccess()
	if c.Database.Driver == MySQL && c.Database.DSN.Reveal() == defaultDSN {
		faults = append(faults, Fault{"database.dsn", show(defaultDSN),
			"must be user:password@tcp(host:3306)/database for mysql"})
	}
	if c.HTTP.RequestTimeout <= c.Deduct.Deadline {
		faults = append(faults, Fault{"http.request_timeout", c.HTTP.RequestTimeout.String(),
			"must be longer than deduct.deadline, " + c.Deduct.Deadline.String()})
	}
	if least := 2 * max(c.HTTP.MaxBodyBytes, c.HTTP.MaxBatchBytes); c.HTTP.MaxBodiesBytes < least {
		faults = append(faults, Fault{"http.max_bodies_bytes",
			strconv.Itoa(c.HTTP.MaxBodiesBytes),
			fmt.Sprintf("must be at least twice the largest body, %d", least)})
	}
	names := map[string]bool{}
	for n := range c.Instances {
		i := &c.Instances[n]
		if names[i.Name] {
			faults = append(faults, Fault{instanceKey(n) + ".name", show(i.Name), "must be unique"})
		}
		names[i.Name] = true
		if key, value, want := i.check(); want != "" {
			faults = append(faults, Fault{instanceKey(n) + key, show(value), want})
		}
	}
	return faults
}

// check returns a contradiction within one instance and the key at fault. want is "" if there is no
// contradiction.
func (i *Instance) check() (key string, value any, want string) {
	switch {
	case i.Topology == Standalone && len(i.Addrs) != 1:
		return ".addrs", i.Addrs, "must be one host:port or unix:///path"
	case i.Topology != Standalone && slices.ContainsFunc(i.Addrs, isSocket):
		return ".addrs", i.Addrs, "must be host:port: a socket is for topology standalone"
	case slices.ContainsFunc(i.Addrs, isSocket) && i.TLS.Enabled:
		return ".tls.enabled", true, "must be false with a socket"
	case i.Topology == Sentinel && len(i.Addrs) == 0:
		return ".addrs", i.Addrs, "must be host:port of the sentinels"
	case i.Topology == Cluster && len(i.Addrs) == 0:
		return ".addrs", i.Addrs, "must be host:port of some servers of the cluster"
	case i.Topology == Cluster && i.DB != 0:
		return ".db", i.DB, "must be 0 with topology cluster: it has no other"
	case i.Topology == Sentinel && i.MasterName == "":
		return ".master_name", i.MasterName, "must be the name that the sentinels give to the group"
	case i.Topology != Sentinel && i.sentinelKey() != "":
		return i.sentinelKey(), nil, "must not be set without topology sentinel"
	}
	for n, addr := range i.Addrs {
		if slices.Contains(i.Addrs[:n], addr) {
			return ".addrs", addr, "must not appear twice"
		}
	}
	if _, err := i.TLS.Client(); err != nil {
		return ".tls", i.Name, err.Error()
	}
	return "", nil, ""
}

// sentinelKey returns the first key that is set although it is for sentinels only, or "".
func (i *Instance) sentinelKey() string {
	for _, k := range []struct{ key, value string }{{".master_name", i.MasterName},
		{".sentinel_username", i.SentinelUsername}, {".sentinel_password", i.SentinelPassword.String()}} {
		if k.value != "" {
			return k.key
		}
	}
	return ""
}

// complete replaces 0 by the default that depends on other keys.
func (i *Instance) complete() {
	if i.Partitions > 0 {
		return
	}
	i.Partitions = 1
	if i.Topology == Cluster {
		i.Partitions = clusterPartitions
	}
}

// store accepts the driver of an instance.
func store(into *string) rule {
	r := choice(into, Redis)
	r.want += ": an instance is for budgets with durability store; those with durability ledger " +
		"need none, and instances may be empty"
	return r
}

// name accepts a name of the domain.
func name(into *string) rule {
	return rule{want: "must be a-z, 0-9 and -, start with a letter, at most 63 bytes", target: into,
		set: func(value any) bool {
			text, ok := value.(string)
			*into = text
			return ok && budget.CheckName(text) == ""
		}}
}
