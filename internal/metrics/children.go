package metrics

import (
	"maps"
	"sync"
	"sync/atomic"
)

// children caches the counters of frequent events, because looking them up by their labels costs
// more than counting. Its keys are as bounded as the labels made of them. The zero value is ready.
// It is safe for concurrent use.
type children[K comparable, V any] struct {
	known atomic.Pointer[map[K]V]
	mu    sync.Mutex
}

// of returns the result of the first call of find for the key.
func (c *children[K, V]) of(key K, find func() V) V {
	if known := c.known.Load(); known != nil {
		if v, ok := (*known)[key]; ok {
			return v
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	grown := map[K]V{}
	if known := c.known.Load(); known != nil {
		grown = maps.Clone(*known)
	}
	v := find()
	grown[key] = v
	c.known.Store(&grown)
	return v
}
