package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

func (a *app) keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Show, create, rotate and revoke API keys",
		Long: `Without a subcommand it shows the keys of the tenant that --tenant names, or of all. A
token is shown once, when the key is created; the server keeps only its hash.`,
		Example: `  budgetctl keys
  budgetctl keys create till-7 --role deduct --tenant shop --budget 'spring-*' \
      --expires 2027-01-01T00:00:00Z
  budgetctl keys rotate 0a1b2c3d4e
  budgetctl keys revoke 0a1b2c3d4e`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listKeys(cmd) },
	}
	list := &cobra.Command{
		Use: "list", Short: "Show the keys", Example: "  budgetctl keys list", Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listKeys(cmd) },
	}
	cmd.AddCommand(list, a.createKeyCommand(), a.rotateKeyCommand(), a.revokeKeyCommand(),
		a.generateKeyCommand())
	return cmd
}

func (a *app) listKeys(cmd *cobra.Command) error {
	return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.KeyPage, error) {
		all := &client.KeyPage{Keys: []client.Key{}}
		for token := ""; ; {
			page, err := c.Keys(ctx, 0, token)
			if err != nil {
				return nil, err
			}
			all.Keys = append(all.Keys, page.Keys...)
			if token = page.NextPageToken; token == "" {
				return all, nil
			}
		}
	}, func(page *client.KeyPage) string {
		rows := make([][]any, len(page.Keys))
		for n, k := range page.Keys {
			rows[n] = []any{k.ID, k.Principal, k.Role, orAll(k.Tenant), scopeOf(k.Budgets, k.Subtree),
				k.CreatedAt, k.CreatedBy, k.ExpiresAt, k.LastUsedAt, k.RevokedAt}
		}
		return listing([]string{"key", "principal", "role", "tenant", "budgets", "created", "by",
			"expires", "last used", "revoked"}, rows)
	})
}

func (a *app) createKeyCommand() *cobra.Command {
	var request client.KeyRequest
	var expires string
	cmd := &cobra.Command{
		Use:   "create PRINCIPAL",
		Short: "Create a key for a principal and show it once",
		Long: `Creates a key. A principal has at most two live keys, so that one can replace the other.
The key cannot have more rights than your own. --tenant narrows it to one tenant.`,
		Example: `  budgetctl keys create till-7 --role deduct --tenant shop
  budgetctl keys create reports --role read --budget 'spring-*' --budget summer
  budgetctl keys create agent-7 --role delegate --subtree team-1`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			request.Principal, request.Tenant = args[0], a.tenant
			if why := access.CheckPrincipal(request.Principal); why != "" {
				return usagef("principal %q: %s", request.Principal, why)
			}
			if expires != "" {
				if request.ExpiresAt, err = instant("expires", expires); err != nil {
					return err
				}
			}
			if err := chosen(cmd, "role"); err != nil {
				return err
			}
			return a.issue(cmd, func(ctx context.Context, c *client.Client) (*client.IssuedKey, error) {
				return c.CreateKey(ctx, request)
			})
		},
	}
	cmd.Flags().StringVar(&request.Role, "role", "read",
		"read, deduct, rollback, operator, admin or delegate")
	cmd.Flags().StringArrayVar(&request.Budgets, "budget", nil,
		"pattern of budget names, such as spring-*; may be repeated")
	cmd.Flags().StringVar(&request.Subtree, "subtree", "",
		"of a delegate: the budget at the top, whose units it may divide")
	cmd.Flags().StringVar(&expires, "expires", "", "first instant at which it is refused, or never")
	var roles []string
	for _, role := range access.Roles() {
		roles = append(roles, role.String())
	}
	choose(cmd, "role", append(roles, access.Delegate.String())...)
	return cmd
}

func (a *app) rotateKeyCommand() *cobra.Command {
	var overlap time.Duration
	cmd := &cobra.Command{
		Use:   "rotate KEY",
		Short: "Replace a key, which then expires",
		Long: `Creates a key for the same principal, role, tenant and budgets, and shows it once. The
earlier key stays valid for --overlap.`,
		Example: `  budgetctl keys rotate 0a1b2c3d4e --overlap 1h`,
		Args:    arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if overlap < 0 {
				return usagef("--overlap %s: must not be negative", overlap)
			}
			return a.issue(cmd, func(ctx context.Context, c *client.Client) (*client.IssuedKey, error) {
				return c.RotateKey(ctx, args[0], client.RotateRequest{Overlap: overlap.String()})
			})
		},
	}
	cmd.Flags().DurationVar(&overlap, "overlap", 24*time.Hour, "how long the earlier key stays valid")
	return cmd
}

// issue creates a key and shows it.
func (a *app) issue(
	cmd *cobra.Command, ask func(context.Context, *client.Client) (*client.IssuedKey, error),
) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	ctx, done := a.bounded(cmd.Context())
	defer done()
	issued, err := ask(ctx, c)
	if err != nil {
		return advised{err, "A key may exist whose token was lost: 'budgetctl keys' shows it, " +
			"'budgetctl keys revoke' ends it."}
	}
	fmt.Fprintln(a.stderr, "The token is shown only once: keep it now.")
	return a.show(issued, func() string {
		return details(field{"key", issued.ID}, field{"principal", issued.Principal},
			field{"role", issued.Role},
			field{"tenant", orAll(issued.Tenant)},
			field{"budgets", scopeOf(issued.Budgets, issued.Subtree)},
			field{"expires", issued.ExpiresAt}, field{"token", issued.Token})
	})
}

// scopeOf says which budgets a key acts on.
func scopeOf(budgets []string, subtree string) string {
	if subtree != "" {
		return subtree + " and those below"
	}
	return orAll(strings.Join(budgets, " "))
}

func (a *app) revokeKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "revoke KEY",
		Short:   "Revoke a key, on every node within a second",
		Example: `  budgetctl keys revoke 0a1b2c3d4e`,
		Args:    arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Key, error) {
				return c.RevokeKey(ctx, args[0])
			}, func(k *client.Key) string {
				return details(field{"key", k.ID}, field{"principal", k.Principal},
					field{"revoked", k.RevokedAt})
			})
		},
	}
}

func (a *app) generateKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "generate",
		Short: "Generate a key for the first administrator, without a server",
		Long: `Writes a key to standard output and sends nothing. Put it into the file that budgetd's
configuration names as keys.first_admin_file. It becomes valid when budgetd starts on a database
without keys.`,
		Example: `  budgetctl keys generate > first-admin.key && chmod 600 first-admin.key`,
		Args:    arguments,
		RunE: func(*cobra.Command, []string) error {
			token, err := access.NewToken(rand.Reader)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.stdout, token.Reveal())
			return err
		},
	}
}
