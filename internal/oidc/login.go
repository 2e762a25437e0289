package oidc

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/internal/secret"
)

// Grant gives the members of a group a role.
type Grant struct {
	Group string
	Role  access.Role
	Scope access.Scope
}

// Config identifies the provider and says what its groups may do.
type Config struct {
	// Issuer is the provider's URL, ClientID its name for budgetd.
	Issuer, ClientID string
	ClientSecret     *secret.Source
	// RedirectURL is where the provider sends people back to: …/console/callback.
	RedirectURL string
	// GroupsClaim is the claim that lists a person's groups.
	GroupsClaim string
	Grants      []Grant
	// Key seals sessions. It has at least 32 bytes in each line; the first line seals, all of them
	// open.
	Key *secret.Source
	// HTTP calls the provider; nil means http.DefaultClient.
	HTTP *http.Client
	Now  func() time.Time
	// Refused answers a failed log-in. reason is for the audit log: login_expired, login_refused or
	// Unavailable.
	Refused func(w http.ResponseWriter, r *http.Request, reason string, err error)
}

// Unavailable is the reason of a log-in that nobody refused: the provider, or the session key,
// cannot be used now.
const Unavailable = "login_unavailable"

// Login has the handlers of the log-in. It is safe for concurrent use.
type Login struct {
	config Config

	mu        sync.Mutex
	discovery *discovery // nil until the provider is asked, and after it did not answer
}

// providerTimeout bounds one call to the provider.
const providerTimeout = 10 * time.Second

// New returns a Login. It does not call the provider before the first log-in, so budgetd starts
// without it. It returns an error if the session key is invalid.
func New(config Config) (*Login, error) {
	if _, err := sealersOf(config.Key.Now()); err != nil {
		return nil, err
	}
	if config.HTTP == nil {
		config.HTTP = http.DefaultClient
	}
	return &Login{config: config}, nil
}

// pending is a log-in in progress: what the browser has to bring back.
type pending struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	Return   string `json:"r"`
	BegunMS  int64  `json:"b"`
}

// Begin redirects a person to the provider. The query parameter return is the page of this server
// to come back to.
func (l *Login) Begin(w http.ResponseWriter, r *http.Request) {
	client, _, err := l.clients(r.Context())
	if err != nil {
		l.config.Refused(w, r, Unavailable, err)
		return
	}
	p := pending{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		Return: localPage(r.URL.Query().Get("return")), BegunMS: l.config.Now().UnixMilli()}
	if err := l.setCookie(w, loginCookie, p, loginTime); err != nil {
		l.config.Refused(w, r, Unavailable, err)
		return
	}
	target := client.AuthCodeURL(p.State, oidc.Nonce(p.Nonce), oauth2.S256ChallengeOption(p.Verifier))
	http.Redirect(w, r, target, http.StatusFound)
}

// Callback receives a person back from the provider and either creates the session or refuses.
func (l *Login) Callback(w http.ResponseWriter, r *http.Request) {
	dropCookie(w, loginCookie) // whatever comes of it, this log-in is used up
	var p pending
	cookie, err := r.Cookie(loginCookie)
	if err == nil {
		err = unseal(l.config.Key.Now(), loginCookie, cookie.Value, &p)
	}
	now, query := l.config.Now(), r.URL.Query()
	late := now.UnixMilli()-p.BegunMS >= loginTime.Milliseconds()
	sameState := subtle.ConstantTimeCompare([]byte(p.State), []byte(query.Get("state"))) == 1
	if err != nil || late || !sameState {
		l.config.Refused(w, r, "login_expired",
			errors.Join(err, errors.New("this log-in began elsewhere or too long ago: log in again")))
		return
	}
	if query.Get("error") != "" {
		l.config.Refused(w, r, "login_refused",
			fmt.Errorf("the provider says %.100q", query.Get("error")))
		return
	}
	s, err := l.sessionOf(r.Context(), query.Get("code"), p)
	if err == nil {
		s.CreatedMS, s.SeenMS = now.UnixMilli(), now.UnixMilli()
		err = l.setCookie(w, sessionCookie, s, Lifetime)
	}
	if err != nil {
		l.config.Refused(w, r, "login_refused", err)
		return
	}
	http.Redirect(w, r, p.Return, http.StatusSeeOther)
}

// End ends the session of a browser. Other copies of its cookie stay valid until they expire.
func (l *Login) End(w http.ResponseWriter, r *http.Request) {
	dropCookie(w, sessionCookie)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// sessionOf exchanges a code for the person's identity.
func (l *Login) sessionOf(ctx context.Context, code string, p pending) (session, error) {
	client, provider, err := l.clients(ctx)
	if err != nil {
		return session{}, err
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, l.config.HTTP), providerTimeout)
	defer cancel()
	token, err := client.Exchange(ctx, code, oauth2.VerifierOption(p.Verifier))
	if err != nil {
		return session{}, fmt.Errorf("the provider refused the code: %w", withoutBody(err))
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return session{}, errors.New("the provider sent no id token")
	}
	id, err := provider.Verifier(&oidc.Config{ClientID: l.config.ClientID, Now: l.config.Now}).Verify(
		ctx, raw)
	if err != nil {
		return session{}, fmt.Errorf("id token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(p.Nonce)) != 1 {
		return session{}, errors.New("id token: it belongs to another log-in")
	}
	var claims map[string]json.RawMessage
	if err := id.Claims(&claims); err != nil {
		return session{}, fmt.Errorf("id token: %w", err)
	}
	s := session{Name: nameOf(id.Subject, claims),
		Groups: l.known(groupsOf(claims[l.config.GroupsClaim]))}
	if why := access.CheckPrincipal(s.Name); why != "" {
		return session{}, fmt.Errorf("id token: the person's name %s", why)
	}
	if _, ok := l.grantOf(s.Groups); !ok {
		return session{}, fmt.Errorf("%.100s is in no group that oidc.roles gives a role", s.Name)
	}
	return s, nil
}

// withoutBody removes the provider's answer, which may repeat what was sent.
func withoutBody(err error) error {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) {
		return fmt.Errorf("status %d, %.100q", refused.Response.StatusCode, refused.ErrorCode)
	}
	return err
}

// nameOf returns the principal of a person. Its prefix distinguishes it from principals of keys.
func nameOf(subject string, claims map[string]json.RawMessage) string {
	var email string
	var verified bool
	if json.Unmarshal(claims["email"], &email) == nil && email != "" &&
		json.Unmarshal(claims["email_verified"], &verified) == nil && verified {
		return "oidc:" + email
	}
	return "oidc:" + subject
}

// groupsOf parses a claim that is a list of texts, or one text.
func groupsOf(claim json.RawMessage) []string {
	var list []string
	if json.Unmarshal(claim, &list) == nil {
		return list
	}
	var one string
	if json.Unmarshal(claim, &one) == nil {
		return []string{one}
	}
	return nil
}

// known returns the groups that the configuration names: a person can be in hundreds, and a cookie
// is limited to 4 kB.
func (l *Login) known(groups []string) []string {
	return slices.DeleteFunc(groups, func(group string) bool {
		return !slices.ContainsFunc(l.config.Grants, func(g Grant) bool { return g.Group == group })
	})
}

// clients returns the clients of the provider. Its settings are read once, at the first log-in that
// reaches it.
func (l *Login) clients(ctx context.Context) (*oauth2.Config, *oidc.Provider, error) {
	provider, err := l.discover(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("the identity provider cannot be asked: %w", err)
	}
	return &oauth2.Config{ClientID: l.config.ClientID,
		ClientSecret: l.config.ClientSecret.Now().Reveal(),
		Endpoint:     provider.Endpoint(), RedirectURL: l.config.RedirectURL,
		Scopes: []string{oidc.ScopeOpenID, "email", "profile", "groups"}}, provider, nil
}

// discovery is one attempt to read the provider's settings. done is closed when it has ended.
type discovery struct {
	done     chan struct{}
	provider *oidc.Provider
	err      error
}

// discover returns the provider. Log-ins that come while it is being asked share one attempt, so
// that none waits longer than one takes.
func (l *Login) discover(ctx context.Context) (*oidc.Provider, error) {
	l.mu.Lock()
	d := l.discovery
	if d == nil {
		d = &discovery{done: make(chan struct{})}
		l.discovery = d
		go l.ask(context.WithoutCancel(ctx), d)
	}
	l.mu.Unlock()
	select {
	case <-d.done:
		return d.provider, d.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask reads the provider's settings. After an error the next log-in asks again.
func (l *Login) ask(ctx context.Context, d *discovery) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, l.config.HTTP), providerTimeout)
	defer cancel()
	d.provider, d.err = oidc.NewProvider(ctx, l.config.Issuer)
	if d.err != nil {
		l.mu.Lock()
		l.discovery = nil
		l.mu.Unlock()
	}
	close(d.done)
}

// localPage returns a path of this server; anything that could lead elsewhere becomes "/".
func localPage(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") ||
		strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}
