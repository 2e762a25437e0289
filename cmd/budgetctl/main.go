// Budgetctl creates, uses and inspects budgets through budgetd's HTTP API. `budgetctl --help` lists
// its commands and exit statuses.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	_ "golang.org/x/crypto/x509roots/fallback" // used if the machine has no certificate authorities
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is the whole program. It carries out one command line and returns the exit status. Data goes
// to stdout, messages for a person to stderr.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer,
) int {
	a := &app{getenv: getenv, stdout: stdout, stderr: stderr}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	fmt.Fprint(stderr, explain(command.CommandPath(), err))
	return exitStatus(err)
}
