package webhook

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// unicast is all of IPv6 that is allocated to the internet (RFC 4291, 2.4). What lies outside of it
// is local, reserved, or embeds an IPv4 address.
var unicast = netip.MustParsePrefix("2000::/3")

// forbidden lists networks that are not defined as private but lead to no receiver on the internet
// (RFC 6890, RFC 9637), or that embed an IPv4 address in an IPv6 one.
var forbidden = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("3fff::/20"),
}

// isPublic reports whether an address is on the public internet: not private, loopback, link-local,
// multicast or reserved.
func isPublic(ip netip.Addr) bool {
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && (ip.Is4() || unicast.Contains(ip)) &&
		!slices.ContainsFunc(forbidden, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// plainKey is the context key of a request without TLS.
type plainKey struct{}

// permit checks the address to which a name was resolved, just before connecting to it. So every
// attempt checks where the name leads at that time.
func permit(ctx context.Context, address string, allow []netip.Prefix) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is not an address", address)
	}
	ip := at.Addr().Unmap().WithZone("")
	plain, _ := ctx.Value(plainKey{}).(bool)
	switch {
	case slices.ContainsFunc(allow, func(p netip.Prefix) bool { return p.Contains(ip) }):
		return nil
	case !isPublic(ip):
		return problem{"its address is not public: webhooks.allow can allow it",
			ip.String() + " is not a public address: webhooks.allow can allow it"}
	case plain:
		return problem{"a message would be unencrypted: use https, or allow it in webhooks.allow",
			"a message to " + ip.String() + " would be unencrypted: " +
				"use https, or allow it in webhooks.allow"}
	}
	return nil
}

// Reachable returns an error for a URL to which no message can ever be sent: its host is an address
// that is neither public nor allowed, or would get the message unencrypted. Where a name leads is
// checked at each attempt.
func Reachable(target string, allow []netip.Prefix) error {
	u, err := url.Parse(target)
	if err != nil {
		return nil //nolint:nilerr // it is refused elsewhere
	}
	host := u.Hostname()
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return nil //nolint:nilerr // a name
	}
	ctx := context.Background()
	if u.Scheme == "http" {
		ctx = context.WithValue(ctx, plainKey{}, true)
	}
	return permit(ctx, netip.AddrPortFrom(ip, 443).String(), allow)
}

// maxHeader bounds the header of an answer, in bytes.
const maxHeader = 16 << 10

// newClient returns a client that connects only to permitted addresses, follows no redirects, uses
// no proxy, and keeps no connections, so that every attempt is checked.
func newClient(allow []netip.Prefix, timeout time.Duration) *http.Client {
	dialer := &net.Dialer{Timeout: timeout, ControlContext: func(ctx context.Context, _ string,
		address string, _ syscall.RawConn) error {
		return permit(ctx, address, allow)
	}}
	return &http.Client{Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{Proxy: nil, DialContext: dialer.DialContext,
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
			TLSHandshakeTimeout: timeout, ResponseHeaderTimeout: timeout}}
}
