package main

import (
	"os/signal"
	"syscall"
	"time"

	"github.com/budgetd/budgetd/cmd/budgetctl/drill"
	"github.com/spf13/cobra"
)

const drillHelp = `Starts budgetd with MariaDB and two Redis in a sandbox of its own, breaks
them one after the other while callers deduct, and shows what happens to the units. At the end the
service's own audit and the book that the callers kept have to agree to the last unit.

What breaks: a budgetd is killed; replies of all servers are cut, after they did what they were
asked; a Redis comes back empty; a Redis comes back with old data; MariaDB is killed. All of it
happens to a budget in ledger mode and one in store mode, and then both are sold out.

budgetd is the one beside budgetctl, or on PATH. Where mariadbd is not installed the drill uses
SQLite and one budgetd; where redis-server is not, it leaves out what needs a Redis. It needs no
running service and touches none: everything listens on 127.0.0.1 and keeps its files in one
temporary directory, and all of it is gone at the end, after Ctrl-C too.

Exit status: 0 every unit is accounted for, 1 not, or the drill could not be carried out.`

func (a *app) drillCommand() *cobra.Command {
	var short bool
	o := drill.Options{Patience: 30 * time.Second}
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Break a budgetd of its own in every way, and account for every unit",
		Long:  drillHelp,
		Example: `  budgetctl drill
  budgetctl drill --short
  budgetctl drill --short --plant    # see it fail: the book is told of a unit that nobody took`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Budgetd, "budgetd", "", "path of budgetd")
	flags.BoolVar(&o.SQLite, "sqlite", false, "use SQLite even where mariadbd is installed")
	flags.BoolVar(&o.NoRedis, "no-redis", false, "use no Redis even where redis-server is installed")
	flags.IntVar(&o.Rounds, "rounds", 3, "how often everything breaks")
	flags.BoolVar(&short, "short", false, "one round, and fewer deductions between the faults")
	flags.BoolVar(&o.Plant, "plant", false,
		"tell the book of a deduction that never happened: the verdict must notice")
	flags.BoolVar(&o.Keep, "keep", false, "leave the files of the servers")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Rounds < 1 {
			return usagef("--rounds %d: must be 1 or more", o.Rounds)
		}
		if o.Each = 200; short {
			o.Rounds, o.Each = 1, 20
		}
		signal.Ignore(syscall.SIGPIPE) // a reader that leaves ends the drill in order
		return drill.Run(cmd.Context(), o, a.stdout)
	}
	return cmd
}
