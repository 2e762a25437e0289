package oidc

import (
	"net/http"
	"slices"
	"time"

	"github.com/budgetd/budgetd/access"
)

const (
	// sessionCookie and loginCookie have the prefix __Host-: a browser accepts them only over TLS
	// and only from the host itself, for all of its paths.
	sessionCookie = "__Host-budgetd"
	loginCookie   = "__Host-budgetd-login"

	// Lifetime is the longest life of a session.
	Lifetime = 8 * time.Hour
	// IdleTime is how long a session lives without a request.
	IdleTime = 30 * time.Minute
	// renewAfter bounds how often a session's cookie is sent again.
	renewAfter = time.Minute
	// loginTime is how long a person may take at the provider.
	loginTime = 10 * time.Minute
)

// session is what the cookie holds.
type session struct {
	// Name is the principal: "oidc:" and the person's verified address or the provider's subject.
	Name string `json:"n"`
	// Groups are the person's groups that were configured at the log-in.
	Groups    []string `json:"g"`
	CreatedMS int64    `json:"c"`
	SeenMS    int64    `json:"s"`
}

// live reports whether a session is valid at an instant. A session from the future is not.
func (s session) live(nowMS int64) bool {
	return s.Name != "" && nowMS >= s.CreatedMS && s.SeenMS >= s.CreatedMS &&
		nowMS < s.CreatedMS+Lifetime.Milliseconds() && nowMS < s.SeenMS+IdleTime.Milliseconds()
}

// Authenticate returns the principal of a request's session, or nil if the session is missing,
// over, changed, or without a role by now. It prolongs the session at most once a minute by setting
// its cookie, so it must be called before the answer begins.
func (l *Login) Authenticate(w http.ResponseWriter, r *http.Request) *access.Principal {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return nil
	}
	var s session
	if err := unseal(l.config.Key.Now(), sessionCookie, cookie.Value, &s); err != nil {
		return nil
	}
	now := l.config.Now()
	grant, ok := l.grantOf(s.Groups)
	if !s.live(now.UnixMilli()) || !ok {
		return nil
	}
	if now.UnixMilli()-s.SeenMS >= renewAfter.Milliseconds() {
		s.SeenMS = now.UnixMilli()
		// Without a new cookie the session ends sooner, which is no reason to refuse the request.
		_ = l.setCookie(w, sessionCookie, s, Lifetime) //nolint:errcheck // see above
	}
	return &access.Principal{Name: s.Name, Role: grant.Role, Scope: grant.Scope,
		ExpiresMS: s.CreatedMS + Lifetime.Milliseconds()}
}

// grantOf returns the strongest grant of the groups, the first of equal ones.
func (l *Login) grantOf(groups []string) (Grant, bool) {
	var best Grant
	for _, grant := range l.config.Grants {
		if slices.Contains(groups, grant.Group) && (best.Role == 0 || !best.Role.Includes(grant.Role)) {
			best = grant
		}
	}
	return best, best.Role != 0
}

func (l *Login) setCookie(w http.ResponseWriter, name string, value any, age time.Duration) error {
	text, err := seal(l.config.Key.Now(), name, value)
	if err != nil {
		return err
	}
	http.SetCookie(w, &http.Cookie{Name: name, Value: text, Path: "/", MaxAge: int(age.Seconds()),
		Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	return nil
}

func dropCookie(w http.ResponseWriter, name string) {
	http.SetCookie(w, &http.Cookie{Name: name, Path: "/", MaxAge: -1, Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode})
}
