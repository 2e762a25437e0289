package config

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/budgetd/budgetd/internal/secret"
)

func load(t *testing.T, text string, environ ...string) (Config, error) {
	t.Helper()
	file := ""
	if text != "" {
		file = write(t, "budgetd.yaml", text)
	}
	return Load(file, environ)
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func mustLoad(t *testing.T, text string, environ ...string) Config {
	t.Helper()
	c, err := load(t, text, environ...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDefaults checks the configuration without a file and environment.
func TestDefaults(t *testing.T) {
	c := mustLoad(t, "")
	want := Config{
		Listen:    "127.0.0.1:8080",
		Auth:      Loopback,
		Keys:      Keys{StaleAfter: time.Minute, Burst: 100, PerTenant: 10_000, Keep: 720 * time.Hour},
		TLS:       ServerTLS{ClientCertificates: CertificatesIgnored, MinVersion: "1.2"},
		OIDC:      OIDC{GroupsClaim: "groups"},
		Database:  Database{Driver: SQLite, DSN: secret.New("./data/budgetd.db"), ConnectTimeout: 30 * time.Second},
		Instances: []Instance{},
		Deduct:    Deduct{2 * time.Second, 5 * time.Second, 20_000, 512},
		StoreMode: StoreMode{10 * time.Minute, time.Minute},
		Recycle:   Recycle{Timezone: "UTC", StrandedShare: 0.2},
		Audit:     Audit{500 * time.Millisecond, 5_000},
		Metrics:   Metrics{100},
		Tracing:   Tracing{Sample: 1},
		Series:    Series{192 * time.Hour},
		Alerts:    Alerts{Defaults: true, Keep: 720 * time.Hour},
		Webhooks:  Webhooks{Timeout: 15 * time.Second},
		Cache:     Cache{10_000},
		HTTP: HTTP{MaxBodyBytes: 1 << 20, MaxBatchBytes: 4 << 20, MaxBodiesBytes: 256 << 20,
			MaxHeaderBytes: 64 << 10, MaxHeaders: 100, MaxInFlight: 10_000, MaxConnections: 20_000, HeaderTimeout: 5 * time.Second,
			ReadTimeout: 10 * time.Second, RequestTimeout: 15 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute},
		Stop: Stop{0, 10 * time.Second, 10 * time.Second},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

func TestFileAndEnvironment(t *testing.T) {
	password := write(t, "password", "from a file\n")
	c := mustLoad(t, `
listen: 0.0.0.0:0
database: {driver: mysql, dsn: "budgetd:old@tcp(db:3306)/budgetd"}
deduct:
http: {}
cache:
  budgets: 7
log: {level: debug, format: json}
strict: true
instances:
  - {name: redis-a, driver: redis, addrs: ["[::1]:6379"], tls: {enabled: true, server_name: r}}
  - {name: redis-b, driver: redis, addrs: [b:6379], password_file: `+password+`, tls: }
  - {name: few, addrs: [c:6379], partitions: 4}
`, "BUDGETD_DATABASE_DSN=budgetd:new@tcp(db:3306)/budgetd", "BUDGETD_DEDUCT_DEADLINE=250ms", "BUDGETD_STRICT=false",
		"BUDGETD_DEDUCT_QUEUE=9", "BUDGETD_INSTANCES_REDIS_A_PASSWORD=a=b c", "BUDGETD_INSTANCES_REDIS_B_DB=3",
		"BUDGETD_INSTANCES_REDIS_B_TLS_ENABLED=false", "BUDGETD_SERVER=http://other", "BUDGETD_TEST_TMP=/tmp", "HOME=/root", "BUDGETDX=1")
	if c.Listen != "0.0.0.0:0" || c.Database.Driver != MySQL || c.Database.DSN.Reveal() != "budgetd:new@tcp(db:3306)/budgetd" ||
		c.Deduct.Deadline != 250*time.Millisecond || c.Strict || c.Cache.Budgets != 7 || c.Deduct.Queue != 9 || c.Log != (Log{slog.LevelDebug, true}) {
		t.Errorf("%+v", c)
	}
	want := []Instance{
		{Name: "redis-a", Driver: Redis, Partitions: 1, Addrs: []string{"[::1]:6379"}, Topology: "standalone", Password: secret.New("a=b c"),
			Connections: 16, DialTimeout: time.Second, Timeout: time.Second, TLS: TLS{Enabled: true, ServerName: "r"}},
		{Name: "redis-b", Driver: Redis, Partitions: 1, Addrs: []string{"b:6379"}, Topology: "standalone", Password: secret.New("from a file"),
			PasswordFile: password, DB: 3, Connections: 16, DialTimeout: time.Second, Timeout: time.Second},
		{Name: "few", Driver: Redis, Partitions: 4, Addrs: []string{"c:6379"}, Topology: "standalone", Connections: 16,
			DialTimeout: time.Second, Timeout: time.Second},
	}
	if diff := cmp.Diff(want, c.Instances); diff != "" {
		t.Error(diff)
	}
}

func TestDSNFile(t *testing.T) {
	file := write(t, "dsn", "u:p@tcp(h:3306)/d\n")
	c := mustLoad(t, "database: {driver: mysql}", "BUDGETD_DATABASE_DSN_FILE="+file)
	if c.Database.DSN.Reveal() != "u:p@tcp(h:3306)/d" {
		t.Error(c.Database.DSN.Reveal())
	}
}

// TestFaults loads files and variables with one fault each, and checks its key and message.
func TestFaults(t *testing.T) {
	redis := func(rest string) string { return "instances: [{name: a, driver: redis, " + rest + "}]" }
	for _, c := range []struct{ name, file, variable, key, want string }{
		{"unknown", "no_such_key: 1", "", "no_such_key", "not a key"},
		{"unknown in a section", "database: {url: x}", "", "database.url", "database has driver, dsn"},
		{"unknown section", "foo: {bar: 1}", "", "foo.bar", "not a key"},
		{"unknown empty section", "foo: {}", "", "foo", "not a key"},
		{"a deleted key", "down_after: 5s", "", "down_after", "not a key of budgetd; see config.yaml"},
		{"a deleted key in a section", "store_mode: {window_units: 1}", "", "store_mode.window_units",
			"store_mode has record_window"},
		{"a deleted key in the environment", "", "BUDGETD_CACHE_REQUEST_IDS=9", "BUDGETD_CACHE_REQUEST_IDS", "not a key"},
		{"capitals", "Listen: 127.0.0.1:1", "", "Listen", "small letters"},
		{"capitals inside", redis("Addrs: [a:1], addrs: [a:1]"), "", "Addrs", "small letters"},
		{"schedule", "recycle: {schedule: '0 4 * *'}", "", "recycle.schedule", "five fields"},
		{"schedule without a time", "recycle: {schedule: '0 4 30 2 *'}", "", "recycle.schedule", "five fields"},
		{"schedule with a word", "recycle: {schedule: 'at four in the morning'}", "", "recycle.schedule", "five fields"},
		{"schedule by name", "recycle: {schedule: '@daily'}", "", "recycle.schedule", "five fields"},
		{"time zone", "recycle: {timezone: Europe/Nowhere}", "", "recycle.timezone", "time zone"},
		{"time zone of the machine", "recycle: {timezone: Local}", "", "recycle.timezone", "time zone"},
		{"share", "recycle: {stranded_share: 1.5}", "", "recycle.stranded_share", "0 to 1"},
		{"share in per cent", "recycle: {stranded_share: 20%}", "", "recycle.stranded_share", "0 to 1"},
		{"invalid share", "", "BUDGETD_RECYCLE_STRANDED_SHARE=NaN", "BUDGETD_RECYCLE_STRANDED_SHARE", "0 to 1"},
		{"section as a value", "database: sqlite", "", "database", "must be a section"},
		{"too deep", "listen: {host: x}", "", "listen", "must be host:port"},
		{"address", "listen: nowhere", "", "listen", `"nowhere" must be host:port`},
		{"port", "listen: 127.0.0.1:70000", "", "listen", "must be host:port"},
		{"address as a number", "listen: 8080", "", "listen", "8080 must be host:port"},
		{"null", "listen:", "", "listen", "must be host:port"},
		{"driver", "database: {driver: oracle}", "", "database.driver", `"oracle" must be sqlite or mysql`},
		{"empty dsn", "database: {dsn: ''}", "", "database.dsn", "not empty"},
		{"sqlite's default dsn for mysql", "database: {driver: mysql}", "", "database.dsn", "for mysql"},
		{"dsn file", "database: {dsn_file: /nowhere}", "", "database.dsn_file", "can be read"},
		{"duration without unit", "deduct: {deadline: 2}", "", "deduct.deadline", "10ms to 1m"},
		{"duration too short", "deduct: {deadline: 1ms}", "", "deduct.deadline", "10ms to 1m"},
		{"duration too long", "deduct: {deadline: 2m}", "", "deduct.deadline", "10ms to 1m"},
		{"duration negative", "deduct: {deadline: -2s}", "", "deduct.deadline", "10ms to 1m"},
		{"request timeout below the deadline", "http: {request_timeout: 1s}", "", "http.request_timeout", "longer than deduct.deadline"},
		{"integer", "cache: {budgets: many}", "", "cache.budgets", "an integer of 1 to 10000000"},
		{"integer as a fraction", "cache: {budgets: 1.5}", "", "cache.budgets", "an integer"},
		{"integer too small", "cache: {budgets: 0}", "", "cache.budgets", "an integer"},
		{"integer too large", "cache: {budgets: 10000001}", "", "cache.budgets", "an integer"},
		{"integer beyond int64", "cache: {budgets: 99999999999999999999}", "", "cache.budgets", "an integer"},
		{"flag", "strict: yes", "", "strict", "true or false"},
		{"flag as a number", "strict: 1", "", "strict", "true or false"},
		{"level", "log: {level: loud}", "", "log.level", "debug, info, warn or error"},
		{"format", "log: {format: xml}", "", "log.format", "text or json"},
		{"instances not a list", "instances: {name: a}", "", "instances", "must be a list"},
		{"instances null", "instances:", "", "instances", "must be a list"},
		{"instance not a section", "instances: [a]", "", "instances[0]", "must be a section"},
		{"instance without name", "instances: [{addrs: [a:1]}]", "", "instances[0].name", "start with a letter"},
		{"the deleted driver", "instances: [{name: a, driver: sql}]", "", "instances[0].driver",
			`"sql" must be redis: an instance is for budgets with durability store; those with durability ledger need none`},
		{"instance with an unknown key", redis("addrs: [a:1], adresses: [b:1]"), "", "instances[0].adresses", "not a key of an instance"},
		{"instance with an unknown key inside", redis("addrs: [a:1], tls: {on: true}"), "", "instances[0].tls.on", "not a key of an instance"},
		{"instance name", "instances: [{name: A_1, addrs: [a:1]}]", "", "instances[0].name", "start with a letter"},
		{"instance driver", "instances: [{name: a, driver: memcached}]", "", "instances[0].driver", "must be redis"},
		{"two instances with one name", "instances: [{name: a, addrs: [b:1]}, {name: a, driver: redis, addrs: [a:1]}]", "", "instances[1].name", "unique"},
		{"redis without addrs", redis("partitions: 1"), "", "instances[0].addrs", "one host:port"},
		{"redis with two addrs", redis("addrs: [a:1, b:1]"), "", "instances[0].addrs", "one host:port"},
		{"addrs as a text", redis("addrs: a:1"), "", "instances[0].addrs", "a list of host:port"},
		{"addrs without port", redis("addrs: [a]"), "", "instances[0].addrs", "a list of host:port"},
		{"addrs as numbers", redis("addrs: [6379]"), "", "instances[0].addrs", "a list of host:port"},
		{"topology", redis("addrs: [a:1], topology: ring"), "", "instances[0].topology", "standalone, sentinel or cluster"},
		{"sentinel without addrs", redis("topology: sentinel, master_name: m"), "", "instances[0].addrs", "of the sentinels"},
		{"sentinel without a name", redis("addrs: [a:1], topology: sentinel"), "", "instances[0].master_name", "give to the group"},
		{"a master name without sentinels", redis("addrs: [a:1], master_name: m"), "", "instances[0].master_name", "without topology sentinel"},
		{"a sentinel's user on a cluster", redis("addrs: [a:1], topology: cluster, sentinel_username: u"), "",
			"instances[0].sentinel_username", "without topology sentinel"},
		{"a sentinel's password without sentinels", redis("addrs: [a:1], sentinel_password: p"), "",
			"instances[0].sentinel_password", "without topology sentinel"},
		{"a sentinel's password twice", redis("addrs: [a:1], topology: sentinel, master_name: m, sentinel_password: x, sentinel_password_file: y"),
			"", "instances[0].sentinel_password_file", "beside sentinel_password"},
		{"cluster without addrs", redis("topology: cluster"), "", "instances[0].addrs", "some servers of the cluster"},
		{"cluster with a db", redis("addrs: [a:1], topology: cluster, db: 1"), "", "instances[0].db", "must be 0"},
		{"a server twice", redis("addrs: [a:1, b:1, a:1], topology: cluster"), "", "instances[0].addrs", "appear twice"},
		{"partitions", redis("addrs: [a:1], partitions: -1"), "", "instances[0].partitions", "0 to 64"},
		{"partitions by their old name", redis("addrs: [a:1], lanes: 2"), "", "instances[0].lanes", "was renamed to partitions"},
		{"partitions by their old variable", "", "BUDGETD_INSTANCES_EMBEDDED_LANES=2", "BUDGETD_INSTANCES_EMBEDDED_LANES",
			"was renamed to BUDGETD_INSTANCES_EMBEDDED_PARTITIONS"},
		{"too many partitions", redis("addrs: [a:1], topology: cluster, partitions: 65"), "", "instances[0].partitions", "0 to 64"},
		{"password as a number", redis("addrs: [a:1], password: 123"), "", "instances[0].password", "must be a text"},
		{"password twice", redis("addrs: [a:1], password: x, password_file: y"), "", "instances[0].password_file", "beside password"},
		{"password file", redis("addrs: [a:1], password_file: /nowhere"), "", "instances[0].password_file", "can be read"},
		{"ca file", redis("addrs: [a:1], tls: {enabled: true, ca_file: /nowhere}"), "", "instances[0].tls", "/nowhere"},
		{"half a pair", redis("addrs: [a:1], tls: {enabled: true, cert_file: /nowhere}"), "", "instances[0].tls", "go together"},
		{"unknown variable", "", "BUDGETD_LISTN=x", "BUDGETD_LISTN", "not a key"},
		{"variable of an unknown instance", "", "BUDGETD_INSTANCES_B_PARTITIONS=1", "BUDGETD_INSTANCES_B_PARTITIONS", "not a key"},
		{"variable of a list", redis("addrs: [a:1]"), "BUDGETD_INSTANCES_A_ADDRS=a:1", "BUDGETD_INSTANCES_A_ADDRS", "not a key"},
		{"variable's value", "", "BUDGETD_CACHE_BUDGETS=+5", "BUDGETD_CACHE_BUDGETS", `"+5" must be an integer`},
		{"variable's value empty", "", "BUDGETD_LISTEN=", "BUDGETD_LISTEN", `"" must be host:port`},
		{"variable of an instance", redis("addrs: [a:1]"), "BUDGETD_INSTANCES_A_PARTITIONS=65", "BUDGETD_INSTANCES_A_PARTITIONS", "0 to 64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, c.file, c.variable)
			var faults Faults
			if !errors.As(err, &faults) {
				t.Fatalf("got %v", err)
			}
			if len(faults) != 1 || faults[0].Key != c.key || !strings.Contains(faults[0].String(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	_, err := load(t, `
listen: nowhere
database: {driver: oracle, url: x}
cache: {budgets: 0}
instances: [{name: a, driver: redis, partitions: -1, foo: 1}, {driver: x}]
auth: {}
`, "BUDGETD_LOG_LEVEL=loud", "BUDGETD_FOO=1")
	var faults Faults
	if !errors.As(err, &faults) {
		t.Fatal(err)
	}
	var keys []string
	for _, f := range faults {
		keys = append(keys, f.Key)
	}
	want := []string{"BUDGETD_FOO", "BUDGETD_LOG_LEVEL", "auth", "cache.budgets", "database.driver", "database.url",
		"instances[0].foo", "instances[0].partitions", "instances[1].driver", "instances[1].name", "listen"}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Error(diff)
	}
	if lines := strings.Count(err.Error(), "\n"); lines != len(want) {
		t.Errorf("the error has %d lines for %d faults: %s", lines, len(want), err)
	}
}

func TestUnreadableFiles(t *testing.T) {
	if _, err := Load("/nowhere.yaml", nil); err == nil || !strings.Contains(err.Error(), "/nowhere.yaml") {
		t.Error(err)
	}
	for name, text := range map[string]string{"not YAML": "a: [", "a list": "- a", "twice": "listen: a:1\nlisten: a:2",
		"two documents": "strict: true\n---\nstrict: false", "tabs": "deduct:\n\tdeadline: 2s", "binary": "\x00\x01",
		"leading zero": "deduct: {queue: 0100}", "base 16": "deduct: {queue: 0x10}", "an underscore": "deduct: {queue: 1_000}",
		"an exponent": "tracing: {sample: 1e-1}", "in an instance": "instances: [{name: a, addrs: [a:1], db: 010}]",
		"an alias": "log: &log {level: info}\nstop: *log"} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), "budgetd.yaml") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := load(t, "# nothing but a comment\n"); err != nil {
		t.Error(err)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	_, err := load(t, "database: {dsn: 4711}\ninstances: [{name: a, addrs: [a:1], password: 4712}]")
	if err == nil || strings.Contains(err.Error(), "471") || !strings.Contains(err.Error(), "instances[0].password") {
		t.Error(err)
	}
	for _, redis := range []string{"sentinel_password: 4713", "addrs: [a:1], sentinel_password: x4714"} {
		_, err = load(t, "instances: [{name: a, driver: redis, "+redis+"}]")
		if err == nil || strings.Contains(err.Error(), "471") || !strings.Contains(err.Error(), "instances[0].sentinel_password") {
			t.Error(err)
		}
	}
}

// TestTopologies checks the settings of each topology and its default number of partitions.
func TestTopologies(t *testing.T) {
	password := write(t, "password", "from a file\n")
	c := mustLoad(t, `
instances:
  - {name: s, driver: redis, topology: sentinel, addrs: [s1:26379, s2:26379], master_name: budgets,
     sentinel_username: u, sentinel_password_file: `+password+`, password: p}
  - {name: c, driver: redis, topology: cluster, addrs: [c1:6379, c2:6379]}
  - {name: few, driver: redis, topology: cluster, addrs: [c3:6379], partitions: 3}
  - {name: one, driver: redis, addrs: [r:6379], partitions: 0}
`)
	redis := func(i Instance) Instance {
		i.Driver, i.Connections, i.DialTimeout, i.Timeout = Redis, 16, time.Second, time.Second
		return i
	}
	want := []Instance{
		redis(Instance{Name: "s", Partitions: 1, Topology: Sentinel, Addrs: []string{"s1:26379", "s2:26379"}, MasterName: "budgets",
			SentinelUsername: "u", SentinelPassword: secret.New("from a file"), SentinelPasswordFile: password, Password: secret.New("p")}),
		redis(Instance{Name: "c", Partitions: 16, Topology: Cluster, Addrs: []string{"c1:6379", "c2:6379"}}),
		redis(Instance{Name: "few", Partitions: 3, Topology: Cluster, Addrs: []string{"c3:6379"}}),
		redis(Instance{Name: "one", Partitions: 1, Topology: Standalone, Addrs: []string{"r:6379"}}),
	}
	if diff := cmp.Diff(want, c.Instances); diff != "" {
		t.Error(diff)
	}
}

// TestExampleKeepsItsStores checks that the example of a cluster sets durable where it asks for
// appendfsync always, so that a restart of a Redis quarantines nothing.
func TestExampleKeepsItsStores(t *testing.T) {
	c, err := Load("../../examples/cluster.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range c.Instances {
		if !i.Durable {
			t.Errorf("instance %s is not durable", i.Name)
		}
	}
}
