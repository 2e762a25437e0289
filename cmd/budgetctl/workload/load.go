package workload

import (
	"context"
	"crypto/tls"
	"sync"
	"sync/atomic"
	"time"
)

// Caller makes the requests of one connection and gets their outcomes. One goroutine uses it.
type Caller interface {
	// Request appends the head and body of the next request to buf. It returns the result and the
	// kind of the call, 0 to Plan.Kinds-1. Latency is measured per kind.
	Request(buf []byte) ([]byte, int)
	// Answer gets the answer to the last request. The body is valid during the call only.
	Answer(status int, body []byte)
	// Lost reports that no answer came. sent is false if the server certainly did not get the
	// request.
	Lost(sent bool, err error)
}

// Plan is how much to send and how fast.
type Plan struct {
	// Address is the server's host:port.
	Address string
	// TLS encrypts the connections; nil means plain TCP.
	TLS *tls.Config
	// Kinds is the number of kinds of calls, at least 1.
	Kinds int
	// Rate is the calls per second over all connections, in an open loop; 0 means a closed loop.
	Rate float64
	// Duration and Calls bound the load; 0 means no bound. One of them must be set.
	Duration time.Duration
	Calls    int64
	// Timeout is the longest wait for a connection or, up to a second more, for an answer. In the
	// open loop late calls are still sent for that long after the end.
	Timeout time.Duration
}

// Measured is the result of Run, which waits for every call that it sent.
type Measured struct {
	// Duration is the time from the first call to the last answer.
	Duration time.Duration
	// Calls is how many calls were sent, whether answered or lost.
	Calls int64
	// Latency is per kind of call. In the open loop it counts from the instant at which a call was
	// due. Calls that were never sent count as kind 0, with the time until they were given up.
	Latency []*Histogram
	// Delay is the time from when a call was due until it was sent (open loop only).
	Delay *Histogram
	// Unsent is how many calls of the open loop were due before the end and given up
	// (Plan.Timeout).
	Unsent int64
}

// Run carries out the plan with a connection for each caller. It returns when every call is
// answered or lost. When ctx ends it sends no further call.
func Run(ctx context.Context, plan Plan, callers []Caller) Measured {
	r := &run{plan: plan, begin: time.Now()}
	r.open(len(callers))
	stop := context.AfterFunc(ctx, func() { r.stopped.Store(true) })
	defer stop()
	if plan.Rate > 0 {
		r.due = make(chan time.Duration, maxQueue)
		go r.pace()
	} else if plan.Duration > 0 {
		end := time.AfterFunc(plan.Duration, func() { r.stopped.Store(true) })
		defer end.Stop()
	}
	var workers sync.WaitGroup
	for i, caller := range callers {
		w := &worker{run: r, caller: caller, shard: r.shards[i%len(r.shards)],
			conn: conn{address: plan.Address, tls: plan.TLS, timeout: plan.Timeout}}
		workers.Go(w.work)
	}
	workers.Wait()
	return r.measured()
}

// maxQueue bounds the calls that are due and wait for a connection. When the queue is full the
// pacer waits; that changes no due instant.
const maxQueue = 1 << 16

// shards is how many histograms of a kind are filled concurrently.
const shards = 4

// run is the state of a Run.
type run struct {
	plan    Plan
	begin   time.Time
	stopped atomic.Bool
	taken   atomic.Int64 // calls begun (closed loop)
	calls   atomic.Int64
	unsent  atomic.Int64
	due     chan time.Duration // due instants since begin (open loop)
	shards  []*shard
}

// shard holds the measurements of some of the workers.
type shard struct {
	mu      sync.Mutex
	latency []*Histogram
	delay   *Histogram
}

func (r *run) open(callers int) {
	for range min(callers, shards) {
		s := &shard{delay: NewHistogram()}
		for range r.plan.Kinds {
			s.latency = append(s.latency, NewHistogram())
		}
		r.shards = append(r.shards, s)
	}
}

// measured adds up the shards after the workers have ended.
func (r *run) measured() Measured {
	m := Measured{Duration: time.Since(r.begin), Calls: r.calls.Load(), Unsent: r.unsent.Load(),
		Delay: NewHistogram()}
	for range r.plan.Kinds {
		m.Latency = append(m.Latency, NewHistogram())
	}
	for _, s := range r.shards {
		m.Delay.Merge(s.delay)
		for kind, h := range s.latency {
			m.Latency[kind].Merge(h)
		}
	}
	return m
}

// worker makes the calls of one connection.
type worker struct {
	*run
	caller Caller
	shard  *shard
	conn   conn
	buf    []byte
}

func (w *worker) work() {
	defer w.conn.close()
	if w.plan.Rate > 0 {
		w.workOpen()
		return
	}
	for !w.stopped.Load() {
		if w.plan.Calls > 0 && w.taken.Add(1) > w.plan.Calls {
			return
		}
		w.call(-1)
	}
}

// call makes one call. due is when it is due since the start; negative means now.
func (w *worker) call(due time.Duration) {
	var kind int
	w.buf, kind = w.caller.Request(w.buf[:0])
	sending := time.Since(w.begin)
	status, body, sent, err := w.conn.call(w.buf)
	answered := time.Since(w.begin)
	w.calls.Add(1)
	w.note(kind, due, sending, answered)
	if err == nil {
		w.caller.Answer(status, body)
		return
	}
	w.caller.Lost(sent, err)
	if !sent {
		w.pause()
	}
}

func (w *worker) note(kind int, due, sending, answered time.Duration) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	if due < 0 {
		w.shard.latency[kind].Add(answered - sending)
		return
	}
	w.shard.latency[kind].Add(answered - due)
	w.shard.delay.Add(sending - due)
}

// pause waits briefly before an unreachable server is dialled again.
func (w *worker) pause() {
	const longest = 500 * time.Millisecond
	for waited := time.Duration(0); waited < longest &&
		!w.stopped.Load(); waited += 10 * time.Millisecond {
		time.Sleep(10 * time.Millisecond)
	}
}
