package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// authority signs certificates and keeps them in a directory.
type authority struct {
	t      *testing.T
	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	must(t, os.Chmod(a.dir, 0o755)) // mariadbd may run as another user
	a.sign("ca", true)
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// sign writes NAME.pem and NAME.key, for a server on 127.0.0.1 and for a client. It replaces
// existing files by a rename, as Kubernetes does.
func (a *authority) sign(name string, isCA bool) {
	a.t.Helper()
	a.serial++
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: isCA,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost", name + ".shop"},
		URIs: []*url.URL{{Scheme: "spiffe", Host: "shop", Path: "/" + name}}, EmailAddresses: []string{name + "@shop.example"}}
	parent, by := template, key
	if a.cert != nil {
		parent, by = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	must(a.t, err)
	if a.cert == nil {
		a.key = key
		a.cert, err = x509.ParseCertificate(der)
		must(a.t, err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(a.t, err)
	for file, block := range map[string]*pem.Block{name + ".key": {Type: "PRIVATE KEY", Bytes: private},
		name + ".pem": {Type: "CERTIFICATE", Bytes: der}} {
		must(a.t, os.WriteFile(a.file(file+".new"), pem.EncodeToMemory(block), 0o644))
		must(a.t, os.Rename(a.file(file+".new"), a.file(file)))
	}
}

// settings returns the settings of an encrypted connection, indented for their section.
func (a *authority) settings(indent string) string {
	return fmt.Sprintf("%[1]stls:\n%[1]s  enabled: true\n%[1]s  ca_file: %[2]s\n%[1]s  cert_file: %[3]s\n%[1]s  key_file: %[4]s\n",
		indent, a.file("ca.pem"), a.file("budgetd.pem"), a.file("budgetd.key"))
}

// secureWorld is MariaDB and three Redis that require client certificates and have only the users
// of docs/OPERATIONS.md, and a configuration for nodes that use them.
type secureWorld struct {
	*authority
	t                     *testing.T
	maria                 *testservers.MariaDBServer
	redis                 []*testservers.RedisServer
	config, dsn, password string
	base                  string // the DSN without user and password
}

func newSecureWorld(t *testing.T) *secureWorld {
	t.Helper()
	a := newAuthority(t)
	for _, name := range []string{"server", "budgetd"} {
		a.sign(name, false)
	}
	w := &secureWorld{authority: a, t: t, dsn: a.file("dsn"), password: a.file("password")}
	w.maria = testservers.MariaDB(t, testservers.MariaDBArgs("--ssl-ca="+a.file("ca.pem"),
		"--ssl-cert="+a.file("server.pem"), "--ssl-key="+a.file("server.key")))
	w.base = "@tcp(" + w.maria.Addr() + ")/budgetd"
	w.sql("CREATE DATABASE budgetd")
	w.user("budgetd", "PASSWORD")
	w.write(w.dsn, "budgetd:PASSWORD"+w.base)
	w.write(w.password, "PASSWORD")
	text := fmt.Sprintf("auth: keys\ntls:\n  cert_file: %s\n  key_file: %s\n%s%sdatabase:\n  driver: mysql\n"+
		"  dsn_file: %s\n%sinstances:\n", a.file("node.pem"), a.file("node.key"), w.certificates(), w.secretFiles(), w.dsn,
		a.settings("  "))
	a.sign("node", false)
	rules := documentedACL(t)
	for i := range 3 {
		port := freePort(t)
		w.redis = append(w.redis, testservers.Redis(t, testservers.AppendOnly("always"),
			testservers.RedisArgs(append([]string{"--tls-port", fmt.Sprint(port), "--tls-cert-file", a.file("server.pem"),
				"--tls-key-file", a.file("server.key"), "--tls-ca-cert-file", a.file("ca.pem"),
				"--tls-auth-clients", "yes", "--user"}, rules...)...)))
		text += fmt.Sprintf("  - name: redis-%d\n    driver: redis\n    addrs: [\"127.0.0.1:%d\"]\n    username: budgetd\n"+
			"    password_file: %s\n%s", i, port, w.password, a.settings("    "))
	}
	w.config = writeConfig(t, text)
	return w
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// write replaces a file by a rename.
func (w *secureWorld) write(file, text string) {
	w.t.Helper()
	must(w.t, os.WriteFile(file+".new", []byte(text+"\n"), 0o600))
	must(w.t, os.Rename(file+".new", file))
}

// sql runs statements as the administrator of the database.
func (w *secureWorld) sql(statements ...string) {
	w.t.Helper()
	w.maria.Execute(w.t, statements...)
}

// user creates a database user with the grants of docs/OPERATIONS.md.
func (w *secureWorld) user(name, password string) {
	w.t.Helper()
	text, err := os.ReadFile("../../../docs/OPERATIONS.md")
	must(w.t, err)
	n := 0
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "CREATE USER ") || strings.HasPrefix(line, "GRANT ") {
			line = strings.NewReplacer("budgetd@", name+"@", "PASSWORD", password, ";", "").Replace(line)
			w.sql(line)
			n++
		}
	}
	if n != 2 {
		w.t.Fatalf("docs/OPERATIONS.md has %d statements that create a user", n)
	}
}

// acl runs an ACL command on every Redis, as its administrator.
func (w *secureWorld) acl(args ...string) {
	w.t.Helper()
	for _, r := range w.redis {
		out, err := exec.Command("redis-cli", append([]string{"-p", fmt.Sprint(r.Port())}, args...)...).CombinedOutput()
		if err != nil || bytes.Contains(out, []byte("ERR")) {
			w.t.Fatalf("%v: %v %s", args, err, out)
		}
	}
}

// transport connects to nodes over TLS.
func (w *secureWorld) transport() *http.Transport {
	pool := x509.NewCertPool()
	pool.AddCert(w.cert)
	return &http.Transport{MaxIdleConnsPerHost: 64, TLSClientConfig: &tls.Config{RootCAs: pool}}
}

// client returns a client of a node with a key.
func (w *secureWorld) client(n *node, token string, options ...client.Option) *client.Client {
	w.t.Helper()
	c, err := client.New("https://"+n.addr, append(options, client.WithTransport(w.transport()), client.WithToken(token))...)
	must(w.t, err)
	return c
}

// start starts a node and waits until it is ready.
func (w *secureWorld) start() *node {
	w.t.Helper()
	n := launch(w.t, w.t.TempDir(), "--config", w.config)
	eventually(w.t, 2*time.Minute, "budgetd is ready", func() error {
		select {
		case <-n.done:
			w.t.Fatalf("budgetd ended: %v\n%s", n.err, n.log.String())
		default:
		}
		m := listening.FindStringSubmatch(n.log.String())
		if m == nil {
			return fmt.Errorf("not listening yet")
		}
		n.addr = m[1]
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		return w.client(n, "").Readyz(ctx)
	})
	return n
}

// bootstrap creates the first administrator's key. A second attempt must fail.
func (w *secureWorld) bootstrap() string {
	w.t.Helper()
	out, err := exec.Command(testservers.Program(w.t, "budgetd"), "keys", "bootstrap", "--config", w.config).Output()
	must(w.t, err)
	again, err := exec.Command(testservers.Program(w.t, "budgetd"), "keys", "bootstrap", "--config", w.config).Output()
	if err == nil || len(again) > 0 {
		w.t.Errorf("a second bootstrap created a key: %s", again)
	}
	return strings.TrimSpace(string(out))
}
