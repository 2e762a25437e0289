package sim

import (
	"math/rand/v2"
	"sync"
	"time"
)

// weather lets things happen to machines and stores until it is over.
func (w *world) weather(over <-chan struct{}) {
	rnd := rand.New(rand.NewPCG(w.seed, 1))
	var repairs sync.WaitGroup
	defer repairs.Wait()
	for number := uint64(1); ; number++ {
		w.instants.until(name("weather"), w.plan.weather/2, w.plan.weather)
		select {
		case <-over:
			return
		default:
		}
		if len(w.plan.events) == 0 {
			continue
		}
		key := mix(name("repair") + number)
		switch f := w.plan.events[rnd.IntN(len(w.plan.events))]; f {
		case faultUnreachable:
			w.cut(rnd)
		case faultCrash:
			m := w.machines[rnd.IntN(len(w.machines))]
			if m.node.Load() == nil {
				continue
			}
			m.crash()
			w.count(f)
			repairs.Go(func() {
				w.instants.until(key, 50*time.Millisecond, 3*time.Second)
				w.boot(m)
				w.count(faultRestart)
			})
		case faultEmpty:
			w.stores[rnd.IntN(len(w.stores))].server.Lose()
			w.count(f)
		case faultStale, faultForked:
			server := w.stores[rnd.IntN(len(w.stores))].server
			image := server.Snapshot()
			repairs.Go(func() {
				w.instants.until(key, 10*time.Millisecond, 2*time.Second)
				server.Restore(image, f == faultForked)
				w.count(f)
			})
		case faultClockAhead, faultClockBack:
			by := time.Duration(1 + rnd.Int64N(int64(2*time.Second)))
			if rnd.IntN(3) == 0 {
				by *= 60
			}
			if f == faultClockBack {
				by = -by
			}
			m := w.machines[rnd.IntN(len(w.machines))]
			m.offset.Add(int64(by))
			m.jumped.Store(virtual())
			w.count(f)
		}
	}
}

// cut keeps one node or all of them from a store or from the database for a while.
func (w *world) cut(rnd *rand.Rand) {
	to := rnd.IntN(len(w.stores) + 1)
	until := virtual() + int64(100*time.Millisecond) + rnd.Int64N(int64(3*time.Second))
	one := rnd.IntN(len(w.machines) + 1)
	for i, m := range w.machines {
		if one == i || one == len(w.machines) {
			m.cut[to].Store(until)
		}
	}
}
