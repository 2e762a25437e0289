package driver

import (
	"context"
	"errors"
	"sync"
	"time"
)

// topologyAge is how long a topology trusts an answer without doubt. A stale entry costs nothing:
// the server refuses the first call for a partition that has moved.
const topologyAge = 3 * time.Second

// errNobody means that an instance's servers answered, and none of them knows who serves the
// partition.
var errNobody = errors.New("none of its servers knows who serves the partition")

// topology maps partitions to servers, as reported by the servers of the instance. It only says
// where to look: the identity shows who answers there, and a partition that moved is a partition
// that lost its memory. It is safe for concurrent use.
type topology struct {
	// ask queries the servers and returns an address for each partition, "" if nobody serves it. It is
	// nil for a standalone Redis, whose address is configured.
	ask func(context.Context) ([]string, error)
	// asking is held by the goroutine that asks.
	asking chan struct{}

	mu    sync.Mutex
	addrs []string // the last answer; nil before the first
	err   error    // of the last question
	// asked is when the last query began, doubted when a server last turned out not to serve.
	asked, doubted time.Time
}

// fixedTopology returns a topology with the same address for every partition.
func fixedTopology(addr string, partitions int) *topology {
	a := &topology{addrs: make([]string, partitions)}
	for i := range a.addrs {
		a.addrs[i] = addr
	}
	return a
}

func newTopology(ask func(context.Context) ([]string, error)) *topology {
	return &topology{ask: ask, asking: make(chan struct{}, 1)}
}

// find returns the address of the server that serves a partition, by the partition's index. It
// queries the servers the first time, when its knowledge is older than topologyAge, and after
// doubt. If nobody answers, the previous knowledge stands: sentinels that are down do not take away
// a Redis that is up. It returns an error if nobody could be asked, or errNobody.
func (a *topology) find(ctx context.Context, index int) (string, error) {
	if a.ask == nil {
		return a.addrs[index], nil
	}
	came := time.Now()
	if addr, err, good := a.known(index, came); good {
		return addr, err
	}
	select {
	case a.asking <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { <-a.asking }()
	if addr, err, good := a.known(index, came); good {
		return addr, err // somebody asked meanwhile
	}
	began := time.Now()
	addrs, err := a.ask(ctx)
	a.mu.Lock()
	if a.asked, a.err = began, err; err == nil {
		a.addrs = addrs
	}
	a.mu.Unlock()
	addr, err, _ := a.known(index, came)
	return addr, err
}

// known returns the address of a partition, and whether it is recent enough for a caller who came
// at that time.
func (a *topology) known(index int, came time.Time) (addr string, err error, good bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	good = !a.asked.Before(came) ||
		a.err == nil && a.asked.After(a.doubted) && came.Sub(a.asked) < topologyAge
	if a.addrs != nil && a.addrs[index] != "" {
		return a.addrs[index], nil, good
	}
	if a.err != nil {
		return "", a.err, good
	}
	return "", errNobody, good
}

// doubt makes the next find query the servers, because a server did not do what was asked.
func (a *topology) doubt() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.doubted = time.Now()
}
