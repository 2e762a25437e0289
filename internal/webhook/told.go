package webhook

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// problem is an error with another text for tenants.
type problem struct{ told, full string }

func (p problem) Error() string { return p.full }

// Told returns what a tenant is told about an error of Send. It has no path, no name of a file and
// no address that the tenant did not write. The log has the whole error.
func Told(err error) string {
	var known problem
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var wait net.Error
	switch {
	case errors.As(err, &known):
		return known.told
	case errors.As(err, &name):
		return "the name of its host cannot be resolved"
	case errors.As(err, &certificate):
		return "its certificate is not valid"
	case errors.As(err, &wait) && wait.Timeout():
		return "it did not answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "it refused the connection"
	}
	return "it gave no valid answer"
}
