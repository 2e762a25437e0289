package main

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

func (a *app) instancesCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "instances",
		Short:   "Show the stores and their lanes",
		Example: `  budgetctl instances`,
		Args:    arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.InstanceList, error) {
				return c.Instances(ctx)
			}, lanes)
		},
	}
}

// lanes lays out the instances, a row per lane.
func lanes(answer *client.InstanceList) string {
	var rows [][]any
	for _, i := range answer.Instances {
		for _, l := range i.Lanes {
			rows = append(rows, []any{i.Name, i.Driver, i.Health, l.Lane, l.Activation, l.Reachable,
				l.Problem})
		}
	}
	return listing([]string{"instance", "driver", "health", "lane", "activation", "reachable",
		"problem"}, rows)
}

// build is what `budgetctl version` tells.
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
			b := build{Version: "(devel)", Go: runtime.Version()}
			if info, ok := debug.ReadBuildInfo(); ok {
				if info.Main.Version != "" {
					b.Version = info.Main.Version
				}
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
