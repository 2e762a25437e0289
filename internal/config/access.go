package config

import (
	"crypto/tls"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/client/tlsfiles"
	"github.com/budgetd/budgetd/internal/secret"
)

// Listeners are additional HTTP addresses. If one is "", its calls are served at Config.Listen.
type Listeners struct {
	// Admin serves administrative calls and the console, Metrics serves metrics and health checks.
	Admin, Metrics string
}

// The values of Config.Auth.
const (
	// Loopback requires no authentication and listens only on loopback addresses.
	Loopback = "loopback"
	// ByKeys requires a key or a client certificate.
	ByKeys = "keys"
	// NoAuth requires no authentication on any address.
	NoAuth = "none"
)

// Keys configures the check of API keys.
type Keys struct {
	// StaleAfter is how long the keys stay valid while the database cannot be read.
	StaleAfter time.Duration
	// FirstAdminFile holds the key of the first administrator; "" means no such file.
	FirstAdminFile string
	// Rate bounds the requests per second of one key, 0 means no bound. Burst bounds those at once.
	Rate, Burst int
	// PerTenant is the most live keys of a tenant. Keep is how long ended ones are kept.
	PerTenant int
	Keep      time.Duration
}

// ServerTLS configures TLS for callers. Without CertFile there is no TLS.
type ServerTLS struct {
	CertFile, KeyFile string
	// ClientCAFile holds the authorities that may sign client certificates. ClientCertificates says
	// whether callers need one.
	ClientCAFile       string
	ClientCertificates string
	MinVersion         string
	// Principals maps client certificates to principals.
	Principals []CertificateGrant
}

// The values of ServerTLS.ClientCertificates.
const (
	CertificatesIgnored  = "ignored"
	CertificatesOptional = "optional"
	CertificatesRequired = "required"
)

// CertificateGrant makes the holder of a client certificate a principal.
type CertificateGrant struct {
	Match tlsfiles.Match
	access.Principal
}

// OIDC configures log-ins of persons to the console. Without Issuer, persons cannot log in.
type OIDC struct {
	Issuer, ClientID string
	// ClientSecret includes the contents of ClientSecretFile.
	ClientSecret             secret.Text
	ClientSecretFile         string
	RedirectURL, GroupsClaim string
	// SessionKeyFile holds the key that seals sessions. It must be the same on every node.
	SessionKeyFile string
	Roles          []GroupGrant
}

// GroupGrant gives a role to the members of a group.
type GroupGrant struct {
	Group string
	Role  access.Role
	Scope access.Scope
}

// AuditLog says how long rows of the audit log are kept; 0 keeps all of them.
type AuditLog struct{ Keep time.Duration }

// accessSettings returns the settings of authentication and authorization.
func (c *Config) accessSettings() []setting {
	return []setting{
		{"listen", address(&c.Listen)},
		{"listeners.admin", optionalAddress(&c.Listeners.Admin)},
		{"listeners.metrics", optionalAddress(&c.Listeners.Metrics)},

		{"auth", choice(&c.Auth, Loopback, ByKeys, NoAuth)},

		{"keys.stale_after", duration(&c.Keys.StaleAfter, "1s", "1h")},
		{"keys.first_admin_file", text(&c.Keys.FirstAdminFile)},
		{"keys.rate", integer(&c.Keys.Rate, 0, 1_000_000)},
		{"keys.burst", integer(&c.Keys.Burst, 1, 1_000_000)},
		{"keys.per_tenant", integer(&c.Keys.PerTenant, 1, 1_000_000)},
		{"keys.keep", duration(&c.Keys.Keep, "24h", "87600h")},

		{"tls.cert_file", text(&c.TLS.CertFile)},
		{"tls.key_file", text(&c.TLS.KeyFile)},
		{"tls.client_ca_file", text(&c.TLS.ClientCAFile)},
		{"tls.client_certificates", choice(&c.TLS.ClientCertificates,
			CertificatesIgnored, CertificatesOptional, CertificatesRequired)},
		{"tls.min_version", choice(&c.TLS.MinVersion, "1.2", "1.3")},
		{"tls.principals", certificateGrants(&c.TLS.Principals)},

		{"oidc.issuer", text(&c.OIDC.Issuer)},
		{"oidc.client_id", text(&c.OIDC.ClientID)},
		{"oidc.client_secret", hidden(&c.OIDC.ClientSecret)},
		{"oidc.client_secret_file", text(&c.OIDC.ClientSecretFile)},
		{"oidc.redirect_url", text(&c.OIDC.RedirectURL)},
		{"oidc.groups_claim", nonEmpty(text(&c.OIDC.GroupsClaim))},
		{"oidc.session_key_file", text(&c.OIDC.SessionKeyFile)},
		{"oidc.roles", groupGrants(&c.OIDC.Roles)},

		{"audit_log.keep", duration(&c.AuditLog.Keep, "0s", "87600h")},
	}
}

// optionalAddress accepts an address or "".
func optionalAddress(into *string) rule {
	r := address(into)
	set := r.set
	r.want += ", or empty"
	r.set = func(value any) bool { return value == "" && clearText(into) || set(value) }
	return r
}

func clearText(into *string) bool {
	*into = ""
	return true
}

func certificateGrants(into *[]CertificateGrant) rule {
	const want = "must be a list of {subject | dns | uri | email, principal, role, tenant?, " +
		"budgets?}, " +
		"such as [{uri: spiffe://shop/till, principal: till, role: deduct, tenant: shop}]"
	return rule{want: want, target: into, set: func(value any) bool {
		*into = nil
		return eachSection(value, func(s section) bool {
			var grant CertificateGrant
			grant.Match, grant.Name = s.match(), s.text("principal")
			grant.Role, grant.Scope = s.role(), s.scope()
			*into = append(*into, grant)
			return grant.Match.Value != "" && access.CheckPrincipal(grant.Name) == "" && s.done()
		})
	}}
}

func groupGrants(into *[]GroupGrant) rule {
	const want = "must be a list of {group, role, tenant?, budgets?}, " +
		"such as [{group: budget-admins, role: admin}]"
	return rule{want: want, target: into, set: func(value any) bool {
		*into = nil
		return eachSection(value, func(s section) bool {
			grant := GroupGrant{Group: s.text("group"), Role: s.role(), Scope: s.scope()}
			*into = append(*into, grant)
			return grant.Group != "" && s.done()
		})
	}}
}

// section is one element of a list. Reading a key removes it from the section.
type section struct {
	left  map[string]any
	wrong *bool
}

// eachSection reads a list of sections.
func eachSection(value any, read func(section) bool) bool {
	list, ok := value.([]any)
	for _, element := range list {
		given, isSection := sectionOf(element)
		if !isSection {
			return false
		}
		left := map[string]any{}
		for name, value := range given {
			left[name] = value
		}
		if !read(section{left, new(bool)}) {
			return false
		}
	}
	return ok
}

// text removes a text and returns it, or "" if the key is absent.
func (s section) text(name string) string {
	value, there := s.left[name]
	delete(s.left, name)
	text, ok := value.(string)
	if there && (!ok || text == "") {
		*s.wrong = true
	}
	return text
}

func (s section) role() access.Role {
	role, ok := access.ParseRole(s.text("role"))
	if !ok || role == access.Delegate { // a subtree is that of a key
		*s.wrong = true
	}
	return role
}

func (s section) scope() access.Scope {
	scope := access.Scope{Tenant: s.text("tenant")}
	value, there := s.left["budgets"]
	delete(s.left, "budgets")
	list, ok := value.([]any)
	for _, element := range list {
		pattern, isText := element.(string)
		ok = ok && isText
		scope.Budgets = append(scope.Budgets, pattern)
	}
	if there && (!ok || len(list) == 0) || scope.Check() != nil {
		*s.wrong = true
	}
	return scope
}

// match removes the one key that selects certificates.
func (s section) match() (out tlsfiles.Match) {
	for _, field := range tlsfiles.Fields() {
		if value := s.text(string(field)); value != "" {
			if out.Value != "" {
				*s.wrong = true
			}
			out = tlsfiles.Match{Field: field, Value: value}
		}
	}
	return out
}

// done reports whether every value was valid and no key is left.
func (s section) done() bool { return !*s.wrong && len(s.left) == 0 }

// checkAccess returns the contradictions between the settings of authentication and authorization.
func (c *Config) checkAccess() []Fault {
	var faults []Fault
	fault := func(key, value, want string) { faults = append(faults, Fault{key, show(value), want}) }
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		fault("tls.cert_file", c.TLS.CertFile, "must be set together with tls.key_file")
	}
	wants := c.TLS.ClientCertificates != CertificatesIgnored
	switch {
	case wants && c.TLS.CertFile == "":
		fault("tls.client_certificates", c.TLS.ClientCertificates,
			"must be ignored without tls.cert_file")
	case wants && c.TLS.ClientCAFile == "":
		fault("tls.client_certificates", c.TLS.ClientCertificates,
			"must be ignored without tls.client_ca_file")
	case !wants && len(c.TLS.Principals) > 0:
		fault("tls.principals", "", "must be empty while tls.client_certificates is ignored")
	}
	if c.TLS.CertFile != "" && c.TLS.KeyFile != "" {
		if _, err := tlsfiles.NewServer(c.TLS.Files()); err != nil {
			fault("tls", "", err.Error())
		}
	}
	if c.Database.TLS.Enabled && c.Database.Driver != MySQL {
		fault("database.tls.enabled", "true", "must be false without driver mysql")
	}
	if _, err := c.Database.TLS.Files(); err != nil {
		fault("database.tls", "", err.Error())
	}
	if c.OIDC.Issuer != "" {
		faults = append(faults, c.OIDC.check()...)
		if c.Auth != ByKeys {
			fault("oidc.issuer", c.OIDC.Issuer, "must be empty unless auth is keys")
		}
	}
	return faults
}

func (o *OIDC) check() []Fault {
	var faults []Fault
	for _, k := range []struct {
		key, value string
		url        bool
	}{{"oidc.issuer", o.Issuer, true}, {"oidc.redirect_url", o.RedirectURL, true},
		{"oidc.client_id", o.ClientID, false}, {"oidc.session_key_file", o.SessionKeyFile, false}} {
		parsed, err := url.Parse(k.value)
		switch {
		case k.value == "":
			faults = append(faults, Fault{k.key, "", "must be set beside oidc.issuer"})
		case k.url && (err != nil || parsed.Host == "" || parsed.Scheme != "https" &&
			!isLoopback(parsed.Host)):
			faults = append(faults, Fault{k.key, show(k.value), "must be an https URL"})
		}
	}
	if len(o.Roles) == 0 {
		faults = append(faults, Fault{"oidc.roles", "", "must give at least one group a role"})
	}
	return faults
}

// Files returns the settings of the listeners' certificates.
func (t ServerTLS) Files() tlsfiles.ServerFiles {
	out := tlsfiles.ServerFiles{Cert: t.CertFile, Key: t.KeyFile, MinVersion: tls.VersionTLS12}
	if t.MinVersion == "1.3" {
		out.MinVersion = tls.VersionTLS13
	}
	if t.ClientCertificates != CertificatesIgnored {
		out.ClientCA = t.ClientCAFile
		out.RequireClient = t.ClientCertificates == CertificatesRequired
	}
	return out
}

// Exposure returns the faults that make the configuration unsafe to start with, and the warnings to
// log at every start. insecureListen reports that the operator allowed unauthenticated access on
// the command line.
func (c Config) Exposure(insecureListen bool) (Faults, []string) {
	var faults Faults
	var warnings []string
	for _, l := range []struct{ key, addr string }{{"listen", c.Listen},
		{"listeners.admin", c.Listeners.Admin}, {"listeners.metrics", c.Listeners.Metrics}} {
		if l.addr == "" || isLoopback(l.addr) {
			continue
		}
		switch {
		case c.Auth == Loopback:
			faults = append(faults, Fault{l.key, show(l.addr), "must be a loopback address such as " +
				"127.0.0.1:8080 without authentication: set auth: keys, or else auth: none and start " +
				"budgetd with --insecure-listen"})
		case c.Auth == NoAuth && !insecureListen:
			faults = append(faults, Fault{l.key, show(l.addr),
				"must be a loopback address with auth: none, unless budgetd is started with --insecure-listen"})
		case c.Auth == NoAuth:
			warnings = append(warnings, l.key+" "+l.addr+" is open: everybody who reaches it may do "+
				"everything, because of auth: none and --insecure-listen")
		case c.TLS.CertFile == "":
			warnings = append(warnings, l.key+" "+l.addr+" is not encrypted: keys can be read on the way; "+
				"set tls.cert_file and tls.key_file, or put a proxy with TLS before it")
		}
	}
	return faults, warnings
}

// isLoopback reports whether an address, with or without a port, can only be reached from this
// machine.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}
