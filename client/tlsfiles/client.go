package tlsfiles

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
)

// ClientFiles are the files of a connecting client.
type ClientFiles struct {
	// CA has the certificate authorities for the server, in PEM; "" means the system's.
	CA string
	// Cert and Key are this client's certificate chain and key, in PEM; "" for none.
	Cert, Key string
	// ServerName is the name in the server's certificate; "" means the host of the connection.
	ServerName string
}

// Client provides the settings of outgoing connections. It is safe for concurrent use.
type Client struct {
	files ClientFiles

	mu      sync.Mutex
	current loaded
}

// NewClient reads the files. It returns an error if one cannot be read, holds no certificate, or if
// Cert and Key do not match.
func NewClient(files ClientFiles) (*Client, error) {
	if (files.Cert == "") != (files.Key == "") {
		return nil, errors.New("a client certificate and its key go together")
	}
	c := &Client{files: files}
	if err := c.reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// Config returns the settings for one connection from the present files. Without a ServerName the
// caller sets it to the host. While the files cannot be read, the previous ones are used: they may
// be in the middle of a replacement, and the server decides.
func (c *Client) Config() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The error is not lost: if the files are too old, the handshake fails with the server's
	// reason.
	_ = c.reload() //nolint:errcheck // see above
	return c.current.config.Clone()
}

// DialTLS connects and performs the handshake; it serves as http.Transport.DialTLSContext.
// protocols are those to offer, such as h2.
func (c *Client) DialTLS(dialer *net.Dialer, protocols ...string,
) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		config := c.Config()
		config.NextProtos = protocols
		return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, network, addr)
	}
}

func (c *Client) reload() error {
	texts, err := readAll(c.files.CA, c.files.Cert, c.files.Key)
	if err != nil {
		return err
	}
	print := printOf(texts)
	if c.current.config != nil && c.current.print == print {
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.files.ServerName}
	if c.files.CA != "" {
		if config.RootCAs, err = pool(c.files.CA, texts[0]); err != nil {
			return err
		}
	}
	if c.files.Cert != "" {
		pair, err := tls.X509KeyPair(texts[1], texts[2])
		if err != nil {
			return fmt.Errorf("certificate %s with key %s: %w", c.files.Cert, c.files.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	c.current = loaded{print, config}
	return nil
}

// readAll reads files; "" reads nothing.
func readAll(names ...string) ([][]byte, error) {
	texts := make([][]byte, len(names))
	for n, name := range names {
		if name == "" {
			continue
		}
		text, err := readFile(name)
		if err != nil {
			return nil, err
		}
		texts[n] = bytes.TrimSpace(text)
	}
	return texts, nil
}
