package load

import "time"

// pace puts the intended instants of the open loop into the queue, each when it has come. Call k is
// meant for k/Rate after the begin, whatever became of the calls before it.
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

// longestNap is how soon an interruption is noticed.
const longestNap = 50 * time.Millisecond

// intended returns when call k, counted from 0, is to be sent.
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
