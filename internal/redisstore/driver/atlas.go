package driver

import (
	"context"
	"errors"
	"sync"
	"time"
)

// atlasAge is how long an atlas believes what it was told when nothing speaks against it. A lane
// that moved unnoticed costs nothing meanwhile: whoever serves it no longer says so at the first
// call.
const atlasAge = 3 * time.Second

// errNobody says that an instance's servers were asked and that none serves the lane.
var errNobody = errors.New("none of its servers says who serves the lane")

// atlas remembers which server serves which lane, as the servers of the instance tell it. It
// only says where to look: who answers there is told by the identity, and a lane that moved is a
// lane that lost
// its memory. Safe for concurrent use.
type atlas struct {
	// ask asks the servers: an address for each lane, "" for one that nobody serves. nil: a
	// standalone
	// Redis, which is where the configuration says.
	ask func(context.Context) ([]string, error)
	// asking is held by whoever asks.
	asking chan struct{}

	mu    sync.Mutex
	addrs []string // as last told; nil: never
	err   error    // of the last question
	// asked is when the last question began, doubted when a server was last found not to serve.
	asked, doubted time.Time
}

// fixedAtlas says the same of every lane, at all times.
func fixedAtlas(addr string, lanes int) *atlas {
	a := &atlas{addrs: make([]string, lanes)}
	for i := range a.addrs {
		a.addrs[i] = addr
	}
	return a
}

func newAtlas(ask func(context.Context) ([]string, error)) *atlas {
	return &atlas{ask: ask, asking: make(chan struct{}, 1)}
}

// find returns the address of the server that serves a lane, by its index. It asks when it never
// did, when what it knows is older than atlasAge, or after doubt. When nobody can be asked, what
// was known before stands: sentinels that are down do not take away a Redis that is up. Errors:
// why nobody could
// be asked, or errNobody.
func (a *atlas) find(ctx context.Context, index int) (string, error) {
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

// known returns what is known of a lane, and whether that is good enough for somebody who came
// then.
func (a *atlas) known(index int, came time.Time) (addr string, err error, good bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	good = !a.asked.Before(came) ||
		a.err == nil && a.asked.After(a.doubted) && came.Sub(a.asked) < atlasAge
	if a.addrs != nil && a.addrs[index] != "" {
		return a.addrs[index], nil, good
	}
	if a.err != nil {
		return "", a.err, good
	}
	return "", errNobody, good
}

// doubt makes the next find ask: a server did not do what was asked of it.
func (a *atlas) doubt() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.doubted = time.Now()
}
