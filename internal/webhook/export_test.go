package webhook

import (
	"context"
	"net/netip"
)

// Permit judges an address, of a request with TLS or a plain one.
func Permit(address string, tls bool, allow ...netip.Prefix) error {
	return permit(context.WithValue(context.Background(), plainKey{}, !tls), address, allow)
}
