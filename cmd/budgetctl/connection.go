package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/cmd/budgetctl/profile"
	"github.com/budgetd/budgetd/internal/secret"
	"github.com/spf13/pflag"
)

// credentials are the flags about the connection and the caller. A key cannot be given as a flag,
// because every user of the machine could read it in the list of processes.
type credentials struct {
	profile, tokenFile                    string
	caFile, certFile, keyFile, serverName string
}

func (c *credentials) flags(flags *pflag.FlagSet) {
	flags.StringVar(&c.profile, "profile", "",
		"profile of 'budgetctl login' to use (or BUDGETCTL_PROFILE)")
	flags.StringVar(&c.tokenFile, "token-file", "",
		"file with the key (or BUDGETCTL_TOKEN_FILE; the key itself: BUDGETCTL_TOKEN)")
	flags.StringVar(&c.caFile, "ca-file", "",
		"certificate authorities of the server (or BUDGETCTL_CA_FILE)")
	flags.StringVar(&c.certFile, "cert-file", "", "client certificate (or BUDGETCTL_CERT_FILE)")
	flags.StringVar(&c.keyFile, "key-file", "",
		"key of the client certificate (or BUDGETCTL_KEY_FILE)")
	flags.StringVar(&c.serverName, "server-name", "",
		"name in the server's certificate (or BUDGETCTL_SERVER_NAME)")
}

// connect returns the connection to use. Flags come before the environment, which comes before the
// profile. The current profile is used only if no flag and no variable names another server than
// its own; its key is therefore never sent to another server.
func (a *app) connect() (profile.Profile, error) {
	p, err := a.chosenProfile()
	if err != nil {
		return profile.Profile{}, err
	}
	if p.Server == "" {
		if p.Server, err = a.address(); err != nil {
			return profile.Profile{}, err
		}
	}
	for _, value := range []struct {
		into              *string
		flag, environment string
	}{{&p.Tenant, a.tenant, ""}, {&p.CAFile, a.caFile, "BUDGETCTL_CA_FILE"},
		{&p.CertFile, a.certFile, "BUDGETCTL_CERT_FILE"},
		{&p.KeyFile, a.keyFile, "BUDGETCTL_KEY_FILE"},
		{&p.ServerName, a.serverName, "BUDGETCTL_SERVER_NAME"}} {
		switch {
		case value.flag != "":
			*value.into = value.flag
		case value.environment != "" && a.getenv(value.environment) != "":
			*value.into = a.getenv(value.environment)
		}
	}
	file, token := a.tokenFile, ""
	if file == "" {
		if token = a.getenv("BUDGETCTL_TOKEN"); token == "" {
			file = a.getenv("BUDGETCTL_TOKEN_FILE")
		}
	}
	if file != "" || token != "" {
		p.TokenFile, p.Token = file, strings.TrimSpace(token)
	}
	for _, file := range []string{p.TokenFile, p.KeyFile} {
		if why := secret.Exposed(file); why != "" && !a.warned[file] {
			fmt.Fprintln(a.stderr, "warning:", printable(why))
			if a.warned == nil {
				a.warned = map[string]bool{}
			}
			a.warned[file] = true
		}
	}
	return p, nil
}

// chosenProfile returns the profile in use, or the zero Profile.
func (a *app) chosenProfile() (profile.Profile, error) {
	name := a.profile
	if name != "" && a.server != "" {
		return profile.Profile{}, usagef("--profile and --server do not go together")
	}
	if name == "" {
		if server := cmp.Or(a.server, a.getenv("BUDGETCTL_SERVER")); server != "" || a.config != "" {
			return a.loggedIn(server), nil
		}
		name = a.getenv("BUDGETCTL_PROFILE")
	}
	file, err := profile.Load(profile.Path(a.getenv))
	if err != nil {
		return profile.Profile{}, usagef("%v", err)
	}
	if name == "" {
		return file.Profiles[file.Current], nil
	}
	p, there := file.Profiles[name]
	if !there {
		return p, usagef("there is no profile %q: 'budgetctl login --profile %s' makes one", name, name)
	}
	return p, nil
}

// loggedIn returns the current profile if it is of that server, and otherwise the zero Profile.
func (a *app) loggedIn(server string) profile.Profile {
	file, err := profile.Load(profile.Path(a.getenv))
	if err != nil || a.config != "" {
		return profile.Profile{} // the server is known without it
	}
	p := file.Profiles[file.Current]
	if p.Server == "" || strings.TrimRight(p.Server, "/") != strings.TrimRight(server, "/") {
		return profile.Profile{}
	}
	return p
}

// clientIn returns a client for the connection in use whose budgets are of another tenant.
func (a *app) clientIn(tenant string) (*client.Client, error) {
	p, err := a.connect()
	if err != nil {
		return nil, err
	}
	p.Tenant = tenant
	return a.clientOf(p)
}

// clientOf returns a client for a connection.
func (a *app) clientOf(p profile.Profile, options ...client.Option) (*client.Client, error) {
	if strings.Contains(p.Server, "@") { // said first, because the address is repeated below
		return nil, usagef("the server's address must not have a user or password: give the key with " +
			"'budgetctl login', --token-file or BUDGETCTL_TOKEN")
	}
	own := []client.Option{client.WithTenant(p.Tenant)}
	files := client.TLSFiles{CA: p.CAFile, Cert: p.CertFile, Key: p.KeyFile, ServerName: p.ServerName}
	if files != (client.TLSFiles{}) {
		for _, one := range servers(p.Server) {
			if !strings.HasPrefix(one, "https://") {
				return nil, usagef("%s is not encrypted: --ca-file, --cert-file, --key-file and "+
					"--server-name are for https", one)
			}
		}
		transport, err := client.TLSTransport(files)
		if err != nil {
			return nil, usagef("%v", err)
		}
		own = append(own, client.WithTransport(transport))
	}
	switch {
	case p.TokenFile != "":
		own = append(own, client.WithTokenFile(p.TokenFile))
	case p.Token != "":
		own = append(own, client.WithTokenSource(func(context.Context) (string, error) {
			return p.Token, nil
		}))
	}
	if p.TokenFile != "" || p.Token != "" {
		for _, one := range servers(p.Server) {
			if readable(one) {
				fmt.Fprintf(a.stderr, "warning: the key travels to %s unencrypted; use https\n",
					printable(one))
			}
		}
	}
	// A person should soon learn that no server answers, and a script repeats the command.
	own = append(own, client.WithRetry(client.Retry{Attempts: 5}))
	c, err := client.New(p.Server, append(own, options...)...)
	if err != nil {
		return nil, usagef("%v", err)
	}
	return c, nil
}

// servers splits a comma-separated list of addresses of equal nodes.
func servers(list string) []string {
	all := strings.Split(list, ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// readable reports whether others on the network can read the traffic with a server.
func readable(server string) bool {
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	parsed, err := url.Parse(server)
	if err != nil || parsed.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(parsed.Hostname())
	return parsed.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}
