// Command budgetd serves budgets: see `budgetd --help` and config.yaml.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	_ "golang.org/x/crypto/x509roots/fallback" // authorities, where the machine has none

	"github.com/budgetd/budgetd/internal/daemon"
)

func main() {
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal stops gracefully; from then on the next one ends the process at once.
	context.AfterFunc(ctx, release)
	os.Exit(daemon.Run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
