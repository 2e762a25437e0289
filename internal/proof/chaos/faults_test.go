package chaos

import (
	"errors"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// On is the target of a fault.
type On int

// The targets.
const (
	OnNode On = iota
	OnRedis
	OnMariaDB
)

// Fault is one kind of fault.
type Fault struct {
	Name string
	On   On
	// Forgets means that a Redis may lose something that it has answered, however often it flushes.
	Forgets bool
	// order is the order within a pair: a fault that needs an answering server precedes one that
	// silences a server.
	order   int
	prepare preparation
}

// preparation prepares a fault on server number i, while everything works, and returns its
// beginning and its end. The beginning returns an error if the fault did not take place; the end
// returns one if it disturbed nothing or something has not recovered.
type preparation func(w *World, i int) (begin, end func() error, err error)

const (
	atOnce = iota
	disturbing
	pausing
	killing
)

// The effect of a fault on what a Redis has answered, if it flushes before each answer.
const (
	keeps   = false
	forgets = true
)

// Faults lists all kinds.
var Faults = []Fault{
	{"node: kill -9", OnNode, keeps, killing, killNode},
	{"node: SIGSTOP", OnNode, keeps, pausing, pauseNode},
	{"node: replies cut", OnNode, keeps, disturbing, disturbed(nodeProxy, testservers.CutReply, 6)},
	{"node: requests cut", OnNode, keeps, disturbing, disturbed(nodeProxy, testservers.CutRequest, 6)},
	{"redis: kill -9, with its data", OnRedis, keeps, killing,
		restartRedis((*testservers.RedisServer).Restart)},
	{"redis: kill -9, empty", OnRedis, forgets, killing,
		restartRedis((*testservers.RedisServer).RestartEmpty)},
	{"redis: kill -9, log truncated", OnRedis, forgets, killing, restartRedis(truncated)},
	{"redis: kill -9, older RDB", OnRedis, forgets, killing, olderRDB},
	{"redis: SIGSTOP", OnRedis, keeps, pausing, pauseRedis},
	{"redis: late replica, and back", OnRedis, forgets, killing, lateReplica},
	{"redis: FLUSHALL", OnRedis, forgets, atOnce, flush},
	{"redis: out of memory", OnRedis, keeps, atOnce, outOfMemory},
	{"redis: replies cut", OnRedis, keeps, disturbing, disturbed(redisProxy, testservers.CutReply, 5)},
	{"redis: requests cut", OnRedis, keeps, disturbing, disturbed(redisProxy, testservers.CutRequest,
		5)},
	{"redis: slow", OnRedis, keeps, disturbing, slowed(redisProxy, 150*time.Millisecond)},
	{"redis: black hole", OnRedis, keeps, disturbing, disturbed(redisProxy, testservers.BlackHole, 1)},
	{"redis: refused", OnRedis, keeps, disturbing, disturbed(redisProxy, testservers.Refuse, 1)},
	{"mariadb: kill -9", OnMariaDB, keeps, killing, killMariaDB},
	{"mariadb: connections killed", OnMariaDB, keeps, atOnce, killConnections},
	{"mariadb: SIGSTOP", OnMariaDB, keeps, pausing, pauseMariaDB},
	{"mariadb: replies cut", OnMariaDB, keeps, disturbing, disturbed(sqlProxy, testservers.CutReply,
		12)},
	{"mariadb: requests cut", OnMariaDB, keeps, disturbing, disturbed(sqlProxy, testservers.CutRequest,
		12)},
	{"mariadb: slow", OnMariaDB, keeps, disturbing, slowed(sqlProxy, 20*time.Millisecond)},
	{"mariadb: black hole", OnMariaDB, keeps, disturbing, disturbed(sqlProxy, testservers.BlackHole,
		1)},
	{"mariadb: refused", OnMariaDB, keeps, disturbing, disturbed(sqlProxy, testservers.Refuse, 1)},
}

// Named returns the kind with that name. It panics if no kind has it.
func Named(name string) Fault {
	for _, f := range Faults {
		if f.Name == name {
			return f
		}
	}
	panic(fmt.Sprintf("chaos: no fault %q", name))
}

// servers returns the number of targets. The one MariaDB is behind two proxies, which are its
// targets.
func (w *World) servers(on On) int {
	switch on {
	case OnNode:
		return len(w.Nodes)
	case OnRedis:
		return len(w.Redis)
	}
	return len(w.SQL)
}

func nothing() error { return nil }

func killNode(w *World, i int) (begin, end func() error, err error) {
	return w.Nodes[i].Kill, w.Nodes[i].Launch, nil
}

func pauseNode(w *World, i int) (begin, end func() error, err error) {
	return w.Nodes[i].Pause, w.Nodes[i].Resume, nil
}

func nodeProxy(w *World, i int) *testservers.Proxy  { return w.Nodes[i].proxy }
func redisProxy(w *World, i int) *testservers.Proxy { return w.Stores[i] }
func sqlProxy(w *World, i int) *testservers.Proxy   { return w.SQL[i] }

// proxyOf returns a proxy.
type proxyOf func(w *World, i int) *testservers.Proxy

// disturbed prepares a fault of a proxy that disturbs every oneIn-th request.
func disturbed(of proxyOf, what testservers.Disturbance, oneIn int) preparation {
	return ruled(of, testservers.Rule{Disturbance: what, OneIn: oneIn})
}

// slowed prepares a fault of a proxy that delays every request.
func slowed(of proxyOf, delay time.Duration) preparation {
	return ruled(of, testservers.Rule{Disturbance: testservers.Delay, Delay: delay})
}

// ruled prepares a fault of a proxy. The fault missed if no request was disturbed.
func ruled(of proxyOf, rule testservers.Rule) preparation {
	return func(w *World, i int) (begin, end func() error, err error) {
		p := of(w, i)
		begin = func() error { return p.Set(rule) }
		end = func() error {
			hits := p.Hits()
			if err := p.Set(testservers.Rule{}); err != nil {
				return err
			}
			if hits == 0 {
				return ErrMissed
			}
			return nil
		}
		return begin, end, nil
	}
}

// restartRedis kills a Redis and restarts it by a given method.
func restartRedis(again func(*testservers.RedisServer) error) preparation {
	return func(w *World, i int) (begin, end func() error, err error) {
		r := w.Redis[i]
		return r.Kill, func() error { return again(r) }, nil
	}
}

// truncated restarts a Redis whose log lost its last bytes.
func truncated(r *testservers.RedisServer) error {
	const lost = 3000 // some entries of some buckets
	if _, err := r.TruncateLog(lost); err != nil {
		return err
	}
	return r.Restart()
}

func olderRDB(w *World, i int) (begin, end func() error, err error) {
	r := w.Redis[i]
	rdb, err := r.Snapshot()
	return r.Kill, func() error { return r.RestartFrom(rdb) }, err
}

func pauseRedis(w *World, i int) (begin, end func() error, err error) {
	return w.Redis[i].Pause, w.Redis[i].Resume, nil
}

// lateReplica promotes a replica that is behind while the master continues, switches to it, and
// finally switches back to the master, which missed everything in between.
func lateReplica(w *World, i int) (begin, end func() error, err error) {
	master := w.Redis[i]
	ctx, cancel := bounded()
	defer cancel()
	dir, err := testservers.Directory("replica")
	if err != nil {
		return nil, nil, err
	}
	replica, err := testservers.StartRedis(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	if err := replica.Follow(master); err != nil {
		return nil, nil, errors.Join(err, replica.Kill())
	}
	begin = func() error {
		if err := replica.Promote(); err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond) // the master continues without it
		w.Stores[i].SetTarget(replica.Addr())
		return nil
	}
	end = func() error {
		w.Stores[i].SetTarget(master.Addr())
		return errors.Join(master.Promote(), replica.Kill())
	}
	return begin, end, nil
}

func flush(w *World, i int) (begin, end func() error, err error) {
	return func() error { _, err := w.Redis[i].Command("FLUSHALL"); return err }, nothing, nil
}

func outOfMemory(w *World, i int) (begin, end func() error, err error) {
	set := func(limit string) func() error {
		return func() error {
			_, err := w.Redis[i].Command("CONFIG", "SET", "maxmemory", limit)
			return err
		}
	}
	return set("1"), set("0"), nil
}

func killMariaDB(w *World, _ int) (begin, end func() error, err error) {
	return w.MariaDB.Kill, w.MariaDB.Restart, nil
}

func killConnections(w *World, _ int) (begin, end func() error, err error) {
	begin = func() error {
		n, err := w.MariaDB.KillConnections()
		if err == nil && n == 0 {
			err = ErrMissed
		}
		return err
	}
	return begin, nothing, nil
}

func pauseMariaDB(w *World, _ int) (begin, end func() error, err error) {
	return w.MariaDB.Pause, w.MariaDB.Resume, nil
}
