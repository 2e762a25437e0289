package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/cmd/budgetctl/profile"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// defaultProfile is the name of a profile if no other is given.
const defaultProfile = "default"

func (a *app) loginCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "login",
		Short: "Keep a server and its key in a profile",
		Long: `Reads a key, checks it with the server, and stores both in a profile in the file
~/.config/budgetctl/profiles.yaml (mode 0600). Commands that name no server then use the profile.
The key comes from BUDGETCTL_TOKEN, otherwise from the terminal or standard input. With --token-file
the profile stores the name of that file.`,
		Example: `  budgetctl login --server https://budgets.example
  budgetctl login --server https://budgets.example --profile live \
      --token-file /run/secrets/budgetd`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.login(cmd) },
	}
}

func (a *app) login(cmd *cobra.Command) error {
	name := a.profile
	if name == "" {
		name = defaultProfile
	}
	path := profile.Path(a.getenv)
	file, err := profile.Load(path)
	if err != nil {
		return usagef("%v", err)
	}
	// The new profile has no settings yet.
	chosen := *a
	chosen.profile = ""
	if chosen.server == "" && chosen.config == "" && a.getenv("BUDGETCTL_SERVER") == "" {
		if chosen.server = file.Profiles[name].Server; chosen.server == "" {
			chosen.server = defaultServer
		}
	}
	p, err := chosen.connect()
	if err != nil {
		return err
	}
	if p.Token == "" && p.TokenFile == "" && p.CertFile == "" {
		if p.Token, err = a.askForKey(p.Server); err != nil {
			return err
		}
	}
	c, err := a.clientOf(p)
	if err != nil {
		return err
	}
	ctx, done := a.bounded(cmd.Context())
	defer done()
	identity, err := c.Whoami(ctx)
	if err != nil {
		return err
	}
	for _, path := range []*string{&p.TokenFile, &p.CAFile, &p.CertFile, &p.KeyFile} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil { // later commands run in other directories
			return err
		}
	}
	file.Current, file.Profiles[name] = name, p
	if err := file.Save(path); err != nil {
		return fmt.Errorf("the profile is not kept: %w", err)
	}
	fmt.Fprintf(a.stderr, "profile %s is kept in %s\n", name, path)
	return a.show(identity, func() string { return identityText(identity) })
}

// askForKey reads a key, on a terminal without echo, otherwise from the first line of stdin.
func (a *app) askForKey(server string) (string, error) {
	if fd := int(os.Stdin.Fd()); term.IsTerminal(fd) {
		fmt.Fprintf(a.stderr, "Key for %s: ", printable(server))
		text, err := term.ReadPassword(fd)
		fmt.Fprintln(a.stderr)
		return strings.TrimSpace(string(text)), err
	}
	const longest = 4096
	line, err := bufio.NewReader(io.LimitReader(os.Stdin, longest)).ReadString('\n')
	line = strings.TrimSpace(line)
	if line == "" {
		if err == nil || err == io.EOF {
			err = usagef("there is no key on standard input")
		}
		return "", err
	}
	return line, nil
}

func (a *app) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "logout",
		Short: "Forget a profile and its key",
		Long: `Removes a profile, the current one unless --profile names another. The key itself stays
valid: 'budgetctl keys revoke' ends it.`,
		Example: `  budgetctl logout
  budgetctl logout --profile live`,
		Args: arguments,
		RunE: func(*cobra.Command, []string) error {
			path := profile.Path(a.getenv)
			file, err := profile.Load(path)
			if err != nil {
				return usagef("%v", err)
			}
			name := a.profile
			if name == "" {
				name = file.Current
			}
			if _, there := file.Profiles[name]; !there {
				return usagef("there is no profile %q", name)
			}
			delete(file.Profiles, name)
			if file.Current == name {
				file.Current = ""
			}
			return file.Save(path)
		},
	}
}

func (a *app) whoamiCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "whoami",
		Short:   "Show who the server takes you for, and what you may do",
		Example: `  budgetctl whoami`,
		Args:    arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Identity, error) {
				return c.Whoami(ctx)
			}, identityText)
		},
	}
}

func identityText(i *client.Identity) string {
	return details(field{"principal", i.Principal}, field{"role", i.Role},
		field{"tenant", orAll(i.Tenant)},
		field{"budgets", scopeOf(i.Budgets, i.Subtree)}, field{"key", i.KeyID},
		field{"expires", i.ExpiresAt})
}

// orAll formats a scope; an empty one means all.
func orAll(text string) string {
	if text == "" {
		return "(all)"
	}
	return text
}
