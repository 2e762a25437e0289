package tlsfiles

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signs certificates for one test.
type authority struct {
	t      testing.TB
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	pem    []byte
	serial int64
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{t: t, serial: 1}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.key = newKey(t)
	a.cert, a.pem = sign(t, template, template, &a.key.PublicKey, a.key)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, public *ecdsa.PublicKey,
	by *ecdsa.PrivateKey) (*x509.Certificate, []byte) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// issue returns a certificate and its key, in PEM, for a server and a client named name.
func (a *authority) issue(name string) (cert, key []byte) {
	a.t.Helper()
	a.serial++
	private := newKey(a.t)
	spiffe := &url.URL{Scheme: "spiffe", Host: "shop", Path: "/" + name}
	_, cert = sign(a.t, &x509.Certificate{SerialNumber: big.NewInt(a.serial),
		Subject:   pkix.Name{CommonName: name, Organization: []string{"Shop"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{name, "localhost"}, EmailAddresses: []string{name + "@shop.example"},
		URIs: []*url.URL{spiffe}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, &private.PublicKey, a.key)
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// folder holds files as Kubernetes mounts a secret: names are links into ..data, which is a link to
// a folder of one version.
type folder struct {
	t       testing.TB
	path    string
	version int
}

func newFolder(t testing.TB) *folder { return &folder{t: t, path: t.TempDir()} }

// swap replaces all files atomically.
func (f *folder) swap(files map[string][]byte) {
	f.t.Helper()
	f.version++
	dir, err := os.MkdirTemp(f.path, "..version")
	if err != nil {
		f.t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			f.t.Fatal(err)
		}
		link := f.file(name)
		if _, err := os.Lstat(link); err != nil {
			if err := os.Symlink(filepath.Join("..data", name), link); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	next := filepath.Join(f.path, "..data_tmp")
	if err := os.Symlink(filepath.Base(dir), next); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(f.path, "..data")); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) file(name string) string { return filepath.Join(f.path, name) }

// issued returns the files of one version.
func (a *authority) issued(name string) map[string][]byte {
	cert, key := a.issue(name)
	return map[string][]byte{"cert": cert, "key": key, "ca": a.pem}
}
