package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/internal/secret"
)

// TestSecretSources checks that a secret in a file is read each time, and that one in the
// configuration stays.
func TestSecretSources(t *testing.T) {
	file := write(t, "secret", "one\n")
	for name, source := range map[string]func() (*secret.Source, error){
		"dsn":               Database{DSN: secret.New("one"), DSNFile: file}.Source,
		"password":          Instance{Password: secret.New("one"), PasswordFile: file}.Source,
		"sentinel password": Instance{SentinelPassword: secret.New("one"), SentinelPasswordFile: file}.SentinelSource,
		"client secret":     OIDC{ClientSecret: secret.New("one"), ClientSecretFile: file}.Source,
		"session key":       OIDC{SessionKeyFile: file}.SessionSource,
	} {
		if err := os.WriteFile(file, []byte("one\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		from, err := source()
		if err != nil || from.Now().Reveal() != "one" {
			t.Fatalf("%s: %v", name, err)
		}
		if err := os.WriteFile(file, []byte("two\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := from.Now().Reveal(); got != "two" {
			t.Errorf("%s: still %q", name, got)
		}
	}
	for name, source := range map[string]func() (*secret.Source, error){
		"dsn": Database{DSN: secret.New("v")}.Source, "password": Instance{Password: secret.New("v")}.Source,
		"sentinel password": Instance{SentinelPassword: secret.New("v")}.SentinelSource, "client secret": OIDC{ClientSecret: secret.New("v")}.Source,
	} {
		if from, err := source(); err != nil || from.Now().Reveal() != "v" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (OIDC{}).SessionSource(); err == nil {
		t.Error("a session key without a file is accepted")
	}
}

// TestMarkerIsInNoFault puts a marker into every key and variable that holds a secret, in
// configurations with faults, and checks that no error shows it.
func TestMarkerIsInNoFault(t *testing.T) {
	const marker = "marker-4711"
	var c Config
	var i Instance
	var environ []string
	for _, s := range c.settings() {
		if s.secret {
			environ = append(environ, variableOf(s.key)+"="+marker)
		}
	}
	for _, s := range i.settings() {
		if s.secret {
			environ = append(environ, variableOf("instances.a."+s.key)+"="+marker)
		}
	}
	if len(environ) < 4 {
		t.Fatalf("only %q hold secrets", environ)
	}
	file := write(t, "secret", marker)
	for _, text := range []string{
		"instances: [{name: a, addrs: [b:1]}]\nlisten: nowhere", "instances: [{name: a, driver: redis, addrs: []}]\ndatabase: {driver: mysql}",
		"instances: [{name: a, driver: redis, addrs: [x:1], password_file: " + file + ", sentinel_password_file: " + file + "}]\n" +
			"oidc: {client_secret_file: " + file + "}\ndatabase: {dsn_file: " + file + ", driver: sqlite}",
		"instances: [{name: a, addrs: [b:1]}]\noidc: {issuer: x}",
	} {
		_, err := load(t, text, environ...)
		if err == nil || strings.Contains(err.Error(), marker) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestMarkerIsInNoFaultOfAnotherKey puts a marker where a secret does not belong, and checks that no
// error shows it: under another key, in a URL, in a section in place of a list, and in invalid YAML.
func TestMarkerIsInNoFaultOfAnotherKey(t *testing.T) {
	const marker = "marker-4711"
	redis := "instances: [{name: a, driver: redis, addrs: [x:1], "
	for text, key := range map[string]string{
		"instances: {name: a, password: " + marker + "}":                                "instances",
		"instances: {a: {password: " + marker + "}}":                                    "instances",
		"instances: [[{password: " + marker + "}]]":                                     "instances[0]",
		"listen: {password: " + marker + "}":                                            "listen",
		"listen: [{password: " + marker + "}]":                                          "listen",
		"database: 'u:" + marker + "@tcp(h:1)/d'":                                       "database",
		"database: {driver: 'u:" + marker + "@tcp(h:1)/d'}":                             "database.driver",
		"database: {dsn_file: 'u:" + marker + "@tcp(h:1)/d'}":                           "database.dsn_file",
		"database: {url: 'u:" + marker + "@tcp(h:1)/d'}":                                "database.url",
		"tracing: {endpoint: 'https//u:" + marker + "@h'}":                              "tracing.endpoint",
		redis + "sentinel_passwords: " + marker + "}]":                                  "instances[0].sentinel_passwords",
		redis + "pasword: " + marker + "}]":                                             "instances[0].pasword",
		redis + "username: {password: " + marker + "}}]":                                "instances[0].username.password",
		redis + "tls: " + marker + "}]\nredis_password: " + marker:                      "redis_password",
		redis + "password: *" + marker + "}]":                                           "unknown anchor (not shown)",
		redis + "password: !!int " + marker + "}]":                                      "must not have a tag",
		"instances: [{name: a, driver: redis, addrs: 'redis://:" + marker + "@h:1'}]":   "instances[0].addrs",
		"instances: [{name: a, driver: redis, addrs: ['redis://:" + marker + "@h:1']}]": "instances[0].addrs",
		marker: "cannot unmarshal",
	} {
		_, err := load(t, text)
		if err == nil || strings.Contains(err.Error(), "marker") || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestMarkerIsInNoConfig checks that a configuration that is printed, encoded, logged or part of a
// panic shows no secret, from the configuration or from a file.
func TestMarkerIsInNoConfig(t *testing.T) {
	const marker = "marker-4711"
	file := write(t, "secret", marker)
	var out bytes.Buffer
	for _, text := range []string{
		"database: {driver: mysql, dsn: u:" + marker + "@tcp(h:1)/d}\ninstances: [{name: a, driver: redis, topology: sentinel, " +
			"master_name: m, addrs: [x:1], password: " + marker + ", sentinel_password: " + marker + "}]\n" +
			"oidc: {client_secret: " + marker + "}",
		"database: {driver: mysql, dsn_file: " + file + "}\ninstances: [{name: a, driver: redis, topology: sentinel, " +
			"master_name: m, addrs: [x:1], password_file: " + file + ", sentinel_password_file: " + file + "}]\n" +
			"oidc: {client_secret_file: " + file + "}",
	} {
		c := mustLoad(t, text)
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			fmt.Fprintf(&out, verb, any(c))
		}
		written, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(written)
		slog.New(slog.NewTextHandler(&out, nil)).Info("started", "config", c, "pointer", &c)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("started", "config", c)
		func() {
			defer func() { fmt.Fprint(&out, recover()) }()
			panic(c)
		}()
		if !strings.Contains(c.Database.DSN.Reveal(), marker) || c.Instances[0].Password.Reveal() != marker ||
			c.Instances[0].SentinelPassword.Reveal() != marker || c.OIDC.ClientSecret.Reveal() != marker {
			t.Error("a secret is not loaded")
		}
	}
	for _, shown := range []string{marker, fmt.Sprintf("%x", marker)} {
		if strings.Contains(out.String(), shown) {
			t.Errorf("the marker is shown as %q", shown)
		}
	}
}
