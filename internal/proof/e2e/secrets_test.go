package e2e

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// certificates returns the settings of client certificates, with a principal for each part of a
// certificate that can be mapped.
func (w *secureWorld) certificates() string {
	return "  client_ca_file: " + w.file("ca.pem") + `
  client_certificates: optional
  principals:
    - {subject: CN=till, principal: by-subject, role: deduct, tenant: shop}
    - {dns: board.shop, principal: by-dns, role: read, tenant: shop}
    - {uri: spiffe://shop/lead, principal: by-uri, role: operator}
    - {email: chief@shop.example, principal: by-email, role: admin, tenant: other}
`
}

// mapped makes calls with certificates and without keys, over HTTP/1.1 and HTTP/2. Each certificate
// must give its principal, and one that is not mapped must be refused. With a key in addition to
// the certificate, only the key counts.
func (w *secureWorld) mapped(t *testing.T, n *node, key string) {
	for _, one := range []struct{ name, principal, role, tenant string }{{"till", "by-subject", "deduct", "shop"},
		{"board", "by-dns", "read", "shop"}, {"lead", "by-uri", "operator", ""}, {"chief", "by-email", "admin", "other"}, {"stranger", "", "", ""}} {
		w.sign(one.name, false)
		for _, protocols := range [][]string{{"http/1.1"}, {"h2"}} {
			transport := w.transport()
			pair, err := tls.LoadX509KeyPair(w.file(one.name+".pem"), w.file(one.name+".key"))
			must(t, err)
			transport.TLSClientConfig.Certificates = []tls.Certificate{pair}
			transport.TLSClientConfig.NextProtos, transport.ForceAttemptHTTP2 = protocols, protocols[0] == "h2"
			t.Cleanup(transport.CloseIdleConnections)
			c, err := client.New("https://"+n.addr, client.WithTransport(transport))
			must(t, err)
			who, err := c.Whoami(t.Context())
			if one.principal == "" {
				if problem(err).Code != budget.Unauthenticated || !strings.Contains(err.Error(), "names no principal") {
					t.Errorf("%s over %s: %+v, %v", one.name, protocols, who, err)
				}
				continue
			}
			if err != nil || who.Principal != one.principal || who.Role != one.role || who.Tenant != one.tenant {
				t.Errorf("%s over %s: %+v, %v", one.name, protocols, who, err)
			}
			_, err = c.Deduct(t.Context(), "sale", client.DeductRequest{RequestID: one.name + protocols[0], Amount: 1})
			if accepted := one.role == "deduct"; accepted != (err == nil) {
				t.Errorf("%s deducts over %s: %v", one.name, protocols, err)
			}
			both, err := client.New("https://"+n.addr, client.WithTransport(transport), client.WithToken(key))
			must(t, err)
			if who, err := both.Whoami(t.Context()); err != nil || who.Principal != "read" {
				t.Errorf("with a key in addition: %+v, %v", who, err)
			}
		}
	}
	out, err := exec.Command(testservers.Program(t, "budgetctl"), "whoami", "--server", "https://"+n.addr, "--ca-file", w.file("ca.pem"),
		"--cert-file", w.file("board.pem"), "--key-file", w.file("board.key")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "by-dns") {
		t.Errorf("budgetctl whoami: %v %s", err, out)
	}
}

// marked begins each secret of the test whose text can be chosen.
const marked = "MARKER-4711-"

// secretFiles returns the settings of parts with secrets other than database, instances and
// listeners, and writes their files.
func (w *secureWorld) secretFiles() string {
	w.t.Helper()
	hooks := w.file("hooks")
	must(w.t, os.MkdirAll(filepath.Join(hooks, "tenants", "shop"), 0o700))
	secret := base64.StdEncoding.EncodeToString([]byte(marked + "of-a-webhook-which-is-long"))
	must(w.t, os.WriteFile(filepath.Join(hooks, "tenants", "shop", "shop"), []byte("whsec_"+secret), 0o600))
	w.write(w.file("client-secret"), marked+"client")
	w.write(w.file("session-key"), marked+"session-key-of-32-bytes-and-more")
	return fmt.Sprintf(`keys: {first_admin_file: %s}
webhooks: {secrets_dir: %s, allow: [127.0.0.0/8]}
oidc:
  issuer: https://127.0.0.1:1
  client_id: budgetd
  client_secret_file: %s
  session_key_file: %s
  redirect_url: https://127.0.0.1/console/callback
  roles: [{group: all, role: read}]
`, w.firstAdmin(), hooks, w.file("client-secret"), w.file("session-key"))
}

// firstAdmin writes a file with a new key and returns its name.
func (w *secureWorld) firstAdmin() string {
	w.t.Helper()
	first, err := exec.Command(testservers.Program(w.t, "budgetctl"), "keys", "generate").Output()
	must(w.t, err)
	w.write(w.file("first-admin"), strings.TrimSpace(string(first)))
	return w.file("first-admin")
}

// inline is a configuration that has every secret in its text, and sentinels that cannot be
// reached.
const inline = `auth: keys
database: {driver: %s, dsn: "%s", connect_timeout: 0s}
instances:
  - name: far
    driver: redis
    topology: sentinel
    master_name: m
    addrs: ["127.0.0.1:1"]
    password: ` + marked + `redis
    sentinel_password: ` + marked + `sentinel
oidc:
  issuer: https://127.0.0.1:1
  client_id: budgetd
  client_secret: ` + marked + `client
  session_key_file: %s
  redirect_url: https://127.0.0.1/console/callback
  roles: [{group: all, role: read}]
tracing: {endpoint: "http://127.0.0.1:1"}
`

// shown searches all output of budgetd for its secrets: the answers of every GET, metrics, logs and
// errors, both before and after its servers refuse it, the output of --check-config, and the stacks
// that a crashing process prints.
func (w *secureWorld) shown(t *testing.T, nodes []*node, root string, keys map[string]string) {
	admin := w.client(nodes[0], root)
	shop := w.client(nodes[0], root, client.WithTenant("shop"))
	_, err := shop.Patch(t.Context(), "busy", client.PatchRequest{Limits: []client.Limit{
		{Name: "ever", Dimension: "user", Optional: true, Window: client.Window{Kind: budget.WindowLifetime}, Max: 1}}})
	must(t, err)
	_, err = shop.CancelSet(t.Context(), "0-0")
	must(t, err)
	hook, err := admin.CreateWebhook(t.Context(), client.WebhookRequest{URL: "https://127.0.0.1:1/", Secret: "shop", Tenant: "shop"})
	must(t, err)
	_, err = admin.TestWebhook(t.Context(), hook.ID)
	must(t, err)
	eventually(t, time.Minute, "the message fails", func() error {
		page, err := admin.Deliveries(t.Context(), hook.ID, 1, "")
		if err == nil && (len(page.Deliveries) == 0 || len(page.Deliveries[0].Attempts) == 0) {
			err = errors.New("no attempt yet")
		}
		return err
	})
	out, err := exec.Command(testservers.Program(t, "budgetd"), "--check-config", "--connect", "--config", w.config).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "config ok") {
		t.Errorf("--check-config --connect: %v %s", err, out)
	}
	said := string(out)
	for _, n := range nodes {
		said += n.log.String()
	}
	for _, text := range []string{"NOPERM", "denied to user"} { // until here everything was permitted
		if at := strings.Index(said, text); at >= 0 {
			t.Errorf("the output has %q: …%s", text, said[max(at-300, 0):min(at+100, len(said))])
		}
	}
	paths := w.paths(hook.ID)
	for _, path := range paths {
		status, text := w.get(t, nodes[0], root, path)
		if strings.HasPrefix(path, "/v1/") && status != 200 {
			t.Errorf("%s: %d %s", path, status, text)
		}
		said += text
	}
	w.acl("ACL", "SETUSER", "budgetd", "off")
	w.acl("CLIENT", "KILL", "USER", "budgetd")
	w.sql("DROP USER budgetd2@'%'", "KILL USER budgetd2")
	for _, n := range nodes {
		eventually(t, time.Minute, "the database and a store refuse it", func() error {
			if log := n.log.String(); !strings.Contains(log, "Access denied") || !strings.Contains(log, "WRONGPASS") {
				return errors.New("not logged")
			}
			return nil
		})
		for _, path := range paths {
			_, text := w.get(t, n, root, path)
			said += text
		}
		must(t, n.cmd.Process.Signal(syscall.SIGQUIT))
		<-n.done
		if said += n.log.String(); !strings.Contains(n.log.String(), "goroutine 1 ") {
			t.Error("no stacks are printed")
		}
	}
	said += w.inline(t)
	w.search(t, said, root, keys)
}

// paths returns the path of every GET, with names of objects that exist.
func (w *secureWorld) paths(hook string) (all []string) {
	fill := strings.NewReplacer("{budget}", "busy", "{name}", "ever", "{id}", hook, "{code}", "invalid", "{file}", "page.js", "{$}", "")
	more := map[string]string{"deduction": "&request_id=0-0", "set": "&request_id=0-0", "usage": "&user=u1", "remaining": "&budget=busy"}
	for _, call := range access.Calls() {
		if call.Method != "GET" {
			continue
		}
		path := fill.Replace(call.Pattern)
		if call.Over == access.Budget || more[call.Op] != "" {
			path += "?tenant=shop" + more[call.Op]
		}
		all = append(all, path)
	}
	return all
}

// get returns a node's answer to a GET with a key. Of a stream it reads the beginning.
func (w *secureWorld) get(t *testing.T, n *node, key, path string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+n.addr+path, http.NoBody)
	must(t, err)
	request.Header.Set("Authorization", "Bearer "+key)
	transport := w.transport()
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(request)
	must(t, err)
	defer answer.Body.Close()
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		begin := make([]byte, 4096)
		size, _ := answer.Body.Read(begin)
		return answer.StatusCode, string(begin[:size])
	}
	all, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer.StatusCode, fmt.Sprint(answer.Header, string(all))
}

// inline runs budgetd with every secret in its configuration, once with a database and once with
// stores that cannot be reached, and returns its output.
func (w *secureWorld) inline(t *testing.T) (said string) {
	dir, session := t.TempDir(), w.file("session-key")
	far := writeConfig(t, fmt.Sprintf(inline, "mysql", "budgetd:"+marked+"dsn@tcp(127.0.0.1:1)/d", session))
	file := w.file("sentinel-password")
	w.write(file, marked+"sentinel")
	text := strings.Replace(inline, "sentinel_password: "+marked+"sentinel", "sentinel_password_file: "+file, 1)
	near := writeConfig(t, fmt.Sprintf(text, "sqlite", filepath.Join(dir, "b.db"), session))
	w.covers(t, text)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Bearer "+marked+"header,authorization="+marked+"header%zz")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://u:"+marked+"header@h:port")
	for _, args := range [][]string{{"--check-config"}, {"--check-config", "--connect"}, {}} {
		out, err := exec.Command(testservers.Program(t, "budgetd"), append(args, "--config", far)...).CombinedOutput()
		if (err == nil) != (len(args) == 1) {
			t.Errorf("%q: %v %s", args, err, out)
		}
		said += string(out)
	}
	n := start(t, dir, "--config", near)
	eventually(t, time.Minute, "the sentinels are tried", func() error {
		if log := n.log.String(); !strings.Contains(log, "127.0.0.1:1: ") || !strings.Contains(log, `problem="parse headers"`) {
			return errors.New("not logged")
		}
		return nil
	})
	must(t, n.cmd.Process.Signal(syscall.SIGQUIT))
	<-n.done
	return said + n.log.String()
}

// covers fails if config.yaml documents a setting for a secret that no configuration of the test
// has.
func (w *secureWorld) covers(t *testing.T, more string) {
	t.Helper()
	documented, err := os.ReadFile("../../../config.yaml")
	must(t, err)
	used, err := os.ReadFile(w.config)
	must(t, err)
	found := regexp.MustCompile(`(?m)^#? +([a-z_]*(?:dsn|password|secret|key_|admin_)[a-z_]*):`).FindAllStringSubmatch(string(documented), -1)
	for _, key := range found {
		if !strings.Contains(string(used)+inline+more, key[1]+": ") {
			t.Errorf("the test has no secret for the setting %s", key[1])
		}
	}
	if len(found) < 12 {
		t.Errorf("config.yaml has secrets only in %q", found)
	}
}

// search fails for each secret that a text contains, as it is or encoded.
func (w *secureWorld) search(t *testing.T, said, root string, keys map[string]string) {
	t.Helper()
	secrets := map[string]string{"a marker": marked, "the first password": "PASSWORD", "the next password": "NEXT-WORD"}
	files, err := filepath.Glob(w.file("*"))
	must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if line := strings.Split(string(text), "\n"); err == nil && strings.HasSuffix(file, ".key") {
			secrets[file] = line[2] // a line within the private key
		}
	}
	first, err := os.ReadFile(w.file("first-admin"))
	must(t, err)
	keys["root"], keys["first"] = root, string(first)
	for name, key := range keys {
		secrets["the key "+name] = key[15:58]
	}
	for name, secret := range secrets {
		for _, form := range []string{secret, hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret))[:len(secret)/3*4]} {
			if at := strings.Index(said, form); at >= 0 {
				t.Errorf("the output contains %s: …%s", name, said[max(at-300, 0):min(at+100, len(said))])
			}
		}
	}
	if !strings.Contains(said, "budgetd_") || !strings.Contains(said, "till-7") || len(secrets) < 12 {
		t.Errorf("the output is incomplete, or there are only %d secrets", len(secrets))
	}
}
