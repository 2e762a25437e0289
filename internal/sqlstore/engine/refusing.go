package engine

import (
	"sync/atomic"
	"time"
)

// calm is how long nothing must have been refused before a change that is accepted ends the state
// Refusing: on a full disk some changes still fit.
const calm = 5 * time.Second

// refusal is the first of the changes that the database refused for lack of space, memory,
// connections or permission since it last accepted one for good.
type refusal struct {
	err  error
	last atomic.Int64 // the latest one, Unix nanoseconds of this machine's clock
}

// Refusing returns why the database refuses changes, or nil. Reads may work all the while. It is
// safe for concurrent use.
func (db *DB) Refusing() error {
	if r := db.refusal.Load(); r != nil {
		return r.err
	}
	return nil
}

// refused notes a change that the database refused.
func (db *DB) refused(err error) {
	if fateOf(err) != full {
		return
	}
	r := db.refusal.Load()
	if r == nil {
		r = &refusal{err: err}
		if !db.refusal.CompareAndSwap(nil, r) {
			return // another one was first
		}
	}
	r.last.Store(db.clock().UnixNano())
}

// accepted notes a change that was committed.
func (db *DB) accepted() {
	r := db.refusal.Load()
	if r != nil && db.clock().UnixNano()-r.last.Load() >= int64(calm) {
		db.refusal.CompareAndSwap(r, nil)
	}
}
