package auth

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client/tlsfiles"
	"github.com/budgetd/budgetd/internal/ratelimit"
)

// Certificate maps a client certificate to a principal.
type Certificate struct {
	Match     tlsfiles.Match
	Principal access.Principal
}

// Sessions authenticates sessions of the console. oidc.Login implements it.
type Sessions interface {
	// Authenticate returns the principal of a request's session, or nil.
	Authenticate(w http.ResponseWriter, r *http.Request) *access.Principal
}

// Service admits requests. Its fields must be set before the first request. It is safe for
// concurrent use.
type Service struct {
	// Open requires no authentication: every caller is access.Anonymous.
	Open bool
	// Loopback, with Open, refuses requests whose Host is not this machine (DNS rebinding).
	Loopback bool
	// Book holds the keys.
	Book *access.Book
	// Certificates maps client certificates to principals; the first match applies.
	Certificates []Certificate
	// Sessions authenticates console sessions; nil disables them.
	Sessions Sessions
	// Limiter bounds the requests of each key or principal; nil means no bound.
	Limiter *ratelimit.Limiter
	// Refusals counts refused authentications for the audit log.
	Refusals *auditlog.Refusals
	Now      func() time.Time

	crossOrigin http.CrossOriginProtection
	// local caches the last Host that named this machine. Most requests have the same one.
	local atomic.Pointer[string]
}

// Caller is what a request reveals about its sender.
type Caller struct {
	// Authorization is the header of that name, or "" if it occurs several times. Authorized
	// reports whether it occurs. Authorization and Host need to be valid only during the call:
	// the service copies what it keeps.
	Authorization string
	Authorized    bool
	// Host is the header of that name.
	Host string
	// Foreign means that a page of another site made a browser send the request. Only a key
	// proves such a caller: a browser adds certificates and cookies on its own, and may run on
	// this machine.
	Foreign bool
	// TLS is the state of the connection; nil without TLS.
	TLS *tls.ConnectionState
	// Remote is the other end of the connection.
	Remote net.Addr
	// Session returns the principal of the request's session, or nil without one. The field is nil
	// if sessions are disabled.
	Session func() *access.Principal
}

// CallerOf returns the Caller of a request.
func (g *Service) CallerOf(w http.ResponseWriter, r *http.Request) *Caller {
	sent, there := r.Header["Authorization"]
	c := &Caller{Authorized: there, Host: r.Host, TLS: r.TLS, Remote: remote(r.RemoteAddr),
		Foreign: g.crossOrigin.Check(r) != nil}
	if len(sent) == 1 {
		c.Authorization = sent[0]
	}
	if g.Sessions != nil {
		c.Session = func() *access.Principal { return g.Sessions.Authenticate(w, r) }
	}
	return c
}

// Remote returns the other end of a request's connection.
func Remote(r *http.Request) net.Addr { return remote(r.RemoteAddr) }

// remote is an address in net/http's form.
type remote string

func (remote) Network() string  { return "tcp" }
func (r remote) String() string { return string(r) }

const bearer = "Bearer "

// Identify returns the principal of a request, or an error if the caller is refused. It does not
// check the role; see Permit. A call that is open to all has no principal. Errors: forbidden, on a
// server without authentication; otherwise, in this order, unauthenticated, unavailable (keys
// cannot be checked) and rate_limited. With a key it allocates nothing.
func (g *Service) Identify(c *Caller, call *access.Call) (*access.Principal, error) {
	if call.Over == access.Nobody {
		if c.Foreign { // it would log a person out
			return nil, budget.Refuse(budget.Forbidden, call.Op, "a page of another site cannot do this")
		}
		return nil, nil
	}
	if g.Open {
		return g.open(c, call)
	}
	now := g.Now()
	p, keyID, reason := g.authenticate(c, now)
	if reason != access.Accepted {
		return nil, g.refuse(c, call, now, keyID, reason)
	}
	if wait, ok := g.Limiter.Allow(callerOf(p), now); !ok {
		return nil, &budget.Error{Code: budget.RateLimited, Op: call.Op, RetryAfter: wait,
			Message: "the key makes more requests than it may; nothing was done"}
	}
	return p, nil
}

// Admits reports whether Identify and Permit would let a caller make a call. It counts neither the
// request nor a refusal.
func (g *Service) Admits(c *Caller, call *access.Call) bool {
	if g.Open {
		_, err := g.open(c, call)
		return err == nil
	}
	p, _, reason := g.authenticate(c, g.Now())
	return reason == access.Accepted && p.Permits(call)
}

// open returns the principal of a caller of a server without authentication. Error: forbidden.
func (g *Service) open(c *Caller, call *access.Call) (*access.Principal, error) {
	if g.Loopback && !g.isLocal(c.Host) {
		return nil, budget.Refuse(budget.Forbidden, call.Op,
			"without authentication only requests to this machine are served, not to %.100q", c.Host)
	}
	if c.Foreign {
		return nil, budget.Refuse(budget.Forbidden, call.Op,
			"without authentication a page of another site cannot change anything")
	}
	return access.Anonymous, nil
}

// Permit returns forbidden for a principal whose role is below a call's lowest one.
func Permit(p *access.Principal, call *access.Call) error {
	if !p.Permits(call) {
		return forbidden(p, call, call.Least)
	}
	return nil
}

// isLocal returns what ratelimit.ToLoopback does, with a cache of one host.
func (g *Service) isLocal(host string) bool {
	if known := g.local.Load(); known != nil && *known == host {
		return true
	}
	if !ratelimit.ToLoopback(host) {
		return false
	}
	host = strings.Clone(host)
	g.local.Store(&host)
	return true
}

// authenticate authenticates a request by a key, else by a certificate, else by a session. If one
// that is present is refused, the others are not tried. keyID is the id of a refused key, for
// the audit log.
func (g *Service) authenticate(c *Caller, now time.Time) (
	p *access.Principal, keyID string, reason access.Reason) {
	if c.Authorized {
		sent := c.Authorization
		if len(sent) < len(bearer) || !strings.EqualFold(sent[:len(bearer)], bearer) {
			return nil, "", access.Malformed
		}
		text := sent[len(bearer):]
		p, reason = g.Book.Authenticate(text, now.UnixMilli())
		// The id of an unknown key would be a caller's invention.
		if reason != access.Accepted && reason != access.Unknown {
			token, _ := access.ParseToken(text)
			keyID = strings.Clone(token.ID())
		}
		return p, keyID, reason
	}
	if c.Foreign { // the browser would add its certificate and cookies for any page
		return nil, "", access.Missing
	}
	if certificate := tlsfiles.Verified(c.TLS); certificate != nil {
		p, reason = g.holderOf(certificate)
		return p, "", reason
	}
	if c.Session != nil {
		if p := c.Session(); p != nil {
			return p, "", access.Accepted
		}
	}
	return nil, "", access.Missing
}

func (g *Service) holderOf(certificate *x509.Certificate) (*access.Principal, access.Reason) {
	for n := range g.Certificates {
		if g.Certificates[n].Match.Fits(certificate) {
			return &g.Certificates[n].Principal, access.Accepted
		}
	}
	return nil, access.Unmapped
}

// refuse returns the error for a reason and counts the refusal. Stale keys are not counted, because
// the caller is not at fault.
func (g *Service) refuse(c *Caller, call *access.Call, now time.Time, keyID string,
	reason access.Reason) error {
	if reason == access.Stale {
		return &budget.Error{Code: budget.Unavailable, Op: call.Op, Message: reason.Message(),
			Reason: budget.ReasonDatabaseDown, RetryAfter: time.Second}
	}
	g.Refusals.Add(now.UnixMilli(), keyID, SourceOf(c.Remote), call.Op, string(reason))
	return &budget.Error{Code: budget.Unauthenticated, Op: call.Op, Message: reason.Message()}
}

// Judge returns nil if an admitted principal may make a call on a target. notFound returns the
// answer for a missing target, which also answers for one outside the principal's scope. Errors:
// forbidden; notFound's.
func Judge(p *access.Principal, call access.Call, t access.Target, notFound func() error) error {
	switch p.May(call, t) {
	case access.Allowed:
		return nil
	case access.Hidden:
		return notFound()
	}
	least := call.Least
	if t.More && call.More != 0 {
		least = call.More
	}
	return forbidden(p, &call, least)
}

func forbidden(p *access.Principal, call *access.Call, least access.Role) error {
	switch {
	case p != nil && p.Role == access.Delegate:
		return budget.Refuse(budget.Forbidden, call.Op,
			"a delegate carves, spends, appends, closes and reads within its subtree, and nothing else")
	case p == nil || !p.Role.Includes(least):
		return budget.Refuse(budget.Forbidden, call.Op, "the call needs the role %s", least)
	case call.Over == access.Installation:
		return budget.Refuse(budget.Forbidden, call.Op,
			"the call needs a key for all tenants and budgets")
	default:
		return budget.Refuse(budget.Forbidden, call.Op,
			"the target is outside the tenant or the budgets of the key")
	}
}

// callerOf returns the key under which a principal's requests are counted.
func callerOf(p *access.Principal) string {
	if p.KeyID != "" {
		return p.KeyID
	}
	return p.Name
}

// SourceOf returns the address of a request's sender, without its port: that of the last proxy,
// because a caller can forge what a proxy writes into headers.
func SourceOf(addr net.Addr) string {
	if addr == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	return host
}
