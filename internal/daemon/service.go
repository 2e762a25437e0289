package daemon

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/alerting"
	"github.com/budgetd/budgetd/bucket/audit"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/bucket/feed"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/bucket/placement"
	"github.com/budgetd/budgetd/bucket/sample"
	"github.com/budgetd/budgetd/bucket/store"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/bucket/usage"
	"github.com/budgetd/budgetd/iana"
	"github.com/budgetd/budgetd/internal/config"
	"github.com/budgetd/budgetd/internal/console"
	"github.com/budgetd/budgetd/internal/httpapi"
	"github.com/budgetd/budgetd/internal/metrics"
	"github.com/budgetd/budgetd/internal/sql/access"
	"github.com/budgetd/budgetd/internal/sql/commit"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/internal/webhook"
	"github.com/budgetd/budgetd/ring"
)

// parts are the parts of the database, one per noun.
type parts struct {
	commit      *commit.Decider
	definitions *manage.Ledger
	returns     *hold.Ledger
	transfer    *transfer.Ledger
	stores      *store.Ledger
}

func partsOf(db *engine.DB) *parts {
	return &parts{commit: commit.New(db), definitions: manage.NewLedger(db),
		returns: hold.NewLedger(db), transfer: transfer.NewLedger(db), stores: store.New(db)}
}

// node is a running service: its handlers and its loops.
type node struct {
	*httpapi.Parts
	transfer  *transfer.Service
	budgets   *bucket.Budgets
	manage    *manage.Service
	gauges    *manage.Gauges
	dashboard *console.Dashboard
	alerts    *alerting.Service
	sender    *webhook.Sender
	work      []loop
	running   *loops
}

// nonce returns a random number for one call.
func nonce() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return string(b[:])
}

// nodeBuilder builds a node.
type nodeBuilder struct {
	*backends
	*parts
	c        config.Config
	log      *slog.Logger
	observer *metrics.Metrics
	tracer   trace.Tracer // may be nil
	budgets  *bucket.Budgets
	places   *placement.Map
	moves    *transfer.Service
	stores   *counter.Service
	health   *health
	gauges   *manage.Gauges
}

// service builds the node. It does not connect to anything.
func (b *backends) service(c config.Config, log *slog.Logger, observer *metrics.Metrics,
	tracer trace.Tracer) (*node, error) {
	m := &nodeBuilder{backends: b, parts: partsOf(b.db), c: c, log: log, observer: observer,
		tracer: tracer}
	var err error
	m.budgets, err = bucket.NewBudgets(bucket.BudgetsConfig{Definitions: m.definitions,
		Overrides: m.definitions,
		Size:      c.Cache.Budgets, Without: c.StoreMode.WithoutDatabase,
		Failed: func(err error) { log.Warn("budgets not read", "error", err) }})
	if err != nil {
		return nil, err
	}
	if m.places, err = placement.New(b.partitions, ring.DefaultPointsPerNode); err != nil {
		return nil, err
	}
	states := deduct.NewStates(c.Cache.Budgets)
	m.returns.Returned = states.Returned
	m.stores = m.counterService(states)
	m.gauges = manage.NewGauges(m.definitions)
	m.moves = m.transferService()
	m.health = &health{Service: m.moves, NodeList: access.NodesIn(b.db), ping: b.db.SyncClock,
		refusing: b.db.Refusing, strange: m.budgets.UnknownZones, now: b.db.Now,
		log: log, asked: func() bool { return len(b.partitions) == 0 || m.stores.Asked() }}
	m.gauges.Unreachable = m.health.unreachable
	if len(b.partitions) > 0 {
		m.health.without = c.StoreMode.WithoutDatabase
	}
	m.parts.stores.Node = c.NodeName()
	holds, looks := m.holdService(), m.usageService()
	deducts, err := m.deductService(states, holds)
	if err != nil {
		return nil, err
	}
	audits, figures := m.auditService(), m.sampleService()
	feeds := feed.New(feed.Config{DB: m.db, Budgets: m.budgets, Observer: observer})
	managed := m.manageService()
	n := &node{transfer: m.moves, budgets: m.budgets, manage: managed, gauges: m.gauges,
		Parts: &httpapi.Parts{Deductions: deducts, Lookups: deducts, Checks: deducts, Holds: holds,
			Budgets: managed, Families: managed, OverrideList: managed, Usages: looks,
			Movements: m.moves, Audits: audits, Feeds: feeds, Releases: m.stores,
			Samples: figures, Stores: m.health, Instances: m.moves}}
	n.dashboard = &console.Dashboard{Find: m.budgets.Find, Known: audits.Known, Away: managed.Away,
		Now: m.db.Now}
	n.alerts = m.alertingService(figures)
	n.sender, n.work = m.alertLoops(n.alerts)
	n.work = append(n.work,
		m.loops(audits, figures, n.dashboard, &alerting.Evaluator{Service: n.alerts})...)
	return n, nil
}

func (m *nodeBuilder) transferService() *transfer.Service {
	return transfer.New(transfer.Config{Ledger: m.parts.transfer,
		Budgets: m.budgets, Pages: m.definitions, Health: m.backends,
		Partitions: m.backends.partitions, Places: m.places, Stores: m.stores,
		Problem: func(p bucket.Partition) string { return m.health.problem(p) },
		Now:     m.db.Now, Moved: m.observer.Moved, Log: m.log})
}

func (m *nodeBuilder) deductService(states *deduct.States, holds *hold.Service) (
	*deduct.Service, error) {
	return deduct.New(deduct.Config{Budgets: m.budgets, Ledger: m.commit, Lookup: m.commit,
		Rollover: m.moves, Returns: holds, Stores: m.stores, States: states, Refills: m.moves,
		Now: m.db.Now, Away: m.db.Away, Observer: m.observer, Tracer: m.tracer,
		Settings: deduct.Settings{Deadline: m.c.Deduct.Deadline, StepTime: m.c.Deduct.StepTimeout,
			Queue: m.c.Deduct.Queue}})
}

func (m *nodeBuilder) counterService(states *deduct.States) *counter.Service {
	stores := map[string]*counter.Store{}
	for name, s := range m.backends.stores {
		stores[name] = &counter.Store{Counter: s, Entries: s, Changes: s, Memories: s, Copies: s,
			Durable: m.durable(name)}
	}
	return counter.New(counter.Config{Budgets: m.budgets, States: states,
		Ledger: m.parts.stores, Availability: m.commit,
		Stores: stores, Now: m.db.Now, Observer: m.observer, Tracer: m.tracer,
		Settings: counter.Settings{Deadline: m.c.Deduct.Deadline, StepTime: m.c.Deduct.StepTimeout,
			Queue: m.c.Deduct.Queue, PartitionOperations: m.c.Deduct.BatchSize}})
}

// durable reports whether an instance keeps its memory across a restart.
func (m *nodeBuilder) durable(name string) bool {
	return slices.ContainsFunc(m.c.Instances, func(i config.Instance) bool {
		return i.Name == name && i.Durable
	})
}

func (m *nodeBuilder) holdService() *hold.Service {
	return hold.New(hold.Config{Budgets: m.budgets, Away: m.db.Away, Ledger: m.returns,
		Observer: m.observer, Settings: hold.Settings{StepTime: m.c.Deduct.StepTimeout,
			Queue: m.c.Deduct.Queue}})
}

func (m *nodeBuilder) usageService() *usage.Service {
	return usage.New(usage.Config{DB: m.db, Budgets: m.budgets, Observer: m.observer,
		Deadline: m.c.Deduct.StepTimeout})
}

func (m *nodeBuilder) manageService() *manage.Service {
	return &manage.Service{Ledger: m.definitions, Budgets: m.budgets, Periods: m.moves,
		Stores: m.stores, Unreachable: m.health.unreachable,
		Fit: func(ctx context.Context, partitions []bucket.Partition) error {
			return m.fit(ctx, partitions, m.log)
		},
		Places: m.places, Takes: m.health.Takes, Moved: m.observer.Moved,
		Clock: bucket.SystemClock{}, Nonce: nonce, Log: m.log, Timeout: m.c.Deduct.StepTimeout}
}

func (m *nodeBuilder) auditService() *audit.Service {
	return audit.New(audit.Config{DB: m.db, Budgets: m.budgets, Observer: m.observer,
		Compare: m.stores.Compare, Log: m.log, Unreachable: m.health.unreachable})
}

func (m *nodeBuilder) sampleService() *sample.Service {
	return sample.New(sample.Config{DB: m.db, Budgets: m.budgets, Figures: m.definitions.Figures,
		Unreachable: m.health.unreachable, Keep: m.c.Series.Keep})
}

const (
	openHoldsEvery = 10 * time.Second // count of open holds
	shrinksEvery   = time.Second      // progress of pending shrinks
	nodeEvery      = 2 * time.Second  // row of this node
)

// seen returns the work of the loop that refreshes the row of this node.
func (m *nodeBuilder) seen(started time.Time) func(context.Context) error {
	me := bucket.Node{Name: m.c.NodeName(), Address: m.c.NodeAddress(), Version: buildVersion(),
		ZoneRelease: iana.Release(), StartedAt: started}
	return func(ctx context.Context) error { return m.health.Seen(ctx, me) }
}

// loops returns the node's loops.
func (m *nodeBuilder) loops(audits *audit.Service, figures *sample.Service,
	visitors ...audit.Visitor) []loop {
	recycle := transfer.RecycleSettings{StrandedShare: m.c.Recycle.StrandedShare,
		Recyclable: audits.Recyclable}
	if m.c.Recycle.Schedule != "" {
		recycle.Next = m.c.Recycle.Next
	}
	expiry := &hold.Expiry{Ledger: m.returns, Observer: m.observer, Log: m.log}
	all := []loop{
		{"health", healthEvery, m.health.once},
		{"gauges", manage.GaugesEvery, m.gauges.RunOnce},
		{"holds", hold.ExpiryEvery, expiry.RunOnce},
		{"open holds", openHoldsEvery, expiry.CountOpen},
		{"samples", sample.DropEvery, figures.RunOnce},
		{"shrinks", shrinksEvery, m.manageService().FinishShrinks},
		{"node", nodeEvery, m.seen(m.db.Now())},
	}
	for _, one := range m.moves.Loops(transfer.Settings{Recycle: recycle}) {
		all = append(all, loop{one.Name, one.Every, one.RunOnce})
	}
	set := audit.Settings{Interval: m.c.Audit.Interval, Rows: m.c.Audit.Rows,
		Shown: m.c.Metrics.Budgets}
	visitors = append([]audit.Visitor{&sample.Sampler{Service: figures}}, visitors...)
	for _, one := range audits.Loops(set, visitors...) {
		all = append(all, loop{one.Name, one.Every, one.RunOnce})
	}
	for _, one := range m.stores.Loops(m.backends.partitions) {
		all = append(all, loop{one.Name, one.Every, one.RunOnce})
	}
	return all
}

// start starts the loops.
func (n *node) start(ctx context.Context, log *slog.Logger) {
	n.running = startLoops(ctx, log, n.work)
}

// stop stops the loops and waits for attempts to send and for recycles that outlived their callers.
func (n *node) stop(ctx context.Context) error {
	return cmp.Or(n.running.stop(ctx), await(ctx, n.sender.Wait))
}
