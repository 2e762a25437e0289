package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// machine is where a node runs: what stays when the node crashes.
type machine struct {
	number int
	// offset is how far its clock is off.
	offset atomic.Int64
	// jumped is the instant at which its clock was last moved.
	jumped atomic.Int64
	// cut are the instants until which it cannot reach the database (the last one) and each store.
	cut  []atomic.Int64
	node atomic.Pointer[node] // nil: crashed
}

// withoutDatabase reports whether it cannot reach the database, or could not until so long ago.
func (m *machine) withoutDatabase(since time.Duration) bool {
	return virtual() < m.cut[len(m.cut)-1].Load()+int64(since)
}

// node is one life of a service on a machine. It is the service's clock, its Turns, its chance and,
// as database and stores, its network.
type node struct {
	w       *world
	m       *machine
	id      uint64
	service *bucket.Service
	// dead: nothing that it still does has any effect.
	dead   atomic.Bool
	places atomic.Int64

	mu  sync.Mutex
	rnd *rand.Rand
}

var (
	_       bucket.Clock = (*node)(nil)
	_       bucket.Turns = (*node)(nil)
	errDead              = errors.New("the node has crashed")
)

// boot starts a service on a machine.
func (w *world) boot(m *machine) *node {
	id := uint64(w.lives.Add(1))
	n := &node{w: w, m: m, id: id, rnd: rand.New(rand.NewPCG(w.seed, id))}
	c := bucket.Config{SQL: &database{n: n}, Instances: map[string]bucket.Instance{}, Lanes: map[string]int{},
		Clock: n, Rand: n.random, Turns: n, Settings: w.plan.settings, Log: slog.New(alarm{w})}
	for i, s := range w.stores {
		c.Instances[s.name] = &storeView{n: n, place: i, inner: s.server.Connect()}
		c.Lanes[s.name] = w.plan.lanes
	}
	service, err := bucket.New(c)
	if err != nil {
		panic(err) // the plan is at fault
	}
	n.service = service
	service.Start(context.Background())
	m.node.Store(n)
	return n
}

// alarm is a log in which a panic of background work is a violation: the service goes on after one. Other
// errors are the auditor's business, and nothing below an error is made.
type alarm struct{ w *world }

func (alarm) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

func (a alarm) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "panicked") {
		text := r.Message
		r.Attrs(func(attr slog.Attr) bool {
			text += fmt.Sprintf("; %s %s", attr.Key, attr.Value)
			return true
		})
		a.w.wrong("%s", text)
	}
	return nil
}

func (a alarm) WithAttrs([]slog.Attr) slog.Handler { return a }
func (a alarm) WithGroup(string) slog.Handler      { return a }

// crash ends a node as kill -9 does: what it still says, nobody hears.
func (m *machine) crash() {
	if n := m.node.Swap(nil); n != nil {
		n.dead.Store(true)
	}
}

// Now is the machine's clock.
func (n *node) Now() time.Time { return time.Now().Add(time.Duration(n.m.offset.Load())) }

// Sleep waits for about d, or until ctx's deadline.
func (n *node) Sleep(ctx context.Context, d time.Duration) error {
	if end, ok := ctx.Deadline(); ok {
		d = min(d, time.Until(end))
	}
	n.w.instants.until(n.key(verbSleep), d, time.Microsecond)
	if n.dead.Load() {
		return errDead
	}
	return ctx.Err()
}

// Take returns the next place of the node.
func (n *node) Take() int64 { return n.places.Add(1) }

// Wait lets the goroutine go on alone.
func (n *node) Wait(place int64) {
	n.w.instants.turn(n.key(mix(uint64(place))), place)
}

// key names something that this node asks for.
func (n *node) key(what uint64) uint64 { return mix(what ^ n.id<<40) }

func (n *node) random(b []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range b {
		b[i] = byte(n.rnd.Uint32())
	}
}
