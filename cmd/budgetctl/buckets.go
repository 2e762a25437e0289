package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

func (a *app) bucketsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "buckets BUDGET",
		Short:   "Show a budget's buckets",
		Example: `  budgetctl buckets spring-sale`,
		Args:    arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := reference(args[0]); err != nil {
				return err
			}
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.BucketList, error) {
				return c.Buckets(ctx, args[0])
			}, func(answer *client.BucketList) string { return shards(answer.Buckets...) })
		},
	}
}

// bucketVerb is a command that makes a call about one bucket.
type bucketVerb func(_ *client.Client, _ context.Context, name, key string) (*client.Bucket, error)

func (a *app) offlineCommand() *cobra.Command {
	return a.bucketCommand((*client.Client).Offline, &cobra.Command{
		Use:   "offline BUDGET BUCKET_KEY",
		Short: "Close a bucket and bring what it holds back to the total",
		Long: `Closes a bucket and brings what it holds back to the total. It stays offline until
'budgetctl online'; in store mode requests of its keys are unavailable until then. The last
online bucket of an effective budget stays (last_bucket).`,
		Example: `  budgetctl offline spring-sale bucket-3`,
	})
}

func (a *app) onlineCommand() *cobra.Command {
	return a.bucketCommand((*client.Client).Online, &cobra.Command{
		Use:     "online BUDGET BUCKET_KEY",
		Short:   "Open a bucket again and let it apply for units",
		Example: `  budgetctl online spring-sale bucket-3`,
	})
}

func (a *app) applyCommand() *cobra.Command {
	return a.bucketCommand((*client.Client).Apply, &cobra.Command{
		Use:   "apply BUDGET BUCKET_KEY",
		Short: "Let a bucket take units from the total",
		Long: `Lets a bucket take units from the total, as much as the budget's rule allows. It has no
request id: when the outcome is unknown, look with 'budgetctl buckets' before repeating it.`,
		Example: `  budgetctl apply spring-sale bucket-3`,
	})
}

// resumeCommand makes a paused budget effective, or with a second argument resumes a bucket.
func (a *app) resumeCommand() *cobra.Command {
	whole := a.statusCommand("resume", budget.Effective, "")
	one := a.bucketCommand((*client.Client).Resume, &cobra.Command{Use: "resume BUDGET BUCKET_KEY"})
	which := func(args []string) *cobra.Command {
		if len(args) < 2 {
			return whole
		}
		return one
	}
	return &cobra.Command{
		Use:   "resume BUDGET [BUCKET_KEY]",
		Short: "Make a paused budget effective again, or resume a halted bucket",
		Long: `Makes a paused budget effective again. With the key of a halted bucket it audits the whole
budget, and resumes the bucket if its figures agree. Otherwise the bucket stays halted, and the
refusal (bucket_halted) says what disagrees.`,
		Example: `  budgetctl resume spring-sale
  budgetctl resume spring-sale bucket-3`,
		Args: func(_ *cobra.Command, args []string) error { return arguments(which(args), args) },
		RunE: func(cmd *cobra.Command, args []string) error { return which(args).RunE(cmd, args) },
	}
}

func (a *app) bucketCommand(verb bucketVerb, cmd *cobra.Command) *cobra.Command {
	cmd.Args = arguments
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := reference(args[0]); err != nil {
			return err
		}
		if why := budget.CheckKey(args[1]); why != "" {
			return usagef("bucket key %q: %s", args[1], why)
		}
		return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Bucket, error) {
			key, err := bucketKey(ctx, c, args[0], args[1])
			if err != nil {
				return nil, err
			}
			return verb(c, ctx, args[0], key)
		}, func(answer *client.Bucket) string { return shards(*answer) })
	}
	return cmd
}

// bucketKey returns the whole key of a bucket for `bucket-1` or `1`. The key begins with the name
// of the budget; if the budget is given by its id, the server is asked for the name.
func bucketKey(ctx context.Context, c *client.Client, name, key string) (string, error) {
	if strings.Contains(key, ":") {
		return key, nil
	}
	if _, err := strconv.ParseUint(key, 10, 16); err == nil {
		key = "bucket-" + key
	}
	if _, isID := budget.ParseAmount(name); isID {
		b, err := c.Budget(ctx, name)
		if err != nil {
			return "", err
		}
		name = b.Name
	}
	return name + ":" + key, nil
}

// shards formats buckets.
func shards(buckets ...client.Bucket) string {
	rows := make([][]any, len(buckets))
	for i, b := range buckets {
		status := b.Status
		if b.OfflineBy != "" {
			status += " by " + b.OfflineBy
		}
		if b.Problem != "" {
			status += ", out of reach"
		}
		rows[i] = []any{b.Key, status, b.Home, b.Epoch, b.EpochStatus, b.Remaining,
			b.Held, b.Used, b.Returning, b.OutQuantity, b.OutCnt, b.CollectCnt,
			b.Halted}
	}
	return listing([]string{"key", "status", "home", "epoch", "epoch status",
		"remaining", "held", "used", "returning", "out", "applies", "collects", "halted"}, rows)
}
