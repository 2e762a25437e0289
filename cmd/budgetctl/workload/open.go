package workload

import "time"

// pace queues each call of the open loop when it is due. Call k is due k/Rate after the start,
// regardless of earlier calls.
func (r *run) pace() {
	defer close(r.due)
	for k := int64(0); !r.stopped.Load(); k++ {
		at := intended(k, r.plan.Rate)
		if r.plan.Duration > 0 && at >= r.plan.Duration || r.plan.Calls > 0 && k >= r.plan.Calls {
			return
		}
		for {
			wait := at - time.Since(r.begin)
			if wait <= 0 || r.stopped.Load() {
				break
			}
			nap(min(wait, longestNap))
		}
		r.due <- at
	}
}

// longestNap bounds how late an interruption is noticed.
const longestNap = 50 * time.Millisecond

// intended returns when call k, counted from 0, is due.
func intended(k int64, rate float64) time.Duration {
	return time.Duration(float64(k) / rate * float64(time.Second))
}

func (w *worker) workOpen() {
	for due := range w.due {
		switch now := time.Since(w.begin); {
		case w.stopped.Load():
			w.unsent.Add(1)
		case w.plan.Duration > 0 && now > w.plan.Duration+w.plan.Timeout:
			w.unsent.Add(1)
			w.note(0, due, now, now)
		default:
			w.call(due)
		}
	}
}
