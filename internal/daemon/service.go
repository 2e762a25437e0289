package daemon

import (
	"context"
	"crypto/rand"
	"log/slog"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/feed"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/bucket/place"
	"github.com/budgetd/budgetd/bucket/row"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/internal/config"
	"github.com/budgetd/budgetd/internal/sqlstore/commit"
	"github.com/budgetd/budgetd/internal/sqlstore/definitions"
	feedrows "github.com/budgetd/budgetd/internal/sqlstore/feed"
	"github.com/budgetd/budgetd/internal/sqlstore/returns"
	moving "github.com/budgetd/budgetd/internal/sqlstore/transfer"
	"github.com/budgetd/budgetd/ring"
)

// parts are the database's, one per noun.
type parts struct {
	commit      *commit.Part
	definitions *definitions.Part
	returns     *returns.Part
	transfer    *moving.Part
	feed        *feedrows.Part
}

// node is a running service: what answers calls, and what it does by itself.
type node struct {
	*bucket.Service
	transfer *transfer.Service
	work     []loop
	running  *loops
}

// random fills a slice with random bytes.
func random(b []byte) { _, _ = rand.Read(b) } // it never fails

// nonce makes the number of one call.
func nonce() string {
	var b [8]byte
	random(b[:])
	return string(b[:])
}

// service puts the node together on this ground. It contacts nothing.
func (g *ground) service(c config.Config, log *slog.Logger, observer bucket.Observer) (*node, error) {
	p := parts{commit: commit.New(g.db), definitions: definitions.New(g.db),
		returns: returns.New(g.db), transfer: moving.New(g.db), feed: feedrows.New(g.db)}
	clock := bucket.SystemClock{}
	budgets, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: p.definitions, Clock: clock,
		Size: c.Cache.Budgets, Failed: func(err error) { log.Warn("budgets not read", "error", err) }})
	if err != nil {
		return nil, err
	}
	places, err := place.New(g.lanes, ring.DefaultPointsPerNode)
	if err != nil {
		return nil, err
	}
	stores := filters(g.stores)
	t := transfer.New(transfer.Config{Ledger: transfer.Ledger{Supply: p.transfer, Stocks: p.transfer,
		Periods: p.transfer, Recycles: p.transfer, Lanes: p.transfer, Counters: p.transfer},
		Budgets: budgets, Pages: p.definitions, Filter: stores, Health: stores, Lanes: g.lanes,
		Places: places, Now: g.db.Now, Moved: observer.Moved, Log: log})
	healthy := &health{Service: t, ping: g.db.SyncClock}
	rows, err := row.New(row.Config{Budgets: budgets, Ledger: p.commit, Lookup: p.commit, Rollover: t,
		Filters: stores.byInstance(), Clock: clock, Now: g.db.Now, Rand: random, Observer: observer,
		Settings: row.Settings{Deadline: c.Deduct.Deadline, StepTime: c.Deduct.StepTimeout,
			Queue: c.Deduct.Queue, LaneOperations: c.Deduct.BatchSize, States: c.Cache.Budgets}})
	if err != nil {
		return nil, err
	}
	holds := hold.New(hold.Config{Budgets: budgets, Ledger: p.returns, Filter: stores,
		Observer: observer, Settings: hold.Settings{StepTime: c.Deduct.StepTimeout,
			Queue: c.Deduct.Queue}})
	manager := &manage.Service{Ledger: p.definitions, Budgets: budgets, Periods: t, Filter: stores,
		Places: places, Takes: healthy.Takes, Moved: observer.Moved, Clock: clock, Nonce: nonce, Log: log,
		Timeout: c.Deduct.StepTimeout}
	feeds := feed.New(feed.Config{Budgets: budgets, Ledger: p.feed, Clock: clock, Observer: observer})
	n := &node{transfer: t, Service: &bucket.Service{Budgets: budgets,
		Ledger: ledgerMode{rows, nil, holds}, Holds: holds, Rows: reader{feeds, nil},
		Manager: manager, Mover: t, Keeper: healthy}}
	n.work = n.loops(c, holdsDue(&p, stores, observer, log),
		loop{"health", healthEvery, healthy.once})
	return n, nil
}

// ledgerMode is what works in its own way in ledger mode.
type ledgerMode struct {
	*row.Service
	bucket.Foreseer
	bucket.Returner
}

// reader reads the rows of a budget.
type reader struct {
	*feed.Service
	usages
}

// usages reads what was counted for values of dimensions.
type usages interface {
	Usage(ctx context.Context, request bucket.UsageRequest) (bucket.Usage, error)
}

// holdsDue ends holds whose time is up.
func holdsDue(p *parts, stores filters, observer bucket.Observer, log *slog.Logger) loop {
	expiry := &hold.Expiry{Ledger: p.returns, Filter: stores, Observer: observer, Log: log}
	return loop{"holds", hold.ExpiryEvery, expiry.RunOnce}
}

// loops lists what the node does by itself.
func (n *node) loops(c config.Config, more ...loop) []loop {
	recycle := transfer.RecycleSettings{StrandedShare: c.Recycle.StrandedShare}
	if c.Recycle.Schedule != "" {
		recycle.Next = c.Recycle.Next
	}
	var all []loop
	for _, one := range n.transfer.Loops(transfer.Settings{Recycle: recycle}) {
		all = append(all, loop{one.Name, one.Every, one.RunOnce})
	}
	return append(all, more...)
}

// start begins what the node does by itself.
func (n *node) start(ctx context.Context, log *slog.Logger) {
	n.running = startLoops(ctx, log, n.work)
}

// stop ends it, and waits for recycles that outlived their callers.
func (n *node) stop(ctx context.Context) error {
	err := n.running.stop(ctx)
	if e := n.transfer.Wait(ctx); err == nil {
		err = e
	}
	return err
}
