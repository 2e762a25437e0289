package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/client/tlsfiles"
)

const certificate = `-----BEGIN CERTIFICATE-----
MIIBdzCCAR2gAwIBAgIUVwN1FZ4sUa7XAdOEPZ5iTzGCQ0cwCgYIKoZIzj0EAwIw
-----END CERTIFICATE-----
`

func TestAccessSettings(t *testing.T) {
	c := mustLoad(t, `
listen: 0.0.0.0:8080
listeners: {admin: "10.0.0.1:9000", metrics: "[::1]:9100"}
auth: keys
keys: {stale_after: 1m, first_admin_file: /run/admin, rate: 50, burst: 5}
oidc:
  issuer: https://login.example
  client_id: budgetd
  client_secret: marker
  redirect_url: http://localhost:8080/console/callback
  session_key_file: /run/session
  roles:
    - {group: admins, role: admin}
    - {group: shop, role: operator, tenant: shop, budgets: [spring-*, summer]}
audit_log: {keep: 8760h}
`)
	want := Keys{time.Minute, "/run/admin", 50, 5, 10_000, 720 * time.Hour}
	if diff := cmp.Diff(want, c.Keys); diff != "" || c.Auth != ByKeys || c.AuditLog.Keep != 8760*time.Hour ||
		c.Listeners != (Listeners{"10.0.0.1:9000", "[::1]:9100"}) {
		t.Errorf("%s %+v", diff, c)
	}
	roles := []GroupGrant{{Group: "admins", Role: access.Admin}, {Group: "shop", Role: access.Operator,
		Scope: access.Scope{Tenant: "shop", Budgets: []string{"spring-*", "summer"}}}}
	if diff := cmp.Diff(roles, c.OIDC.Roles); diff != "" {
		t.Error(diff)
	}
}

func TestCertificateGrants(t *testing.T) {
	var got []CertificateGrant
	rule := certificateGrants(&got)
	section := func(pairs ...any) map[string]any {
		out := map[string]any{"uri": "spiffe://a/b", "principal": "till", "role": "deduct"}
		for n := 0; n < len(pairs); n += 2 {
			if pairs[n+1] == nil {
				delete(out, pairs[n].(string))
				continue
			}
			out[pairs[n].(string)] = pairs[n+1]
		}
		return out
	}
	if !rule.set([]any{section("tenant", "shop", "budgets", []any{"a*"})}) {
		t.Fatal("refused")
	}
	want := []CertificateGrant{{tlsfiles.Match{Field: tlsfiles.URI, Value: "spiffe://a/b"},
		access.Principal{Name: "till", Role: access.Deduct, Scope: access.Scope{Tenant: "shop", Budgets: []string{"a*"}}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, wrong := range map[string]any{
		"no list": section(), "no section": []any{"till"}, "no match": []any{section("uri", nil)},
		"two matches": []any{section("dns", "till")}, "no principal": []any{section("principal", nil)},
		"an unknown role": []any{section("role", "root")}, "no role": []any{section("role", nil)},
		"an invalid tenant": []any{section("tenant", "A")}, "an empty tenant": []any{section("tenant", "")},
		"no pattern": []any{section("budgets", []any{})}, "patterns as a text": []any{section("budgets", "a*")},
		"an invalid pattern": []any{section("budgets", []any{"a?"})}, "a number": []any{section("principal", 1)},
		"an unknown key": []any{section("groups", "x")}, "a delegate": []any{section("role", "delegate")}, "a wrong second grant": []any{section(), section("role", nil)},
	} {
		if rule.set(wrong) {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestAccessFaults(t *testing.T) {
	cert := write(t, "cert", certificate)
	for _, c := range []struct{ name, file, key, want string }{
		{"auth", "auth: maybe", "auth", "loopback, keys or none"},
		{"stale", "keys: {stale_after: 0s}", "keys.stale_after", "1s to 1h"},
		{"listener", "listeners: {admin: here}", "listeners.admin", "or empty"},
		{"version", "tls: {min_version: '1.1'}", "tls.min_version", "1.2 or 1.3"},
		{"half a pair", "tls: {cert_file: /a}", "tls.cert_file", "together"},
		{"no certificate", "tls: {cert_file: " + cert + ", key_file: /nowhere}", "tls", "/nowhere"},
		{"clients without TLS", "tls: {client_certificates: required}", "tls.client_certificates", "without tls.cert_file"},
		{"principals without clients", "tls: {principals: [{dns: a, principal: a, role: read}]}", "tls.principals", "must be empty"},
		{"principals", "tls: {principals: [{dns: a}]}", "tls.principals", "spiffe://"},
		{"groups", "oidc: {roles: [admins]}", "oidc.roles", "group, role"},
		{"log-in without keys", "oidc: {issuer: 'https://a', client_id: a, redirect_url: 'https://b', session_key_file: /k, roles: [{group: a, role: read}]}",
			"oidc.issuer", "unless auth is keys"},
		{"issuer in the clear", "auth: keys\noidc: {issuer: 'http://a', client_id: a, redirect_url: 'https://b', session_key_file: /k, roles: [{group: a, role: read}]}",
			"oidc.issuer", "https"},
		{"log-in without roles", "auth: keys\noidc: {issuer: 'https://a', client_id: a, redirect_url: 'https://b', session_key_file: /k}",
			"oidc.roles", "at least one"},
		{"two client secrets", "oidc: {client_secret: a, client_secret_file: b}", "oidc.client_secret_file", "beside"},
		{"encrypted sqlite", "database: {tls: {enabled: true}}", "database.tls.enabled", "driver mysql"},
		{"database's authority", "database: {driver: mysql, dsn: 'a@tcp(b)/c', tls: {enabled: true, ca_file: /nowhere}}", "database.tls", "/nowhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, c.file)
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

func TestExposure(t *testing.T) {
	encrypted := func(c Config) Config {
		c.TLS.CertFile = "cert"
		return c
	}
	for _, test := range []struct {
		name     string
		given    Config
		insecure bool
		faults   string // the keys at fault
		warnings int
	}{
		{"the default", Config{Auth: Loopback, Listen: "127.0.0.1:8080"}, false, "", 0},
		{"by name", Config{Auth: Loopback, Listen: "LocalHost:0"}, false, "", 0},
		{"IPv6", Config{Auth: Loopback, Listen: "[::1]:80"}, false, "", 0},
		{"another loopback address", Config{Auth: Loopback, Listen: "127.9.9.9:80"}, false, "", 0},
		{"all interfaces", Config{Auth: Loopback, Listen: ":8080"}, false, "listen", 0},
		{"all interfaces, IPv6", Config{Auth: Loopback, Listen: "[::]:8080"}, false, "listen", 0},
		{"the flag alone", Config{Auth: Loopback, Listen: "0.0.0.0:8080"}, true, "listen", 0},
		{"auth none without the flag", Config{Auth: NoAuth, Listen: "10.0.0.1:1"}, false, "listen", 0},
		{"auth none with the flag", Config{Auth: NoAuth, Listen: "10.0.0.1:1"}, true, "", 1},
		{"auth none on loopback", Config{Auth: NoAuth, Listen: "127.0.0.1:1"}, false, "", 0},
		{"a name that begins with localhost", Config{Auth: Loopback, Listen: "localhost.example:1"}, false, "listen", 0},
		{"the other listeners", Config{Auth: Loopback, Listen: "127.0.0.1:1", Listeners: Listeners{":2", ":3"}}, false,
			"listeners.admin listeners.metrics", 0},
		{"keys in the clear", Config{Auth: ByKeys, Listen: ":1"}, false, "", 1},
		{"keys, encrypted", encrypted(Config{Auth: ByKeys, Listen: ":1"}), false, "", 0},
	} {
		faults, warnings := test.given.Exposure(test.insecure)
		var keys []string
		for _, fault := range faults {
			keys = append(keys, fault.Key)
		}
		if strings.Join(keys, " ") != test.faults || len(warnings) != test.warnings {
			t.Errorf("%s: %v, %q", test.name, faults, warnings)
		}
	}
}
