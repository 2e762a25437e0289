package bench

import (
	"net/http"
	"time"

	"github.com/budgetd/budgetd/cmd/budgetctl/bench/load"
)

// lagEvery is how often the lag is read.
const lagEvery = time.Second

// watchLag reads the lag from now on, if the plan wants it, until the function that it returns is
// called, which says what was seen.
func (r *run) watchLag() func() *Lag {
	if !r.plan.Lag {
		return func() *Lag { return nil }
	}
	over, samples := make(chan struct{}), make(chan []load.Lag, 1)
	go func() {
		var seen []load.Lag
		ticker := time.NewTicker(lagEvery)
		defer ticker.Stop()
		for {
			if s, err := r.readLag(); err == nil {
				seen = append(seen, s)
			}
			select {
			case <-over:
				samples <- seen
				return
			case <-ticker.C:
			}
		}
	}()
	return func() *Lag {
		close(over)
		return lagOf(<-samples)
	}
}

func (r *run) readLag() (load.Lag, error) {
	c := http.Client{Timeout: 5 * lagEvery}
	answer, err := c.Get("http://" + r.plan.Host + r.plan.Path + "/metrics")
	if err != nil {
		return load.Lag{}, err
	}
	defer answer.Body.Close()
	return load.ReadLag(answer.Body)
}

// lagOf returns the most of each half.
func lagOf(samples []load.Lag) *Lag {
	lag := &Lag{Samples: len(samples)}
	for i, s := range samples {
		if i < len(samples)/2 {
			lag.FirstHalfEntries = max(lag.FirstHalfEntries, s.Entries)
			lag.FirstHalfS = max(lag.FirstHalfS, s.Seconds)
		} else {
			lag.SecondHalfEntries = max(lag.SecondHalfEntries, s.Entries)
			lag.SecondHalfS = max(lag.SecondHalfS, s.Seconds)
		}
		lag.EndEntries = s.Entries
	}
	return lag
}
