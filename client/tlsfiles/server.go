package tlsfiles

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// ServerFiles are the files of a listener and its requirements for callers.
type ServerFiles struct {
	// Cert and Key are the certificate chain and its key, in PEM.
	Cert, Key string
	// ClientCA has the authorities for client certificates; "" means that none are requested.
	ClientCA string
	// RequireClient refuses the handshake without a client certificate.
	RequireClient bool
	// MinVersion is the lowest TLS version; 0 means 1.2.
	MinVersion uint16
}

// Server keeps the settings of a listener up to date. It is safe for concurrent use.
type Server struct {
	files   ServerFiles
	current atomic.Pointer[loaded]
}

// loaded is the contents of the files at one time.
type loaded struct {
	print  fingerprint
	config *tls.Config
}

// NewServer reads the files. It returns an error if one cannot be read or they do not match.
func NewServer(files ServerFiles) (*Server, error) {
	s := &Server{files: files}
	if _, err := s.Reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// Config returns the settings for a listener. Every handshake uses the files as last loaded.
func (s *Server) Config() *tls.Config {
	config := s.current.Load().config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return s.current.Load().config, nil
	}
	return config
}

// Reload reads the files and reports whether they changed. If it fails, the previous ones stay in
// use: a file may be half written.
func (s *Server) Reload() (changed bool, err error) {
	texts, err := readAll(s.files.Cert, s.files.Key, s.files.ClientCA)
	if err != nil {
		return false, err
	}
	print := printOf(texts)
	if before := s.current.Load(); before != nil && before.print == print {
		return false, nil
	}
	pair, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return false, fmt.Errorf("certificate %s with key %s: %w", s.files.Cert, s.files.Key, err)
	}
	config := &tls.Config{
		MinVersion:   max(s.files.MinVersion, tls.VersionTLS12),
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{"h2", "http/1.1"},
	}
	if s.files.ClientCA != "" {
		if config.ClientCAs, err = pool(s.files.ClientCA, texts[2]); err != nil {
			return false, err
		}
		config.ClientAuth = tls.VerifyClientCertIfGiven
		if s.files.RequireClient {
			config.ClientAuth = tls.RequireAndVerifyClientCert
		}
	}
	// A new config has new ticket keys, so a session that an earlier client CA allowed is not
	// resumed.
	s.current.Store(&loaded{print, config})
	return true, nil
}

// Expires returns when the certificate in use expires.
func (s *Server) Expires() time.Time {
	return s.current.Load().config.Certificates[0].Leaf.NotAfter
}

// Watch reloads at an interval until ctx ends. It logs each change, and each failure once.
func (s *Server) Watch(ctx context.Context, every time.Duration, log *slog.Logger) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	failed := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		changed, err := s.Reload()
		switch {
		case err != nil && err.Error() != failed:
			failed = err.Error()
			log.Error("the new certificate is not used", "error", err, "expires", s.Expires())
		case err == nil && changed:
			log.Info("certificate reloaded", "expires", s.Expires())
		}
		if err == nil {
			failed = ""
		}
	}
}
