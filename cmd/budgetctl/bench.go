package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/client/tlsfiles"
	"github.com/budgetd/budgetd/cmd/budgetctl/bench"
	"github.com/budgetd/budgetd/cmd/budgetctl/workload"
	"github.com/spf13/cobra"
)

const benchHelp = `Puts load on budgetd, measures throughput, latency and CPU time, and checks that
the budgets agree with every answer.

Without --rate the loop is closed: each of --connections callers sends its next call when the last
one is answered. With --rate calls are due at that rate, and latency counts from the instant at
which a call was due, even if it was sent late. A slow answer therefore shows in every call that it
delays.

Callers make deductions of --amount. --repeat-share of them repeat an accepted request id, which
must replay. --rollback-share of the accepted ones are rolled back. --users N gives each deduction
one of N values of --dimension.

BUDGET must exist unless --create is given. With --budgets N the load goes to BUDGET-1 to BUDGET-N
in equal parts. No other program may use these budgets during the run: at the end the accepted
deductions less those rolled back must equal what the budgets say is used, and their audits must be
ok. Otherwise the exit status is 4. Unknown outcomes are first settled by the same request id.

--pid NAME=PID adds the memory and CPU time of a process, in total and per deduction (Linux only).
CPU time includes the children that have ended. Refusals because something is used up and
"unavailable" are expected and counted. Any other answer gives exit status 1.`

// benchFlags are the flags of bench that are not members of the plan.
type benchFlags struct {
	plan    bench.Plan
	create  bool
	budgets int
	total   string
	kind    string
	made    client.CreateRequest
	limits  limitFlags
	pids    []string
}

func (a *app) benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench BUDGET",
		Short: "Put load on budgetd, measure it, and check every unit",
		Long:  benchHelp,
		Example: `  budgetctl bench load-1 --create --durability store --duration 30s --pid budgetd=4711
  budgetctl bench load-1 --rate 5000 --connections 256 --duration 1m -o json
  budgetctl bench load-2 --create --batch 100 --users 100000 \
    --limit name=per-user,dimension=user,window=day,max=1000`,
		Args: arguments,
	}
	f.addLoad(cmd)
	f.addBudget(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.made.Name, f.plan.Load.Timeout, f.plan.Tenant = args[0], a.timeout, a.tenant
		if err := firstOf(chosen(cmd, "durability"), reference(args[0]),
			f.read(cmd)); err != nil {
			return err
		}
		return a.bench(cmd.Context(), f)
	}
	return cmd
}

func (f *benchFlags) addLoad(cmd *cobra.Command) {
	flags, p := cmd.Flags(), &f.plan
	flags.IntVar(&p.Connections, "connections", 64, "connections, each with one call at a time")
	flags.Float64Var(&p.Load.Rate, "rate", 0, "calls a second; 0: as fast as they are answered")
	flags.DurationVar(&p.Load.Duration, "duration", 10*time.Second,
		"how long to measure; 0: until --calls")
	flags.Int64Var(&p.Load.Calls, "calls", 0, "calls to measure; 0: until --duration")
	flags.DurationVar(&p.Warmup, "warmup", 2*time.Second,
		"how long the load runs before it is measured")
	flags.IntVar(&p.Batch, "batch", 1, "deductions per call")
	flags.Int64Var(&p.Amount, "amount", 1, "units per deduction")
	flags.Float64Var(&p.RollbackShare, "rollback-share", 0,
		"share of the accepted deductions to roll back, 0 to 1")
	flags.Float64Var(&p.RepeatShare, "repeat-share", 0,
		"share of the deductions that repeat an accepted one, 0 to below 1")
	flags.IntVar(&p.Users, "users", 0, "number of values of --dimension; 0: no dimension is sent")
	flags.StringVar(&p.Dimension, "dimension", "user", "name of the dimension of --users")
	flags.StringArrayVar(&f.pids, "pid", nil, "NAME=PID of a process to measure; repeatable")
	flags.DurationVar(&p.Settle, "settle", 30*time.Second,
		"how long the budgets may take to agree after the load")
}

func (f *benchFlags) addBudget(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.budgets, "budgets", 1, "number of budgets, BUDGET-1 to BUDGET-N if more than one")
	flags.BoolVar(&f.create, "create", false, "create the budgets, of type promo")
	flags.StringVar(&f.total, "total", "1000000000000", "total of each created budget")
	flags.StringVar(&f.kind, "durability", "", "when \"accepted\" is sent: ledger or store")
	flags.IntVar(&f.made.BucketQuantity, "buckets", 8, "buckets of each created budget")
	flags.StringVar(&f.made.RoutingDimension, "routing-dimension", "",
		"dimension whose value selects the bucket; in store mode that of all limits")
	f.limits.add(cmd)
	choose(cmd, "durability", "ledger", "store")
}

// Bounds of a load.
const (
	maxBenchConnections = 10_000
	maxBenchBudgets     = 1_000_000
	maxBenchUsers       = 1_000_000_000
	maxBenchRate        = 10_000_000
)

// read checks the flags and completes the plan. It sends nothing.
func (f *benchFlags) read(cmd *cobra.Command) (err error) {
	if err := f.checkLoad(cmd); err != nil {
		return err
	}
	if !f.create {
		for _, name := range []string{"total", "durability", "buckets", "routing-dimension", "limit",
			"limits-file"} {
			if cmd.Flags().Changed(name) {
				return usagef("--%s goes with --create only", name)
			}
		}
	}
	if f.made.Limits, err = f.limits.read(cmd); err != nil {
		return err
	}
	if f.made.TotalQuantity, err = amount(f.total); err != nil {
		return err
	}
	if err := optionalText("routing-dimension", f.made.RoutingDimension); err != nil {
		return err
	}
	f.made.Unit, f.made.Type = budget.Count, budget.Promo
	f.made.Durability = budget.Durability(f.kind)
	name := f.made.Name
	f.plan.Budgets = []string{name}
	if f.budgets > 1 {
		f.plan.Budgets = make([]string, f.budgets)
		for i := range f.plan.Budgets {
			f.plan.Budgets[i] = name + "-" + strconv.Itoa(i+1)
		}
		if why := budget.CheckName(f.plan.Budgets[f.budgets-1]); why != "" {
			return usagef("budget %q with --budgets %d: %s", name, f.budgets, why)
		}
	}
	f.plan.IDPrefix = bench.NewIDPrefix()
	f.plan.Processes, err = processes(f.pids)
	return err
}

func (f *benchFlags) checkLoad(cmd *cobra.Command) error {
	p := &f.plan
	byCalls := cmd.Flags().Changed("calls") && !cmd.Flags().Changed("duration")
	if byCalls {
		p.Load.Duration = 0
	}
	why := budget.CheckName(p.Dimension)
	switch {
	case p.Connections < 1 || p.Connections > maxBenchConnections:
		return usagef("--connections %d: must be 1 to %d", p.Connections, maxBenchConnections)
	case !(p.Load.Rate >= 0 && p.Load.Rate <= maxBenchRate):
		return usagef("--rate %g: must be 0 to %d", p.Load.Rate, maxBenchRate)
	case p.Load.Duration < 0 || p.Warmup < 0 || p.Load.Calls < 0:
		return usagef("--duration, --warmup and --calls must not be negative")
	case p.Load.Duration == 0 && p.Load.Calls == 0:
		return usagef("--duration or --calls must be above 0")
	case p.Batch < 1 || p.Batch > client.MaxBatch:
		return usagef("--batch %d: must be 1 to %d", p.Batch, client.MaxBatch)
	case p.Amount < 1 || p.Amount > budget.MaxAmount:
		return usagef("--amount %d: must be 1 to %d", p.Amount, budget.MaxAmount)
	case !(p.RollbackShare >= 0 && p.RollbackShare <= 1):
		return usagef("--rollback-share %g: must be 0 to 1", p.RollbackShare)
	case !(p.RepeatShare >= 0 && p.RepeatShare < 1):
		return usagef("--repeat-share %g: must be 0 to below 1", p.RepeatShare)
	case p.Users < 0 || p.Users > maxBenchUsers:
		return usagef("--users %d: must be 0 to %d", p.Users, maxBenchUsers)
	case why != "":
		return usagef("--dimension %q: %s", p.Dimension, why)
	case f.budgets < 1 || f.budgets > maxBenchBudgets:
		return usagef("--budgets %d: must be 1 to %d", f.budgets, maxBenchBudgets)
	case f.made.BucketQuantity < 1:
		return usagef("--buckets %d: must be at least 1", f.made.BucketQuantity)
	case p.Settle <= 0:
		return usagef("--settle %s: must be above 0", p.Settle)
	}
	return nil
}

// processes reads --pid. The run checks that the processes exist.
func processes(texts []string) ([]workload.Process, error) {
	list := make([]workload.Process, len(texts))
	for i, text := range texts {
		name, number, found := strings.Cut(text, "=")
		pid, err := strconv.Atoi(number)
		if !found || name == "" || err != nil || pid < 1 {
			return nil, usagef("--pid %q: must be NAME=PID, such as budgetd=4711", text)
		}
		list[i] = workload.Process{Name: name, Pid: pid}
	}
	return list, nil
}

// bench creates the budgets if --create is given, runs, and shows the report, also that of a run
// that failed.
func (a *app) bench(ctx context.Context, f benchFlags) error {
	// The audit of a budget counts its rows, and there may be millions.
	c, err := a.client(
		client.WithRetry(client.Retry{AttemptTimeout: max(f.plan.Settle, 10*time.Second)}))
	if err != nil {
		return err
	}
	if err := a.aim(&f.plan, c.Server()); err != nil {
		return err
	}
	if f.create {
		if err := a.makeBudgets(ctx, c, f); err != nil {
			return err
		}
	}
	bar := a.newProgress(100)
	report, err := bench.Run(ctx, c, f.plan, func(share float64) { bar.show(int(share * 100)) })
	bar.finish()
	if err != nil {
		return err
	}
	if err := a.show(report, func() string { return benched(report) }); err != nil {
		return err
	}
	return benchVerdict(report)
}

// aim sets the server, the key and the certificates of the load.
func (a *app) aim(plan *bench.Plan, server string) error {
	base, err := url.Parse(server)
	if err != nil {
		return usagef("%s: %v", server, err)
	}
	port := "80"
	p, err := a.connect()
	if err != nil {
		return err
	}
	if base.Scheme == "https" {
		port = "443"
		files, err := tlsfiles.NewClient(tlsfiles.ClientFiles{CA: p.CAFile, Cert: p.CertFile,
			Key: p.KeyFile, ServerName: p.ServerName})
		if err != nil {
			return usagef("%v", err)
		}
		plan.Load.TLS = files.Config()
		if plan.Load.TLS.ServerName == "" {
			plan.Load.TLS.ServerName = base.Hostname()
		}
	}
	plan.Host, plan.Path, plan.Load.Address = base.Host, base.EscapedPath(), base.Host
	if base.Port() == "" {
		plan.Load.Address = net.JoinHostPort(base.Hostname(), port)
	}
	plan.Token = p.Token
	if p.TokenFile != "" {
		text, err := os.ReadFile(p.TokenFile)
		if err != nil {
			return usagef("%v", err)
		}
		plan.Token = strings.TrimSpace(string(text))
	}
	return nil
}

// makeBudgets creates the missing budgets of the plan, several at a time.
func (a *app) makeBudgets(ctx context.Context, c *client.Client, f benchFlags) error {
	bar := a.newProgress(len(f.plan.Budgets))
	defer bar.finish()
	return workload.Each(ctx, len(f.plan.Budgets), bar.show, func(ctx context.Context, at int) error {
		ctx, cancel := context.WithTimeout(ctx, a.timeout)
		defer cancel()
		request := f.made
		request.Name = f.plan.Budgets[at]
		_, err := c.Create(ctx, request)
		return err
	})
}

// benchVerdict returns the error that gives a run its exit status.
func benchVerdict(r bench.Report) error {
	if !r.Check.OK {
		return statusError{fmt.Errorf("the exactness check failed: %s",
			strings.Join(r.Check.Problems, "; ")), exitDiscrepancy}
	}
	if !r.Complete {
		return errors.New("interrupted")
	}
	var surprises []string
	for _, code := range slices.Sorted(maps.Keys(r.Answers)) {
		if !bench.Expected(code) {
			surprises = append(surprises, fmt.Sprintf("%s %d", code, r.Answers[code]))
		}
	}
	if len(surprises) > 0 {
		return fmt.Errorf("unexpected answers: %s", strings.Join(surprises, ", "))
	}
	return nil
}

// benched formats a report.
func benched(r bench.Report) string {
	fields := []field{{"budget", r.Budget}, {"budgets", r.Budgets}, {"complete", r.Complete},
		{"connections", r.Connections}, {"batch", r.Batch}}
	if r.IntendedPerS > 0 {
		fields = append(fields, field{"intended calls per s", r.IntendedPerS},
			field{"unsent calls", r.Unsent})
	}
	fields = append(fields, field{"duration s", r.DurationS}, field{"calls", r.Calls},
		field{"deductions", r.Deductions}, field{"calls per s", r.CallsPerS},
		field{"deductions per s", r.DeductionsPerS})
	for _, code := range slices.Sorted(maps.Keys(r.Answers)) {
		fields = append(fields, field{"answers: " + code, r.Answers[code]})
	}
	fields = append(fields, latencyFields("latency", &r.Latency)...)
	fields = append(fields, latencyFields("rollback", r.RollbackLatency)...)
	if r.Delay != nil {
		fields = append(fields, field{"sent late p99 ms", r.Delay.P99})
	}
	for _, p := range r.Processes {
		fields = append(fields, field{"CPU s of " + p.Name, p.CPUS},
			field{"CPU µs per deduction of " + p.Name, p.CPUPerDeductionUS},
			field{"memory MiB of " + p.Name, p.MemoryMiB})
	}
	fields = append(fields, field{"units told", r.Check.ToldUnits},
		field{"units used", r.Check.UsedUnits},
		field{"outcomes settled", r.Check.Settled}, field{"check s", r.Check.SettledS},
		field{"exact", r.Check.OK})
	for _, problem := range r.Check.Problems {
		fields = append(fields, field{"problem", problem})
	}
	return details(fields...)
}

func latencyFields(name string, l *workload.Latency) []field {
	if l == nil {
		return nil
	}
	return []field{{name + " p50 ms", l.P50}, {name + " p90 ms", l.P90}, {name + " p99 ms", l.P99},
		{name + " p99.9 ms", l.P999}, {name + " max ms", l.Max}}
}
