package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/budgetd/budgetd/client/tlsfiles"
)

// TokenSource returns the key of a call. It is called before every attempt and must be safe for
// concurrent use. If it returns an error nothing is sent.
type TokenSource func(context.Context) (string, error)

// WithTokenSource sends the key from a source with every attempt, so that a rotated key applies at
// once.
func WithTokenSource(source TokenSource) Option { return func(c *Client) { c.token = source } }

// WithToken sends a key with every attempt.
func WithToken(token string) Option {
	return WithTokenSource(func(context.Context) (string, error) { return token, nil })
}

// tokenFileAge is how long a key from a file is used before the file is read again.
const tokenFileAge = time.Second

// WithTokenFile sends the key in a file with every attempt. The file is read again every second, so
// that a key can be rotated without a restart; while it cannot be read the last key is used.
func WithTokenFile(name string) Option {
	file := &tokenFile{name: name}
	return WithTokenSource(file.read)
}

// tokenFile is a key in a file.
type tokenFile struct {
	name string

	mu     sync.Mutex
	token  string
	readAt time.Time
}

func (f *tokenFile) read(context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.token != "" && time.Since(f.readAt) < tokenFileAge {
		return f.token, nil
	}
	text, err := os.ReadFile(f.name)
	token := strings.TrimSpace(string(text))
	if err == nil && token == "" {
		err = errors.New("it is empty")
	}
	f.readAt = time.Now()
	if err != nil {
		if f.token != "" {
			return f.token, nil
		}
		return "", fmt.Errorf("key in %s: %w", f.name, err)
	}
	f.token = token
	return token, nil
}

// authorize writes the key into a request. The error has no part of the key.
func (c *Client) authorize(ctx context.Context, header http.Header) error {
	if c.token == nil {
		return nil
	}
	token, err := c.token(ctx)
	if err != nil {
		return err
	}
	for n := range len(token) {
		if token[n] <= ' ' || token[n] > '~' {
			return errors.New("the key has a character that no key has")
		}
	}
	if token != "" {
		header["Authorization"] = []string{"Bearer " + token}
	}
	return nil
}

// TLSFiles are PEM files for connections to an https server. They are read for every connection, so
// that a certificate can be replaced without a restart.
type TLSFiles struct {
	// CA has the certificate authorities for the server; "" means the system's.
	CA string
	// Cert and Key are the client certificate and its key, for mutual TLS; "" for none.
	Cert, Key string
	// ServerName is the name in the server's certificate; "" means the host of the URL.
	ServerName string
}

// TLSTransport returns a transport for WithTransport that connects with files. TLS 1.2 is the
// minimum, and HTTP/2 is used if the server supports it. It returns an error if a file cannot be
// read or if Cert and Key do not match.
func TLSTransport(files TLSFiles) (*http.Transport, error) {
	c, err := tlsfiles.NewClient(tlsfiles.ClientFiles(files))
	if err != nil {
		return nil, err
	}
	transport := newTransport()
	transport.DialTLSContext = c.DialTLS(&net.Dialer{Timeout: dialTimeout}, "h2", "http/1.1")
	// Through a proxy net/http performs the handshake itself, without these files.
	transport.Proxy = nil
	return transport, nil
}

// newTransport returns the default transport of a Client.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          maxIdleConns,
		MaxIdleConnsPerHost:   maxIdleConns,
		IdleConnTimeout:       idleTimeout,
		TLSHandshakeTimeout:   dialTimeout,
		ExpectContinueTimeout: time.Second,
	}
}
