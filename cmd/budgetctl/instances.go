package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

func (a *app) instancesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "instances",
		Short: "Show the stores and their partitions; drain, recover, give up or rebalance them",
		Example: `  budgetctl instances
  budgetctl instances drain redis-2
  budgetctl instances rebalance --dry-run`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.InstanceList, error) {
				return c.Instances(ctx)
			}, partitions)
		},
	}
	cmd.AddCommand(a.drainCommand(), a.undrainCommand(), a.recoverCommand(),
		a.giveUpCommand(), a.rebalanceCommand())
	return cmd
}

func (a *app) readyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ready",
		Short: "Say whether the server can serve",
		Long: `Ends with status 0 if the server can serve, and says why if it cannot. It needs no key, so
that it suits the health check of a container.`,
		Example: `  budgetctl ready --server https://node-a:8443`,
		Args:    arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return call(a, cmd, func(ctx context.Context, c *client.Client) (readiness, error) {
				err := c.Readyz(ctx)
				var p *client.Problem
				if errors.As(err, &p) && len(p.Reasons) > 0 {
					p.Detail = strings.Join(p.Reasons, "; ")
				}
				return readiness{true}, err
			}, func(readiness) string { return "ready" })
		},
	}
}

// readiness is the answer of a server that can serve.
type readiness struct {
	Ready bool `json:"ready"`
}

func (a *app) nodesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "nodes",
		Short: "Show the nodes that use the server's database",
		Long: `Shows every budgetd that uses the server's database and was seen within 30 days: its name
(node.name, as in its log), whether it is up, its address, its version and the release of its time
zones, and when it started and was last seen. A running node is seen every few seconds. After 15 s
without a sign it is down: it is dead, cannot reach the database, or was stopped.`,
		Example: `  budgetctl nodes`,
		Args:    arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.NodeList, error) {
				return c.Nodes(ctx)
			}, func(answer *client.NodeList) string {
				rows := make([][]any, len(answer.Nodes))
				for i, n := range answer.Nodes {
					rows[i] = []any{n.Name, n.State, n.Address, n.Version, n.ZoneRelease, n.StartedAt,
						n.SeenAt}
				}
				return listing([]string{"name", "state", "address", "version", "time zones", "started",
					"last seen"}, rows)
			})
		},
	}
}

func (a *app) drainCommand() *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:   "drain NAME",
		Short: "Move every bucket of an instance elsewhere, without stopping requests",
		Long: `Moves the buckets of an instance to the others, one by one, and removes their keys from
it. New buckets are placed elsewhere until 'budgetctl instances undrain'. The service does the work:
interrupting the command only stops watching, and repeating it resumes watching.`,
		Example: `  budgetctl instances drain redis-2
  budgetctl instances drain redis-2 --wait=false`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, args []string) error { return a.drain(cmd, args[0], wait) },
	}
	cmd.Flags().BoolVar(&wait, "wait", true, "wait until it is done")
	return cmd
}

// drain begins a drain and, with --wait, watches it to its end.
func (a *app) drain(cmd *cobra.Command, name string, wait bool) error {
	const pause = time.Second // by then every node knows of the drain
	c, err := a.client()
	if err != nil {
		return err
	}
	var shown *progress
	said := ""
	for {
		d, err := a.askToDrain(cmd.Context(), c, name)
		if err == nil && d.Problem != said && !d.Done {
			if said = d.Problem; said != "" { // also with --progress never: a person has to act
				fmt.Fprintln(a.stderr, "The drain waits: "+printable(said)+".")
			}
		}
		if err == nil && wait && !d.Done {
			if shown == nil {
				shown = a.newProgress(d.BucketsLeft + d.Moved)
				defer shown.finish()
			}
			shown.show(d.Moved)
			select {
			case <-cmd.Context().Done():
				return cmd.Context().Err()
			case <-time.After(pause):
			}
			if err := a.stillDraining(cmd.Context(), c, name); err != nil {
				return err
			}
			continue
		}
		if shown != nil {
			shown.finish()
		}
		if err != nil {
			return err
		}
		return a.show(d, func() string { return drained(d) })
	}
}

func (a *app) askToDrain(
	ctx context.Context, c *client.Client, name string,
) (*client.Drain, error) {
	ctx, done := a.bounded(ctx)
	defer done()
	return c.DrainInstance(ctx, name)
}

// stillDraining fails if the drain was ended. The call that asks for progress would begin it again.
func (a *app) stillDraining(ctx context.Context, c *client.Client, name string) error {
	ctx, done := a.bounded(ctx)
	defer done()
	list, err := c.Instances(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(list.Instances, func(i client.Instance) bool {
		return i.Name == name &&
			i.Draining
	}) {
		return nil
	}
	return fmt.Errorf("%s is not being drained any more: somebody has ended the drain with "+
		"'budgetctl instances undrain'; "+
		"buckets that have left it stay where they are", name)
}

func (a *app) undrainCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "undrain NAME",
		Short:   "Place buckets on an instance again",
		Long:    `Ends a drain. Buckets that have left the instance stay where they are.`,
		Example: `  budgetctl instances undrain redis-2`,
		Args:    arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Drain, error) {
				return c.UndrainInstance(ctx, args[0])
			}, drained)
		},
	}
}

func (a *app) recoverCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "recover NAME",
		Short: "Take an instance that lost its memory back into service",
		Long: `Does at once what the service otherwise does when it notices that an instance came back
with another memory. In store mode, what its buckets held goes to quarantine, or back to the total
if the budget has on_loss assume_unused; the buckets start empty. Nothing happens if the instance
still has its memory. In ledger mode there is nothing to recover.`,
		Example: `  budgetctl instances recover redis-2`,
		Args:    arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Instance, error) {
				return c.RecoverInstance(ctx, args[0])
			},
				func(i *client.Instance) string {
					return partitions(
						&client.InstanceList{Instances: []client.Instance{*i}})
				})
		},
	}
}

func (a *app) giveUpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "give-up NAME",
		Short: "Give up an instance of store mode that does not come back",
		Long: `Ends the buckets of an instance that is down for good. What they held goes to
quarantine, until 'budgetctl release' says whether it was sold, or back to the total if the budget
has on_loss assume_unused. The instance is drained: its buckets move to other instances, which do
not know earlier request ids. The command is refused while the instance answers (instance_answers).
In ledger mode it loses nothing.`,
		Example: `  budgetctl instances give-up redis-2`,
		Args:    arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Drain, error) {
				return c.GiveUpInstance(ctx, args[0])
			}, func(d *client.Drain) string {
				return drained(d) + "\n" + details(field{"quarantined", d.Quarantined},
					field{"returned", d.Returned})
			})
		},
	}
}

func (a *app) rebalanceCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "rebalance",
		Short: "Give new and returned instances their share of the buckets",
		Long: `Moves buckets so that each instance has equally many of each budget. In ledger mode
requests continue during a move; in store mode the requests of the moving bucket are unavailable.
Repeating the command moves what is left.`,
		Example: `  budgetctl instances rebalance --dry-run
  budgetctl instances rebalance`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Rebalance, error) {
				return c.Rebalance(ctx, dryRun)
			}, rebalanced)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "move nothing, and show what would move")
	return cmd
}

// rebalanced formats what a rebalance moved.
func rebalanced(r *client.Rebalance) string {
	rows := make([][]any, len(r.Moves))
	for i, m := range r.Moves {
		rows[i] = []any{m.Bucket, m.From, m.To}
	}
	out := details(field{"budgets", r.Budgets}, field{"misplaced", r.Misplaced},
		field{"moved", r.Moved}, field{"problem", r.Problem})
	if len(rows) == 0 {
		return out
	}
	return out + "\n" + listing([]string{"bucket", "from", "to"}, rows)
}

// drained formats the progress of a drain.
func drained(d *client.Drain) string {
	return details(field{"instance", d.Instance}, field{"draining", d.Draining},
		field{"buckets left", d.BucketsLeft},
		field{"moved", d.Moved}, field{"keys left", d.KeysLeft}, field{"done", d.Done},
		field{"problem", d.Problem})
}

// partitions formats the instances, a row per partition.
func partitions(answer *client.InstanceList) string {
	var rows [][]any
	for _, i := range answer.Instances {
		for _, l := range i.Partitions {
			var buckets any = ""
			if l.Buckets != nil {
				buckets = *l.Buckets
			}
			rows = append(rows, []any{i.Name, i.Driver, i.Health, l.Partition, l.Incarnation, l.Reachable,
				buckets, i.Draining, l.Problem})
		}
	}
	return listing([]string{"instance", "driver", "health", "partition", "incarnation", "reachable",
		"buckets", "draining", "problem"}, rows)
}

// build is the answer of `budgetctl version`.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitzero"`
	Go       string `json:"go"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the version of budgetctl",
		Example: `  budgetctl version`,
		Args:    arguments,
		RunE: func(*cobra.Command, []string) error {
			b := build{Version: version(), Go: runtime.Version()}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, setting := range info.Settings {
					if setting.Key == "vcs.revision" {
						b.Revision = setting.Value
					}
				}
			}
			return a.show(b, func() string {
				return details(field{"version", b.Version}, field{"revision", b.Revision}, field{"go", b.Go})
			})
		},
	}
}
