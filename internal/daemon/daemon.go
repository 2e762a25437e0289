// Package daemon runs the process: it reads the configuration, opens the database and the stores,
// serves, and stops in the reverse order. It is the only package that knows all parts.
package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/iana"
	"github.com/budgetd/budgetd/internal/config"
	sqlaccess "github.com/budgetd/budgetd/internal/sql/access"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// Exit statuses, as --help states them.
const (
	statusDone   = 0
	statusFailed = 1
	statusUsage  = 2
)

const help = `budgetd hands out budgets, stock and quotas, exactly once.

Usage: budgetd [--config FILE] [--check-config [--connect]] [--insecure-listen] [--version] [--help]
       budgetd keys bootstrap [--config FILE]

Without arguments it serves on 127.0.0.1:8080 with everything embedded; data in ./data.

  --config FILE    keys that differ from the defaults; config.yaml documents them all
  --check-config   report every fault of the configuration, or "config ok", and end
  --connect        with --check-config, also connect to the database and to every instance
  --insecure-listen
                   with auth: none, listen on other addresses than loopback: everybody who reaches
                   them may do everything
  --version        print the version and end
  --help           print this and end

keys bootstrap makes the key of the first administrator in a database without keys, and prints it,
once.

Environment: BUDGETD_SECTION_KEY goes before the file, such as BUDGETD_LISTEN=127.0.0.1:0.
Signals: SIGTERM or SIGINT stops accepting, finishes what is under way and ends; a second one ends
at once.
Exit status: 0 stopped by a signal, or the configuration is right; 1 it could not start or serve;
2 wrong usage or configuration.
`

// Run runs the process until ctx has ended and everything has stopped, or until it fails to start.
// It returns the exit status. environ has the form of os.Environ: finding unknown variables takes
// all of them.
func Run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("budgetd", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {}
	file := flags.String("config", "", "")
	check := flags.Bool("check-config", false, "")
	insecure := flags.Bool("insecure-listen", false, "")
	version := flags.Bool("version", false, "")
	connect := flags.Bool("connect", false, "")
	first := new(bool)
	if len(args) >= len(bootstrapWords) &&
		slices.Equal(args[:len(bootstrapWords)], bootstrapWords) {
		*first, args = true, args[len(bootstrapWords):]
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, help)
		return statusDone
	case err != nil:
		fmt.Fprintln(stderr, "budgetd: see budgetd --help")
		return statusUsage
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "budgetd: %q is no argument; see budgetd --help\n", flags.Arg(0))
		return statusUsage
	}
	if *version {
		fmt.Fprintf(stdout, "budgetd %s (%s, IANA %s)\n", buildVersion(), runtime.Version(),
			iana.Release())
		return statusDone
	}
	c, err := config.Load(*file, environ)
	if err != nil {
		fmt.Fprintln(stderr, "budgetd:", err)
		return statusUsage
	}
	faults, warnings := c.Exposure(*insecure)
	if !inPod(environ) { // there the files belong to root, and the pod reads them by its group
		warnings = append(warnings, c.Readable()...)
	}
	if c.Database.Driver == config.MySQL {
		if err := engine.CheckDSN(c.Database.DSN.Reveal()); err != nil {
			faults = append(faults, config.Fault{Key: "database.dsn", Want: err.Error()})
		}
	}
	if len(faults) > 0 {
		fmt.Fprintln(stderr, "budgetd:", faults)
		return statusUsage
	}
	if *check {
		return checked(ctx, c, warnings, *connect, stdout, stderr)
	}
	if *first {
		return bootstrap(ctx, c, stdout, stderr)
	}
	if inPod(environ) && c.Stop.Notice == 0 {
		c.Stop.Notice = podNotice
	}
	spareCollector(ctx, environ)
	log, notes := logger(c.Log, c.NodeName(), stderr)
	for _, warning := range warnings {
		log.Warn("unsafe configuration", "problem", warning)
	}
	if err := serve(ctx, c, *file, log, notes); err != nil {
		fmt.Fprintln(stderr, "budgetd:", err)
		return statusFailed
	}
	return statusDone
}

// checked reports on a configuration without faults. With connect it also connects to the database
// and the instances.
func checked(ctx context.Context, c config.Config, warnings []string, connect bool,
	stdout, stderr io.Writer) int {
	for _, warning := range warnings {
		fmt.Fprintln(stdout, "warning:", warning)
	}
	if connect {
		log, _ := logger(config.Log{Level: slog.LevelWarn}, c.NodeName(), stdout)
		if err := tryConnections(ctx, c, log); err != nil {
			fmt.Fprintln(stderr, "budgetd:", err)
			return statusFailed
		}
	}
	fmt.Fprintln(stdout, "config ok")
	return statusDone
}

// podNotice replaces a stop.notice of 0s in a pod, because Kubernetes continues to send requests to
// a pod for a moment after it tells the pod to stop.
const podNotice = 5 * time.Second

// inPod reports whether the process runs in a Kubernetes pod.
func inPod(environ []string) bool {
	return slices.ContainsFunc(environ, func(variable string) bool {
		return strings.HasPrefix(variable, "KUBERNETES_SERVICE_HOST=")
	})
}

// bootstrapWords are the arguments of the command that creates the first key.
var bootstrapWords = []string{"keys", "bootstrap"}

// bootstrap creates the key of the first administrator and prints it.
func bootstrap(ctx context.Context, c config.Config, stdout, stderr io.Writer) int {
	token, err := access.NewToken(rand.Reader)
	if err == nil {
		err = keepFirst(ctx, c, token)
	}
	if err != nil {
		fmt.Fprintln(stderr, "budgetd:", err)
		return statusFailed
	}
	fmt.Fprintln(stderr, "The key is shown only once: keep it now.")
	fmt.Fprintln(stdout, token.Reveal())
	return statusDone
}

// keepFirst stores a token as the first administrator's key.
func keepFirst(ctx context.Context, c config.Config, token access.Token) error {
	db, err := openDatabase(ctx, c.Database, slog.New(slog.DiscardHandler))
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	made, err := (&sqlaccess.Keys{DB: db}).First(ctx, token, "budgetd keys bootstrap")
	if err == nil && !made {
		err = errors.New("there are keys already: an administrator creates further ones")
	}
	return errors.Join(err, db.Close())
}

// tryConnections opens the database and reads the clock of every instance.
func tryConnections(ctx context.Context, c config.Config, log *slog.Logger) error {
	g, err := open(ctx, c, log)
	defer g.close(slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	var faults []error
	for _, partition := range g.partitions {
		if err := g.Ping(ctx, partition); err != nil {
			faults = append(faults, fmt.Errorf("instance %s: %w", partition, err))
		}
	}
	return errors.Join(faults...)
}

// buildVersion returns the module's version, or the commit that was built.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (version == "" || version == "(devel)") {
			return s.Value
		}
	}
	if version == "" {
		return "(devel)"
	}
	return version
}

// buildCommit returns the commit that was built, or "" if it is unknown.
func buildCommit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
