package main

import (
	"context"
	"strings"

	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

func (a *app) webhooksCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "webhooks",
		Short: "Show, create, change, test and delete endpoints of messages",
		Long: `Without a subcommand it shows the endpoints of the tenant that --tenant names, or of all.
Endpoints get messages about alerts, signed by the rules of Standard Webhooks.`,
		Example: `  budgetctl webhooks
  budgetctl webhooks create https://shop.example.com/budgetd --secret shop
  budgetctl webhooks test ep_7rl2702mv8qxbh3k
  budgetctl webhooks log ep_7rl2702mv8qxbh3k`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.WebhookList, error) {
				return c.Webhooks(ctx)
			}, func(list *client.WebhookList) string {
				rows := make([][]any, len(list.Webhooks))
				for i, w := range list.Webhooks {
					rows[i] = []any{w.ID, orAll(w.Tenant), w.URL, w.Secret, w.Enabled, w.Disabled,
						w.FailingSince, w.Description}
				}
				return listing([]string{"webhook", "tenant", "url", "secret", "enabled", "because",
					"failing since", "description"}, rows)
			})
		},
	}
	cmd.AddCommand(a.createWebhookCommand(), a.setWebhookCommand(), a.webhookLogCommand(),
		a.onWebhook("enable", "Send to an endpoint again", func(ctx context.Context,
			c *client.Client, id string) (*client.Webhook, error) {
			on := true
			return c.ChangeWebhook(ctx, id, client.WebhookPatch{Enabled: &on})
		}),
		a.onWebhook("disable", "Let an endpoint's messages wait", func(ctx context.Context,
			c *client.Client, id string) (*client.Webhook, error) {
			off := false
			return c.ChangeWebhook(ctx, id, client.WebhookPatch{Enabled: &off})
		}),
		a.onWebhook("delete", "Delete an endpoint with its log", func(ctx context.Context,
			c *client.Client, id string) (*client.Webhook, error) {
			return c.DeleteWebhook(ctx, id)
		}),
		&cobra.Command{Use: "test ID", Short: "Send a message to an endpoint", Args: arguments,
			Example: `  budgetctl webhooks test ep_7rl2702mv8qxbh3k`,
			RunE: func(cmd *cobra.Command, args []string) error {
				return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Delivery, error) {
					return c.TestWebhook(ctx, args[0])
				}, deliveryDetails)
			}},
		&cobra.Command{Use: "resend ID MESSAGE", Short: "Send a message to an endpoint again",
			Args: arguments, Example: `  budgetctl webhooks resend ep_7rl2702mv8qxbh3k msg_019ac0a1b2c3`,
			RunE: func(cmd *cobra.Command, args []string) error {
				return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Delivery, error) {
					return c.ResendDelivery(ctx, args[0], args[1])
				}, deliveryDetails)
			}})
	return cmd
}

func (a *app) createWebhookCommand() *cobra.Command {
	var request client.WebhookRequest
	cmd := &cobra.Command{
		Use:   "create URL",
		Short: "Send messages to an endpoint from now on",
		Long: `Creates an endpoint, to which messages are sent from now on. --secret names a secret
of the tenant in the server's webhooks.secrets_dir. --tenant narrows the messages to one tenant.`,
		Example: `  budgetctl webhooks create https://shop.example.com/budgetd --secret shop \
      --type alert.firing`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if request.Secret == "" {
				return usagef("--secret is needed: the name of a secret of the tenant")
			}
			request.URL, request.Tenant = args[0], a.tenant
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Webhook, error) {
				return c.CreateWebhook(ctx, request)
			}, webhookDetails)
		},
	}
	cmd.Flags().StringVar(&request.Secret, "secret", "", "name of the secret (required)")
	cmd.Flags().StringArrayVar(&request.Types, "type", nil,
		"alert.firing, alert.resolved or endpoint.disabled; may be repeated; default: all")
	cmd.Flags().StringVar(&request.Description, "description", "", "what the endpoint is")
	return cmd
}

func (a *app) setWebhookCommand() *cobra.Command {
	var url, secret, description string
	var types []string
	cmd := &cobra.Command{
		Use:     "set ID",
		Short:   "Change an endpoint",
		Example: `  budgetctl webhooks set ep_7rl2702mv8qxbh3k --secret shop-2`,
		Args:    arguments,
	}
	cmd.Flags().StringVar(&url, "url", "", "where messages are sent")
	cmd.Flags().StringVar(&secret, "secret", "", "name of the secret")
	cmd.Flags().StringArrayVar(&types, "type", nil, "type of messages; may be repeated")
	cmd.Flags().StringVar(&description, "description", "", "what the endpoint is")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var patch client.WebhookPatch
		for name, set := range map[string]func(){"url": func() { patch.URL = &url },
			"secret": func() { patch.Secret = &secret }, "type": func() { patch.Types = &types },
			"description": func() { patch.Description = &description }} {
			if cmd.Flags().Changed(name) {
				set()
			}
		}
		if patch == (client.WebhookPatch{}) {
			return usagef("nothing to change: see --help")
		}
		return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Webhook, error) {
			return c.ChangeWebhook(ctx, args[0], patch)
		}, webhookDetails)
	}
	return cmd
}

// onWebhook is a command whose answer is a webhook.
func (a *app) onWebhook(verb, short string, do func(context.Context, *client.Client, string) (
	*client.Webhook, error)) *cobra.Command {
	return &cobra.Command{Use: verb + " ID", Short: short, Args: arguments,
		Example: "  budgetctl webhooks " + verb + " ep_7rl2702mv8qxbh3k",
		RunE: func(cmd *cobra.Command, args []string) error {
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Webhook, error) {
				return do(ctx, c, args[0])
			}, webhookDetails)
		}}
}

func webhookDetails(w *client.Webhook) string {
	return details(field{"webhook", w.ID}, field{"tenant", orAll(w.Tenant)}, field{"url", w.URL},
		field{"secret", w.Secret}, field{"types", strings.Join(w.Types, " ")},
		field{"enabled", w.Enabled}, field{"because", w.Disabled},
		field{"failing since", w.FailingSince}, field{"description", w.Description})
}

func deliveryDetails(d *client.Delivery) string {
	return details(field{"message", d.Message}, field{"type", d.Type}, field{"state", d.State},
		field{"next attempt", d.NextAttemptAt})
}

func (a *app) webhookLogCommand() *cobra.Command {
	most := 20
	cmd := &cobra.Command{
		Use:   "log ID",
		Short: "Show what was sent to an endpoint, attempt by attempt",
		Example: `  budgetctl webhooks log ep_7rl2702mv8qxbh3k
  budgetctl webhooks log ep_7rl2702mv8qxbh3k --limit 100`,
		Args: arguments,
	}
	cmd.Flags().IntVar(&most, "limit", most, "most messages, 1 to 1000")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if most < 1 || most > 1000 {
			return usagef("--limit %d: must be 1 to 1000", most)
		}
		return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.DeliveryPage, error) {
			return c.Deliveries(ctx, args[0], most, "")
		}, func(page *client.DeliveryPage) string {
			var rows [][]any
			for _, d := range page.Deliveries {
				rows = append(rows, []any{d.Message, d.Type, d.State, d.CreatedAt, "", "", d.NextAttemptAt})
				for _, one := range d.Attempts {
					rows = append(rows, []any{"", "", "attempt", one.At, one.Status, one.Error, ""})
				}
			}
			return listing([]string{"message", "type", "state", "at", "status", "problem",
				"next attempt"}, rows)
		})
	}
	return cmd
}
