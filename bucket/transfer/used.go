package transfer

import "sync"

// maxUsed bounds the budgets that are remembered between two passes. The loop misses further ones
// until they are used again.
const maxUsed = 10_000

// used is the set of budgets that were used since the last pass of a loop. The zero value is empty.
// It is safe for concurrent use.
type used struct {
	mu  sync.RWMutex
	ids map[int64]struct{}
}

// note adds a budget. It takes no exclusive lock if the budget is in the set.
func (u *used) note(id int64) {
	u.mu.RLock()
	_, known := u.ids[id]
	u.mu.RUnlock()
	if known {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ids == nil {
		u.ids = map[int64]struct{}{}
	}
	if len(u.ids) < maxUsed {
		u.ids[id] = struct{}{}
	}
}

// take removes at most n budgets and returns them.
func (u *used) take(n int) (ids []int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id := range u.ids {
		if len(ids) == n {
			break
		}
		delete(u.ids, id)
		ids = append(ids, id)
	}
	return ids
}
