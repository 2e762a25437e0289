package front

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"time"
)

// ServeTLS is Serve for TLS connections. The configuration needs a certificate. Connections that
// negotiate HTTP/2 are net/http's.
func (s *Server) ServeTLS(listener net.Listener, config *tls.Config) error {
	config = config.Clone()
	for _, name := range []string{"http/1.1", "h2"} {
		if !slices.Contains(config.NextProtos, name) {
			config.NextProtos = append([]string{name}, config.NextProtos...)
		}
	}
	return s.accept(listener, func(connection net.Conn) { s.shake(tls.Server(connection, config)) })
}

// shake does the handshake and serves the connection.
func (s *Server) shake(connection *tls.Conn) {
	err := connection.SetDeadline(time.Now().Add(s.limits.HeaderTimeout))
	if err == nil {
		err = connection.HandshakeContext(context.Background())
	}
	if err == nil {
		err = connection.SetDeadline(time.Time{})
	}
	if err != nil {
		s.explain(err)
		connection.Close()
		return
	}
	state := connection.ConnectionState()
	if state.NegotiatedProtocol == "h2" {
		if !s.handed.give(connection) {
			connection.Close()
		}
		return
	}
	if c := s.adopt(connection); c != nil {
		c.request.TLS = &state
		c.run()
	}
}

// explain tells a caller that speaks HTTP without TLS what is wrong, in net/http's words.
func (s *Server) explain(err error) {
	var header tls.RecordHeaderError
	if !errors.As(err, &header) || header.Conn == nil {
		return
	}
	switch string(header.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		_, _ = io.WriteString(header.Conn,
			"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
	}
}

// ConnectionState returns the TLS state of a connection that net/http serves over HTTP/1.1, or nil
// without TLS. It is for net/http's ConnContext, because such requests do not carry the state.
func ConnectionState(connection net.Conn) *tls.ConnectionState {
	if c, ok := connection.(*conn); ok {
		return c.request.TLS
	}
	return nil
}
