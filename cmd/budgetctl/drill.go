package main

import (
	"os/signal"
	"syscall"
	"time"

	"github.com/budgetd/budgetd/cmd/budgetctl/drill"
	"github.com/spf13/cobra"
)

const drillHelp = `Starts budgetd with MariaDB and two Redis in a sandbox, breaks them one after
the other while callers deduct, and shows what happens to the units. At the end the service's audit
and the record of all answers must agree to the last unit.

The faults: a budgetd is killed; replies of all servers are lost after the request was carried out;
a Redis comes back empty; a Redis comes back with old data; MariaDB is killed. They happen to a
budget in ledger mode and to one in store mode. Then both are sold out.

budgetd is the one beside budgetctl, or on PATH. Without mariadbd the drill uses SQLite and one
budgetd. Without redis-server it leaves out the faults of Redis. It needs no running service and
affects none: everything listens on 127.0.0.1 and keeps its files in one temporary directory. All of
it is removed at the end, also after Ctrl-C.

With --caller another program makes the calls, so that its client is drilled too. It runs once per
caller, by the shell, with BUDGETD_URL and the number BUDGETD_CALLER. It reads one call per line
from stdin, and writes one result per line to stdout, in JSON:

  {"op": "deduct", "budget": "ledger", "request": {"request_id": "o1", "key": "o1", "amount": 5}}
  {"answer": {"request_id": "o1", "state": "used", "amount": 5}}
  {"error": {"kind": "refused", "code": "budget_exhausted", "cancelled": false, "message": ""}}

The other op is cancel. kind is refused, conflict, not_now, unknown or faulty. The examples of
sdk/python and sdk/java have such programs.

Exit status: 0 if every unit is accounted for, 1 if not or if the drill could not be carried out.`

func (a *app) drillCommand() *cobra.Command {
	var short bool
	o := drill.Options{Patience: 30 * time.Second}
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Break a sandboxed budgetd in every way, and account for every unit",
		Long:  drillHelp,
		Example: `  budgetctl drill
  budgetctl drill --short
  budgetctl drill --short --caller 'PYTHONPATH=sdk/python python3 sdk/python/examples/caller.py'
  budgetctl drill --short --plant    # see it fail: the record has a unit that was never deducted`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Budgetd, "budgetd", "", "path of budgetd")
	flags.IntVar(&o.Rounds, "rounds", 3, "how often everything breaks")
	flags.BoolVar(&short, "short", false, "one round, and fewer deductions between the faults")
	flags.BoolVar(&o.Plant, "plant", false,
		"add a deduction that never happened to the record: the verdict must be a failure")
	flags.StringVar(&o.Caller, "caller", "", "command of the program that makes the calls")
	flags.BoolVar(&o.Keep, "keep", false, "keep the files of the servers")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Rounds < 1 {
			return usagef("--rounds %d: must be 1 or more", o.Rounds)
		}
		if o.Each = 200; short {
			o.Rounds, o.Each = 1, 20
		}
		signal.Ignore(syscall.SIGPIPE) // a closed stdout ends the drill in order
		return drill.Run(cmd.Context(), o, a.stdout)
	}
	return cmd
}
