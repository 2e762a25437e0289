package guard

import (
	"crypto/x509"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/edge"
	"github.com/budgetd/budgetd/internal/tlsfiles"
	"github.com/budgetd/budgetd/trail"
)

// Certificate makes the holder of a client certificate a principal.
type Certificate struct {
	Match     tlsfiles.Match
	Principal access.Principal
}

// Sessions knows the sessions of the console; oidc.Login does.
type Sessions interface {
	// Authenticate returns who a request's session stands for, nil for nobody.
	Authenticate(w http.ResponseWriter, r *http.Request) *access.Principal
}

// Guard admits requests. Its fields are set before the first one; it is safe for concurrent use.
type Guard struct {
	// Open authenticates nobody: every caller is access.Anonymous.
	Open bool
	// Loopback, with Open, refuses requests whose Host is not this machine: DNS rebinding.
	Loopback bool
	// Book has the keys.
	Book *access.Book
	// Certificates says who comes with which client certificate; the first that fits counts.
	Certificates []Certificate
	// Sessions knows the sessions of the console; nil: there are none.
	Sessions Sessions
	// Limiter bounds the requests of each key or principal; nil: it does not.
	Limiter *edge.Limiter
	// Refusals counts refused authentications for the audit log.
	Refusals *trail.Refusals
	Now      func() time.Time

	crossOrigin http.CrossOriginProtection
}

const bearer = "Bearer "

// Admit returns who makes a request, and refuses whom the call is not for. A call that is open to
// everybody has no principal, nil. Errors, in this order: unauthenticated; unavailable (keys cannot
// be checked); rate_limited; forbidden.
func (g *Guard) Admit(w http.ResponseWriter, r *http.Request, call access.Call) (*access.Principal, error) {
	if call.Over == access.Nobody {
		return nil, nil
	}
	if g.Open {
		if g.Loopback && !edge.ToLoopback(r.Host) {
			return nil, budget.Refuse(access.CodeForbidden, call.Op,
				"without authentication only requests to this machine are served, not to %.100q", r.Host)
		}
		return access.Anonymous, nil
	}
	now := g.Now()
	p, keyID, reason := g.authenticate(w, r, now)
	if reason != access.Accepted {
		return nil, g.refuse(r, call, now, keyID, reason)
	}
	if wait, ok := g.Limiter.Allow(callerOf(p), now); !ok {
		return nil, &budget.Error{Code: access.CodeRateLimited, Op: call.Op, RetryAfter: wait,
			Message: "there are more requests with this key than it may make; nothing was done"}
	}
	if !p.Role.Includes(call.Least) {
		return nil, forbidden(p, call, call.Least)
	}
	return p, nil
}

// authenticate finds who makes a request. A key counts before a certificate, a certificate before a
// session; one that is refused is not passed over. keyID is the id of a refused key, for the audit
// log.
func (g *Guard) authenticate(w http.ResponseWriter, r *http.Request, now time.Time,
) (p *access.Principal, keyID string, reason access.Reason) {
	if sent, there := r.Header["Authorization"]; there {
		if len(sent) != 1 || len(sent[0]) < len(bearer) || !strings.EqualFold(sent[0][:len(bearer)], bearer) {
			return nil, "", access.Malformed
		}
		text := sent[0][len(bearer):]
		p, reason = g.Book.Authenticate(text, now.UnixMilli())
		if reason != access.Accepted {
			token, _ := access.ParseToken(text)
			keyID = token.ID()
		}
		return p, keyID, reason
	}
	if certificate := tlsfiles.Verified(r.TLS); certificate != nil {
		p, reason = g.holderOf(certificate)
		return p, "", reason
	}
	if g.Sessions != nil {
		// A browser sends the session's cookie by itself, also for a page of another site.
		if p := g.Sessions.Authenticate(w, r); p != nil && g.crossOrigin.Check(r) == nil {
			return p, "", access.Accepted
		}
	}
	return nil, "", access.Missing
}

func (g *Guard) holderOf(certificate *x509.Certificate) (*access.Principal, access.Reason) {
	for n := range g.Certificates {
		if g.Certificates[n].Match.Fits(certificate) {
			return &g.Certificates[n].Principal, access.Accepted
		}
	}
	return nil, access.Unmapped
}

// refuse counts a refusal and says what to do about it.
func (g *Guard) refuse(r *http.Request, call access.Call, now time.Time, keyID string, reason access.Reason) error {
	if reason == access.Stale {
		return &budget.Error{Code: budget.Unavailable, Op: call.Op, Message: reason.Message(), RetryAfter: time.Second}
	}
	g.Refusals.Add(now.UnixMilli(), keyID, SourceOf(r), call.Op, string(reason))
	return &budget.Error{Code: access.CodeUnauthenticated, Op: call.Op, Message: reason.Message()}
}

// Judge says whether an admitted principal may make a call on a target. notFound makes the answer
// for a target that does not exist, which is also that for one outside the principal's scope.
// Errors: forbidden; notFound's.
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
	return forbidden(p, call, least)
}

func forbidden(p *access.Principal, call access.Call, least access.Role) error {
	switch {
	case p == nil || !p.Role.Includes(least):
		return budget.Refuse(access.CodeForbidden, call.Op, "it needs the role %s", least)
	case call.Over == access.Installation:
		return budget.Refuse(access.CodeForbidden, call.Op, "it needs a key for all tenants and budgets")
	default:
		return budget.Refuse(access.CodeForbidden, call.Op, "it is outside the tenant or the budgets of the key")
	}
}

// callerOf names whose requests are counted together.
func callerOf(p *access.Principal) string {
	if p.KeyID != "" {
		return p.KeyID
	}
	return p.Name
}

// SourceOf returns the address that a request came from, without its port: that of the last proxy,
// since what a proxy writes into headers can be made up by the caller.
func SourceOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
