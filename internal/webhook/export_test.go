package webhook

import (
	"context"
	"net/netip"
)

// Permit exports permit for requests with and without TLS.
func Permit(address string, tls bool, allow ...netip.Prefix) error {
	return permit(context.WithValue(context.Background(), plainKey{}, !tls), address, allow)
}
