package main

import (
	"fmt"
	"slices"
	"time"
)

// row is one line of the table.
type row struct {
	name string // for -only
	what string
	measurer
}

// apart lists rows and series that are measured only when they are named, because they take minutes
// each.
var apart = []string{"store-sustained", "records"}

// measurer measures one row on its own stage.
type measurer interface {
	measure(s *stage) (measurement, error)
}

// batchConnections is the number of connections of the rows with batches: 32 batches of 100 are
// 3,200 concurrent deductions.
const batchConnections = 32

// rows are measured in this order. A baseline is measured again before and after each row that is
// compared with it, so that other work of the machine affects both.
var rows = slices.Concat([]row{
	{"empty", "(a) empty net/http JSON handler, 64 connections", service{"empty", "none"}},
	{"lua", "(b) net/http + one Lua call per request, everysec", service{"lua", "everysec"}},
	{"lua-always", "(b) with appendfsync always", service{"lua", "always"}},
	{"pipelined", "(b2) fasthttp + auto-pipelining client + four-command script, everysec",
		service{"pipelined", "everysec"}},
	{"hot-once", "(c) exactly once: INSERT id + UPDATE in one transaction", hotRow{}},

	{"store-single", "store mode, single calls, 64 connections, two limits",
		ours{durability: "store", limits: true, connections: 64}},
	{"store-single-free", "store mode, single calls, without limits",
		ours{durability: "store", connections: 64}},
	{"store-batch", "store mode, batches of 100, two limits",
		ours{durability: "store", limits: true, connections: batchConnections, batch: 100}},
	{"store-batch-always", "store mode, batches of 100, appendfsync always, two limits",
		ours{durability: "store", limits: true, connections: batchConnections, batch: 100,
			fsync: "always"}},
	{"store-sustained", "store mode, batches of 100 for 120 s, two limits",
		ours{durability: "store", limits: true, connections: batchConnections, batch: 100,
			seconds: 120}},
	{"store-single-keys", "store mode, single calls, two limits, a key with every call",
		ours{durability: "store", limits: true, connections: 64, keys: true}},
	{"store-single-tls", "store mode, single calls, two limits, a key and TLS",
		ours{durability: "store", limits: true, connections: 64, keys: true, tls: true}},
	{"store-batch-tls", "store mode, batches of 100, two limits, a key and TLS",
		ours{durability: "store", limits: true, connections: batchConnections, batch: 100, keys: true,
			tls: true}},
	{"ledger-single", "ledger mode, single calls, 64 connections, without limits",
		ours{durability: "ledger", connections: 64}},
	{"ledger-single-256", "ledger mode, single calls, 256 connections, without limits",
		ours{durability: "ledger", connections: 256}},
	{"ledger-batch", "ledger mode, batches of 100, without limits",
		ours{durability: "ledger", connections: batchConnections, batch: 100}},
	{"ledger-single-limits", "ledger mode, single calls, 64 connections, two limits",
		ours{durability: "ledger", limits: true, connections: 64}},
	{"ledger-batch-limits", "ledger mode, batches of 100, two limits",
		ours{durability: "ledger", limits: true, connections: batchConnections, batch: 100}},
	{"ledger-single-binlog", "ledger mode, single calls, 256 connections, sync_binlog=1",
		ours{durability: "ledger", connections: 256, binlog: true}},
	{"ledger-batch-binlog", "ledger mode, batches of 100, sync_binlog=1",
		ours{durability: "ledger", connections: batchConnections, batch: 100, binlog: true}},
	{"embedded-batch", "embedded (SQLite, fully flushed), batches of 100",
		ours{durability: "ledger", embedded: true, connections: batchConnections, batch: 100}},
	{"embedded-single", "embedded (SQLite, fully flushed), single calls, 64 connections",
		ours{durability: "ledger", embedded: true, connections: 64}},
	{"store-single-default", "store mode, single calls, the default number of buckets",
		ours{durability: "store", connections: 64, budgets: 1}},
	{"ledger-single-default", "ledger mode, single calls, the default number of buckets",
		ours{durability: "ledger", connections: 64, budgets: 1}},
	{"sets", "ledger mode, three legs of one of 1,000 teams, 64 connections", sets{64}},
	// After a sell-out, a request in ledger mode asks only SQL. In store mode it first asks its own
	// bucket, whose store has the record of its id if there is one.
	{"sold-out", "ledger mode, refusals after the sell-out, 1 % repeats of accepted ids, 64 " +
		"connections",
		ours{durability: "ledger", connections: 64, total: 5_000, repeats: 0.01}},
	{"sold-out-store", "store mode, refusals after the sell-out, 1 % repeats of accepted ids, 64 " +
		"connections",
		ours{durability: "store", connections: 64, total: 5_000, repeats: 0.01}},
	{"storm-ledger", "ledger mode, a storm of hopeless requests: sold out, distinct ids",
		ours{durability: "ledger", connections: 64, total: 5_000}},
	{"storm-store", "store mode, a storm of hopeless requests: sold out, distinct ids",
		ours{durability: "store", connections: 64, total: 5_000}},
	{"store-half", "store mode, single calls at half of the highest rate, two limits",
		ours{durability: "store", limits: true, connections: 256, of: "store-single", part: 2}},
	{"ledger-half", "ledger mode, single calls at half of the highest rate",
		ours{durability: "ledger", connections: 256, of: "ledger-single-256", part: 2}},
	{"store-third", "store mode, single calls at a third of the highest rate, two limits",
		ours{durability: "store", limits: true, connections: 256, of: "store-single", part: 3}},
	{"ledger-third", "ledger mode, single calls at a third of the highest rate",
		ours{durability: "ledger", connections: 256, of: "ledger-single-256", part: 3}},
	{"remaining", "what 100 budgets have left, 64 connections", shows{}},
	{"memory", "100,000 budgets known, 10,000 active, ledger mode, single calls",
		ours{durability: "ledger", connections: 64, budgets: 100_000, active: 10_000, buckets: 1}},
}, distant())

// distant are the rows with servers that are a network away: a proxy makes each round trip longer
// by so many ms. The table also says what a round trip really took.
func distant() (all []row) {
	each := func(name, what string, ms []int, of func(away *time.Duration) measurer) {
		for _, n := range ms {
			all = append(all, row{fmt.Sprintf("%s-%dms", name, n),
				fmt.Sprintf("%s %d ms away", what, n), of(new(time.Duration(n) * time.Millisecond))})
		}
	}
	near, far := []int{0, 2}, []int{0, 2, 6}
	for _, n := range []int{64, 256} {
		callers := fmt.Sprintf("single calls, %d connections", n)
		each(fmt.Sprint("distance-ledger-", n), "ledger mode, "+callers+", SQL", far,
			func(away *time.Duration) measurer {
				return ours{durability: "ledger", connections: n, sqlAway: away}
			})
		each(fmt.Sprint("distance-store-", n), "store mode, "+callers+", Redis", near,
			func(away *time.Duration) measurer {
				return ours{durability: "store", connections: n, redisAway: away}
			})
	}
	for _, buckets := range []int{1, 4, 16, 64} {
		for _, nodes := range []int{1, 2, 4} {
			each(fmt.Sprintf("buckets-%d-%d", buckets, nodes),
				fmt.Sprintf("ledger mode, single calls, %d callers, buckets: %d, nodes: %d, SQL",
					bucketedCallers, buckets, nodes), near, func(away *time.Duration) measurer {
					return bucketed{buckets, nodes, away}
				})
		}
	}
	each("creates", fmt.Sprintf("creates of budgets in ledger mode, %d callers, %d buckets each, SQL",
		creators, createdBuckets), far, func(away *time.Duration) measurer { return creates{away} })
	each("verbs", "administrative verbs, one caller, SQL", far,
		func(away *time.Duration) measurer { return verbs{away} })
	each("forged", fmt.Sprintf("append beside %d connections with forged keys, ledger mode, SQL",
		forgers), near, func(away *time.Duration) measurer { return forged{away} })
	for _, durability := range modes {
		for _, nodes := range []int{1, 2, 4} {
			each(fmt.Sprintf("ending-%s-%d", durability, nodes),
				fmt.Sprintf("%s mode, the end of budgets, %d callers, nodes: %d, servers", durability,
					endingCallers, nodes), near, func(away *time.Duration) measurer {
					return ending{durability, nodes, away}
				})
		}
	}
	return all
}

// target is a promised bound for a figure of one row, or for its ratio to that of another row.
type target struct {
	what  string
	row   string
	by    string // "" compares the figure itself
	of    func(measurement) float64
	bound float64
	most  bool // at most, otherwise at least
}

func perS(m measurement) float64   { return m.perS }
func p99(m measurement) float64    { return m.p99 }
func memory(m measurement) float64 { return m.memoryMiB }

func server(m measurement) float64  { return m.us("server") }
func redisUS(m measurement) float64 { return m.us("redis") }

// allProcesses returns the CPU time per deduction of budgetd, Redis and MariaDB.
func allProcesses(m measurement) float64 { return m.us("server") + m.us("redis") + m.us("mariadb") }

var targets = []target{
	{"store mode, single calls, two limits ÷ (b)", "store-single", "lua", perS, 2, false},
	{"… ÷ (a)", "store-single", "empty", perS, 0.8, false},
	{"… CPU of server, Redis and SQL ÷ (b)'s", "store-single", "lua", allProcesses, 0.4, true},
	{"store mode, without limits, single calls ÷ (b2)", "store-single-free", "pipelined", perS, 1.1,
		false},
	{"store mode, batches of 100, two limits ÷ (b)", "store-batch", "lua", perS, 9, false},
	{"… CPU per deduction, server, µs", "store-batch", "", server, 3, true},
	{"… CPU per deduction, Redis, µs", "store-batch", "", redisUS, 5, true},
	{"… sustained for 120 s ÷ (b)", "store-sustained", "lua", perS, 9, false},
	{"… with appendfsync always ÷ (b) with always", "store-batch-always", "lua-always", perS, 8,
		false},
	{"ledger mode, single calls, 64 connections ÷ (b)", "ledger-single", "lua", perS, 1, false},
	{"ledger mode, single calls, 256 connections ÷ (b)", "ledger-single-256", "lua", perS, 1.2,
		false},
	{"ledger mode, batches of 100 ÷ (b)", "ledger-batch", "lua", perS, 6, false},
	{"ledger mode, two limits, single calls ÷ (b)", "ledger-single-limits", "lua", perS, 0.65, false},
	{"ledger mode, two limits, batches ÷ (b)", "ledger-batch-limits", "lua", perS, 3, false},
	{"ledger mode, single calls ÷ (c)", "ledger-single-256", "hot-once", perS, 4, false},
	{"ledger mode, batches ÷ (c)", "ledger-batch", "hot-once", perS, 20, false},
	{"ledger mode, single calls, sync_binlog=1 ÷ without", "ledger-single-binlog",
		"ledger-single-256", perS, 0.8, false},
	{"ledger mode, batches, sync_binlog=1 ÷ without", "ledger-batch-binlog", "ledger-batch", perS,
		0.8, false},
	{"refusals after the sell-out, ledger mode ÷ (a)", "sold-out", "empty", perS, 0.5, false},
	{"storm of hopeless requests, ledger mode ÷ (a)", "storm-ledger", "empty", perS, 0.5, false},
	{"storm of hopeless requests, store mode ÷ (a)", "storm-store", "empty", perS, 0.5, false},
	{"three legs ÷ single calls of one budget", "sets", "ledger-single", perS, 0.25, false},
	{"… CPU of server and SQL ÷ that of one budget", "sets", "ledger-single", allProcesses, 2.5, true},
	{"… p99 ÷ that of one budget", "sets", "ledger-single", p99, 4, true},
	{"embedded, batches ÷ (b)", "embedded-batch", "lua", perS, 4, false},
	{"p99 at half of the highest rate, ledger mode, ms", "ledger-half", "", p99, 10, true},
	{"p99 at half of the highest rate, store mode, ms", "store-half", "", p99, 4, true},
	{"memory of budgetd, 100,000 budgets known and 10,000 active, MiB", "memory", "", memory, 400,
		true},
}
