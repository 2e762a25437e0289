package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/strictyaml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// defaultServer is where budgetd listens by default.
const defaultServer = "http://127.0.0.1:8080"

// app is the state of one command line: its streams and the flags of all commands.
type app struct {
	getenv         func(string) string
	stdout, stderr io.Writer

	server, tenant, config, output string
	timeout                        time.Duration
	progress                       string          // auto, always or never
	warned                         map[string]bool // files with a secret that others may read
	credentials
}

const rootHelp = `budgetctl creates, uses and inspects budgets through budgetd's HTTP API.

The server is the first of: --server, BUDGETCTL_SERVER, the listen key of the --config file
(budgetd's own config.yaml), the profile of 'budgetctl login',
` + defaultServer + `. It may be a comma-separated list of
equal nodes: if one does not answer, the next one is called.

The key is the first of: --token-file, BUDGETCTL_TOKEN or BUDGETCTL_TOKEN_FILE, the profile. It
cannot be given on the command line, where others can read it.

What takes longer than 2 s shows on stderr how far it is, if stderr is a terminal. In a job whose
output goes to a log, --progress always writes it as lines; --progress never writes nothing.

Amounts and quantities are whole numbers of minor units, 1 to 9007199254740991. BUDGET is a name or
an id.

Exit status:
  0  done
  1  error: an object does not exist, the request is invalid, a file cannot be read, or the server
     had an internal error while reading
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
		Short: "Create, use and inspect budgets",
		Long:  rootHelp,
		Example: `  budgetctl create spring-sale --total 1000000 --type promo --buckets 8
  budgetctl deduct spring-sale 5 --request-id o1
  budgetctl get spring-sale -o json
  budgetctl recycle spring-sale --progress always 2>> recycle.log`,
		SilenceErrors: true,
		// The distance that cobra's own suggestions use.
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
		"base URL of budgetd, or a comma-separated list of nodes (default "+defaultServer+")")
	flags.StringVar(&a.tenant, "tenant", "", "tenant of the budgets (default \"default\")")
	flags.StringVar(&a.config, "config", "", "budgetd's config.yaml, for its listen address")
	flags.StringVarP(&a.output, "output", "o", "table",
		"format of the data: "+strings.Join(formats, ", "))
	flags.DurationVar(&a.timeout, "timeout", 30*time.Second,
		"longest time for one call with its repeats")
	flags.StringVar(&a.progress, "progress", "auto",
		"progress on stderr: auto (on a terminal), always (lines, as for a log) or never")
	a.credentials.flags(flags)
	must(root.RegisterFlagCompletionFunc("progress",
		cobra.FixedCompletions(progresses, cobra.ShellCompDirectiveNoFileComp)))
	must(root.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
	must(root.MarkPersistentFlagFilename("config", "yaml", "yml"))
	root.SetFlagErrorFunc(flagError)
	a.addCommands(root)
	plainNumbers(root)
	return root
}

// decimal is the value of a flag for a whole number. Without it, 010 is 8.
type decimal struct{ pflag.Value }

func (d decimal) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text {
		return errors.New("must be a whole number such as 10")
	}
	return d.Value.Set(text)
}

// plainNumbers makes all flags for whole numbers decimal.
func plainNumbers(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if kind := f.Value.Type(); kind == "int" || kind == "int64" {
			f.Value = decimal{f.Value}
		}
	})
	for _, below := range cmd.Commands() {
		plainNumbers(below)
	}
}

// addCommands adds the commands, in the groups that --help shows.
func (a *app) addCommands(root *cobra.Command) {
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"budgets", "Budgets:", []*cobra.Command{a.createCommand(), a.getCommand(), a.listCommand(),
			a.setCommand(),
			a.statusCommand("pause", budget.Paused, "Refuse deductions until the budget is resumed"),
			a.resumeCommand(),
			a.appendCommand(), a.shrinkCommand(), a.bulkCommand(), a.archiveCommand(), a.closeCommand(),
			a.deleteCommand(),
			a.exportBudgetsCommand()}},
		{"deductions", "Deductions:", []*cobra.Command{a.deductCommand(), a.confirmCommand(),
			a.extendCommand(), a.renewCommand(), a.rollbackCommand(), a.cancelCommand(), a.checkCommand()}},
		{"looks", "What has happened:", []*cobra.Command{a.usageCommand(), a.nearestCommand(),
			a.holdsCommand(),
			a.ledgerCommand(), a.seriesCommand(), a.watchCommand(), a.explainCommand(), a.auditCommand(),
			a.auditLogCommand()}},
		{"alerts", "Alerts:", []*cobra.Command{a.alertsCommand(), a.thresholdsCommand(),
			a.webhooksCommand()}},
		{"buckets", "Buckets and stores:", []*cobra.Command{a.bucketsCommand(), a.offlineCommand(),
			a.onlineCommand(), a.declaring(a.applyCommand()), a.recycleCommand(),
			a.quarantineCommand(), a.releaseCommand(), a.instancesCommand(),
			a.nodesCommand(), a.readyCommand()}},
		{"access", "Access:", []*cobra.Command{a.loginCommand(), a.logoutCommand(), a.whoamiCommand(),
			a.keysCommand()}},
		{"tools", "Tools:", []*cobra.Command{a.replayCommand(), a.benchCommand(), a.drillCommand(),
			a.mcpCommand(), a.versionCommand()}},
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

// checkFlags refuses invalid values of the common flags.
func (a *app) checkFlags() error {
	if !slices.Contains(formats, a.output) {
		return usagef("--output %q: must be one of %s", a.output, strings.Join(formats, ", "))
	}
	if !slices.Contains(progresses, a.progress) {
		return usagef("--progress %q: must be one of %s", a.progress, strings.Join(progresses, ", "))
	}
	if a.timeout <= 0 {
		return usagef("--timeout %s: must be above 0", a.timeout)
	}
	if why := budget.CheckName(a.tenant); a.tenant != "" && why != "" {
		return usagef("--tenant %q: %s", a.tenant, why)
	}
	return nil
}

// client returns a client for the server that the command line, the environment or a profile names,
// with its key and certificates.
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
	document, err := strictyaml.Parse(text)
	if err == nil && document != nil {
		err = document.Decode(&file)
	}
	if err != nil {
		return "", usagef("--config %s: %v", a.config, err)
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

// reachable returns the URL, on this machine, of a server that listens on an address. A server that
// listens on every address is reached through the loopback.
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

// call makes one call and shows its answer in the selected format. layout makes the table.
func call[T any](a *app, cmd *cobra.Command,
	ask func(context.Context, *client.Client) (T, error), layout func(T) string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	ctx, done := a.bounded(cmd.Context())
	answer, err := ask(ctx, c)
	done()
	if err != nil {
		return err
	}
	return a.show(answer, func() string { return layout(answer) })
}

// knownCommand refuses an argument of the root command: it is the name of an unknown command.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("there is no command %q%s", args[0], didYouMean(root, args[0]))
}

// didYouMean returns a question for the commands below root that are named like an unknown one.
func didYouMean(root *cobra.Command, name string) string {
	close := root.SuggestionsFor(name)
	if len(close) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(close, " or ") + "?"
}

// flagError returns the error for a wrong flag, with a suggestion. It takes a negative number for
// an amount.
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

// apiNames maps names of the API to flags that are called otherwise.
var apiNames = map[string]string{"total-quantity": "total", "bucket-quantity": "buckets",
	"sharding-quantity": "sharding", "end-at": "end", "start-at": "start", "type-rule": "every",
	"hold-ttl": "hold", "dimensions": "dimension", "limits": "limit", "counts": "count",
	"tz": "timezone", "zone": "timezone"}

// likeFlag returns the flag of a command that a wrong name probably means, or "".
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
