package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// defaultServer is where budgetd listens when nobody tells it otherwise.
const defaultServer = "http://127.0.0.1:8080"

// app is one command line under way: where it reads and writes, and the flags of all commands.
type app struct {
	getenv         func(string) string
	stdout, stderr io.Writer

	server, tenant, config, output string
	timeout                        time.Duration
	credentials
}

const rootHelp = `budgetctl makes budgets, deducts from them and looks at them, through budgetd's
HTTP API.

The server is taken from --server, else from BUDGETCTL_SERVER, else from the listen key of the
--config file (budgetd's own config.yaml), else from the profile of 'budgetctl login', else it is
` + defaultServer + `. Several addresses, with commas
between, are those of equal nodes: where one does not answer, the next one is called.

A key is taken from --token-file, else from BUDGETCTL_TOKEN or BUDGETCTL_TOKEN_FILE, else from the
profile. It cannot be given on the command line, where others can read it.

Amounts and quantities are whole numbers of minor units, 1 to 9007199254740991. A budget is
named by its name or its id.

Exit status:
  0  done
  1  error: what was named does not exist, the server found the request invalid, a file cannot be
     read, an internal error of the server while reading
  2  usage: the command line is wrong; nothing was sent
  3  refused, and nothing was changed:
       the state says no   budget_exhausted period_exhausted limit_exceeded budget_paused
                           budget_not_effective budget_expired amount_exceeds_remaining
                           last_bucket and every other 409 and 429
       a conflict with     request_conflict request_void already_rolled_back name_taken
       what is recorded    version_conflict
  4  the audit found a discrepancy
  5  the server is not reachable or unavailable, or the outcome is unknown: repeat the command with
     the same request id`

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "budgetctl",
		Short: "Make budgets, deduct from them and look at them",
		Long:  rootHelp,
		Example: `  budgetctl create spring-sale --total 1000000 --type promo --buckets 8
  budgetctl deduct spring-sale 5 --request-id o1
  budgetctl get spring-sale -o json`,
		SilenceErrors: true,
		// The distance of cobra's own suggestions.
		SuggestionsMinimumDistance: 2,
		SilenceUsage:               true,
		Args:                       knownCommand,
		RunE: func(*cobra.Command, []string) error {
			return usagef("which command?")
		},
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.checkFlags() },
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.server, "server", "",
		"base URL of budgetd, or those of several nodes with commas between (default "+defaultServer+")")
	flags.StringVar(&a.tenant, "tenant", "", "tenant whose budgets are meant (default \"default\")")
	flags.StringVar(&a.config, "config", "", "budgetd's config.yaml, for its listen address")
	flags.StringVarP(&a.output, "output", "o", "table",
		"format of the data: "+strings.Join(formats, ", "))
	flags.DurationVar(&a.timeout, "timeout", 30*time.Second,
		"longest time for one call with its repeats")
	a.credentials.flags(flags)
	must(root.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
	must(root.MarkPersistentFlagFilename("config", "yaml", "yml"))
	root.SetFlagErrorFunc(flagError)
	a.addCommands(root)
	return root
}

// addCommands adds the commands in the groups in which --help shows them.
func (a *app) addCommands(root *cobra.Command) {
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"budgets", "Budgets:", []*cobra.Command{a.createCommand(), a.getCommand(), a.listCommand(),
			a.setCommand(), a.pauseCommand(), a.resumeCommand(), a.appendCommand(), a.shrinkCommand(),
			a.archiveCommand(), a.exportBudgetsCommand()}},
		{"deductions", "Deductions:", []*cobra.Command{a.deductCommand(), a.confirmCommand(),
			a.extendCommand(), a.rollbackCommand(), a.cancelCommand(), a.checkCommand()}},
		{"looks", "What has happened:", []*cobra.Command{a.usageCommand(), a.ledgerCommand(),
			a.seriesCommand(), a.watchCommand(), a.explainCommand(), a.auditCommand(),
			a.auditLogCommand()}},
		{"alerts", "Alerts:", []*cobra.Command{a.alertsCommand(), a.thresholdsCommand(),
			a.webhooksCommand()}},
		{"buckets", "Buckets and stores:", []*cobra.Command{a.bucketsCommand(), a.offlineCommand(),
			a.onlineCommand(), a.declaring(a.applyCommand()), a.unfenceCommand(), a.recycleCommand(),
			a.quarantineCommand(), a.releaseCommand(), a.instancesCommand(),
			a.nodesCommand()}},
		{"access", "Access:", []*cobra.Command{a.loginCommand(), a.logoutCommand(), a.whoamiCommand(),
			a.keysCommand()}},
		{"tools", "Tools:", []*cobra.Command{a.replayCommand(), a.benchCommand(), a.drillCommand(),
			a.versionCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, cmd := range group.commands {
			cmd.GroupID = group.id
			root.AddCommand(cmd)
		}
	}
	a.completeFirst(root)
	root.SetHelpCommandGroupID("tools")
	root.SetCompletionCommandGroupID("tools")
}

// checkFlags refuses values of the common flags that no command can work with.
func (a *app) checkFlags() error {
	if !slices.Contains(formats, a.output) {
		return usagef("--output %q: must be one of %s", a.output, strings.Join(formats, ", "))
	}
	if a.timeout <= 0 {
		return usagef("--timeout %s: must be above 0", a.timeout)
	}
	if why := budget.CheckName(a.tenant); a.tenant != "" && why != "" {
		return usagef("--tenant %q: %s", a.tenant, why)
	}
	return nil
}

// client returns a client for the server that the command line, the environment, a file or a
// profile names, with its key and certificates.
func (a *app) client(options ...client.Option) (*client.Client, error) {
	p, err := a.connect()
	if err != nil {
		return nil, err
	}
	return a.clientOf(p, options...)
}

func (a *app) address() (string, error) {
	switch {
	case a.server != "":
		return a.server, nil
	case a.getenv("BUDGETCTL_SERVER") != "":
		return a.getenv("BUDGETCTL_SERVER"), nil
	case a.config == "":
		return defaultServer, nil
	}
	text, err := os.ReadFile(a.config)
	if err != nil {
		return "", usagef("--config: %v", err)
	}
	var file struct {
		Listen string `yaml:"listen"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		why, _, _ := strings.Cut(yaml.FormatError(err, false, false), "\n")
		return "", usagef("--config %s: %s", a.config, why)
	}
	if file.Listen == "" {
		return defaultServer, nil
	}
	server, err := reachable(file.Listen)
	if err != nil {
		return "", usagef("--config %s: listen: %v", a.config, err)
	}
	return server, nil
}

// reachable returns the URL under which a server that listens on an address is reached from this
// machine: one that listens on every address is reached through the loopback.
func reachable(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", err
	}
	if port == "0" {
		return "", errors.New("port 0 is chosen when budgetd starts; name the server with --server")
	}
	switch ip := net.ParseIP(host); {
	case host == "", ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		host = "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		host = "::1"
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

// call makes one call and shows its answer: the data in the format asked for, the table made by
// layout.
func call[T any](
	a *app, cmd *cobra.Command,
	ask func(context.Context, *client.Client) (T, error), layout func(T) string,
) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
	defer cancel()
	done := a.waiting()
	answer, err := ask(ctx, c)
	done()
	if err != nil {
		return err
	}
	return a.show(answer, func() string { return layout(answer) })
}

// knownCommand is the root's check of its arguments: there are none, so what is left is the name of
// a command that does not exist.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if close := root.SuggestionsFor(args[0]); len(close) > 0 {
		hint = "; did you mean " + strings.Join(close, " or ") + "?"
	}
	return usagef("there is no command %q%s", args[0], hint)
}

// flagError says that a flag is wrong, and which one was meant; what looks like a negative number
// was meant as an amount.
func flagError(cmd *cobra.Command, err error) error {
	var missing *pflag.NotExistError
	if errors.As(err, &missing) {
		if text := missing.GetSpecifiedShortnames(); text != "" && text[0] >= '0' && text[0] <= '9' {
			_, err := amount("-" + text)
			return err
		}
	}
	if missing != nil {
		if flag := likeFlag(cmd, missing.GetSpecifiedName()); flag != "" {
			return usagef("%v; did you mean --%s?", err, flag)
		}
	}
	return usagef("%v", err)
}

// apiNames are the flags for members that have another name in the API.
var apiNames = map[string]string{"total-quantity": "total", "bucket-quantity": "buckets",
	"sharding-quantity": "sharding", "end-at": "end", "start-at": "start", "type-rule": "every",
	"hold-ttl": "hold", "dimensions": "dimension", "limits": "limit", "counts": "count",
	"tz": "timezone", "zone": "timezone"}

// likeFlag returns the flag of a command that somebody may have meant by a name, "" if there is
// none.
func likeFlag(cmd *cobra.Command, name string) string {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if known := apiNames[name]; known != "" && cmd.Flags().Lookup(known) != nil {
		return known
	}
	like := ""
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if len(name) > 2 && !f.Hidden && like == "" &&
			(strings.HasPrefix(f.Name, name) || strings.HasPrefix(name, f.Name)) {
			like = f.Name
		}
	})
	return like
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("budgetctl's own commands: %v", err))
	}
}
