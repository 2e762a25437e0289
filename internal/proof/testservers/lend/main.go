// Lend starts one MariaDB and one Redis and runs a command whose tests share them:
//
//	lend DIR COMMAND [ARGUMENT...]
//
// The servers keep their files below DIR, an existing directory, and end with the command. The exit
// status is the command's. scripts/test.sh runs all tests this way.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// startLimit bounds the start of both servers.
const startLimit = 2 * time.Minute

func main() {
	status, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "lend:", err)
	}
	os.Exit(status)
}

// run returns the exit status. A signal ends the command first, and then the servers.
func run(args []string) (status int, err error) {
	if len(args) < 2 {
		return 2, errors.New("lend DIR COMMAND [ARGUMENT...]")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	environment, err := testservers.Lend(starting, args[0])
	if err != nil {
		return 1, err
	}
	command := exec.CommandContext(ctx, args[1], args[2:]...)
	command.Env = append(os.Environ(), environment...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	err = command.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() > 0 {
		return ended.ExitCode(), nil
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}
