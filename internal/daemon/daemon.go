// Package daemon is the process: it reads the configuration, opens what the service lives on, serves,
// and stops in the reverse order. It is the only place that knows all parts.
package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"

	"github.com/budgetd/budgetd/internal/config"
	"github.com/budgetd/budgetd/internal/httpapi"
)

// Exit statuses, as --help states them.
const (
	statusDone   = 0
	statusFailed = 1
	statusUsage  = 2
)

const help = `budgetd hands out budgets, stock and quotas, exactly once.

Usage: budgetd [--config FILE] [--check-config] [--insecure-listen] [--version] [--help]

Without arguments it serves on 127.0.0.1:8080 with everything embedded; data in ./data.

  --config FILE    keys that differ from the defaults; config.yaml documents them all
  --check-config   report every fault of the configuration, or "config ok", and end
  --insecure-listen
                   with auth: none, listen on other addresses than loopback: everybody who reaches
                   them may do everything
  --version        print the version and end
  --help           print this and end

Environment: BUDGETD_SECTION_KEY goes before the file, such as BUDGETD_LISTEN=127.0.0.1:0.
Signals: SIGTERM or SIGINT stops accepting, finishes what is under way and ends; a second one ends
at once.
Exit status: 0 stopped by a signal, or the configuration is right; 1 it could not start or serve;
2 wrong usage or configuration.
`

// Run is the whole process: it returns its exit status once ctx has ended and everything is stopped,
// or when it cannot start. environ is as of os.Environ: unknown variables can only be found in the
// whole.
func Run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("budgetd", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {}
	file := flags.String("config", "", "")
	check := flags.Bool("check-config", false, "")
	insecure := flags.Bool("insecure-listen", false, "")
	version := flags.Bool("version", false, "")
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
		fmt.Fprintf(stdout, "budgetd %s (%s)\n", buildVersion(), runtime.Version())
		return statusDone
	}
	c, err := config.Load(*file, environ)
	if err != nil {
		fmt.Fprintln(stderr, "budgetd:", err)
		return statusUsage
	}
	faults, warnings := c.Exposure(*insecure)
	faults = append(faults, notYet(c)...)
	if len(faults) > 0 {
		fmt.Fprintln(stderr, "budgetd:", faults)
		return statusUsage
	}
	if *check {
		for _, warning := range warnings {
			fmt.Fprintln(stdout, "warning:", warning)
		}
		fmt.Fprintln(stdout, "config ok")
		return statusDone
	}
	spareCollector(ctx, environ)
	log := logger(c.Log, stderr)
	for _, warning := range warnings {
		log.Warn("unsafe configuration", "problem", warning)
	}
	if err := serve(ctx, c, log); err != nil {
		fmt.Fprintln(stderr, "budgetd:", err)
		return statusFailed
	}
	return statusDone
}

// notYet returns the keys that are understood and not obeyed in this version: a server that does not
// check keys must not start as if it did.
func notYet(c config.Config) config.Faults {
	var faults config.Faults
	for key, set := range map[string]bool{"auth": c.Auth == config.ByKeys, "tls": c.TLS.CertFile != "",
		"listeners": c.Listeners != config.Listeners{}, "database.tls": c.Database.TLS.Enabled,
		"audit_log": c.AuditLog.Keep != 0} {
		if set {
			faults = append(faults, config.Fault{Key: key, Want: "is not available in this version"})
		}
	}
	return faults
}

// logger writes to w as configured, with the ids of the request that a record belongs to.
func logger(c config.Log, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.Level}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if c.JSON {
		handler = slog.NewJSONHandler(w, options)
	}
	return slog.New(httpapi.LogHandler(handler))
}

// buildVersion is the module's version, or the commit that was built.
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
