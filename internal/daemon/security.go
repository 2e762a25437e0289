package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/auth"
	"github.com/budgetd/budgetd/internal/config"
	"github.com/budgetd/budgetd/internal/httpapi"
	"github.com/budgetd/budgetd/internal/oidc"
	"github.com/budgetd/budgetd/internal/ratelimit"
	sqlaccess "github.com/budgetd/budgetd/internal/sql/access"
)

// security holds what authenticates and authorizes callers, and the records of that.
type security struct {
	auth     *auth.Service
	keys     *sqlaccess.Keys
	auditLog *sqlaccess.AuditLog
	login    *oidc.Login // nil if nobody can log in
	work     []loop
}

const (
	// keysEvery is the interval at which changes of keys are read. A pause of a loop is up to one and
	// a half times its interval, so a revoked key is refused within a second.
	keysEvery = 200 * time.Millisecond
	// refusalsEvery is the interval at which a row of refusals is written to the audit log: a pause is
	// at least half of it, so one row a second at most. pruneEvery is that at which old rows of the
	// audit log, and keys that ended long ago, are removed.
	refusalsEvery, pruneEvery = 2 * time.Second, time.Minute
)

// security builds what secures the node. It has read the keys when it returns.
func (b *backends) security(ctx context.Context, c config.Config, log *slog.Logger) (
	*security, error) {
	refusals := new(auditlog.Refusals)
	out := &security{keys: &sqlaccess.Keys{DB: b.db, PerTenant: c.Keys.PerTenant},
		auditLog: &sqlaccess.AuditLog{DB: b.db, Refusals: refusals, Keep: c.AuditLog.Keep},
		auth: &auth.Service{Open: c.Auth != config.ByKeys, Loopback: c.Auth == config.Loopback,
			Refusals: refusals, Now: time.Now, Limiter: ratelimit.NewLimiter(c.Keys.Rate, c.Keys.Burst)}}
	for _, p := range c.TLS.Principals {
		out.auth.Certificates = append(out.auth.Certificates,
			auth.Certificate{Match: p.Match, Principal: p.Principal})
	}
	if err := firstFromFile(ctx, out.keys, c.Keys.FirstAdminFile, log); err != nil {
		return nil, err
	}
	book := access.NewBook(c.Keys.StaleAfter.Milliseconds())
	once := out.keys.Follow(book, c.Keys.Keep, log)
	out.auth.Book = book
	if c.Auth == config.ByKeys {
		if err := once(ctx); err != nil {
			return nil, fmt.Errorf("keys: %w", err)
		}
		if book.Len() == 0 {
			log.Warn("there is no key yet: nobody may do anything",
				"remedy", "run `budgetd keys bootstrap` or set keys.first_admin_file")
		}
		out.work = append(out.work, loop{"keys", keysEvery, once})
	}
	out.work = append(out.work, loop{"ended keys", pruneEvery, func(ctx context.Context) error {
		return out.keys.Prune(ctx, c.Keys.Keep)
	}})
	out.work = append(out.work, loop{"refusals", refusalsEvery, out.auditLog.NoteRefusals},
		loop{"audit log", pruneEvery, out.auditLog.Prune})
	return out, out.sessions(c.OIDC)
}

// sessions enables log-ins of persons if they are configured.
func (s *security) sessions(c config.OIDC) error {
	if c.Issuer == "" {
		return nil
	}
	client, err := c.Source()
	if err != nil {
		return fmt.Errorf("oidc.client_secret: %w", err)
	}
	key, err := c.SessionSource()
	if err != nil {
		return fmt.Errorf("oidc.session_key_file: %w", err)
	}
	settings := oidc.Config{Issuer: c.Issuer, ClientID: c.ClientID, ClientSecret: client,
		RedirectURL: c.RedirectURL, GroupsClaim: c.GroupsClaim, Key: key, Now: time.Now,
		Refused: s.refused}
	for _, grant := range c.Roles {
		settings.Grants = append(settings.Grants,
			oidc.Grant{Group: grant.Group, Role: grant.Role, Scope: grant.Scope})
	}
	if s.login, err = oidc.New(settings); err != nil {
		return err
	}
	s.auth.Sessions = s.login
	return nil
}

// refused answers a failed log-in. It sends a browser back to the page, which says why.
func (s *security) refused(w http.ResponseWriter, r *http.Request, reason string, err error) {
	s.auth.Refusals.Add(time.Now().UnixMilli(), "", auth.SourceOf(auth.Remote(r)), "login", reason)
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header().Set("Location", "../?refused="+url.QueryEscape(reason)) // relative: under any path
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	code := budget.Unauthenticated
	if reason == oidc.Unavailable {
		code = budget.Unavailable
	}
	httpapi.WriteProblem(w, httpapi.ProblemOf(budget.Refuse(code, "login", "%v", err)))
}
