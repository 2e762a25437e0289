package metrics

import (
	"maps"
	"sync"
	"sync/atomic"
)

// children caches metrics by their labels, because looking a metric up costs more than counting.
// It never forgets, so its keys must be bounded, as labels must be. The zero value is ready to
// use. It is safe for concurrent use.
type children[K comparable, V any] struct {
	known atomic.Pointer[map[K]V]
	mu    sync.Mutex
}

// of returns the value of a key. It calls find for a new key.
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
