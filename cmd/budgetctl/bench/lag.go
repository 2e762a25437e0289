package bench

import (
	"bufio"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// lagEvery is how often the lag is read.
const lagEvery = time.Second

// sample is the lag at one instant: entries over all lanes, seconds of the worst.
type sample struct {
	entries int64
	seconds float64
}

// watchLag reads the lag from now on, if the plan wants it, until the function that it returns is
// called, which says what was seen.
func (r *run) watchLag() func() *Lag {
	if !r.plan.Lag {
		return func() *Lag { return nil }
	}
	over, samples := make(chan struct{}), make(chan []sample, 1)
	go func() {
		var seen []sample
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

func (r *run) readLag() (sample, error) {
	c := http.Client{Timeout: 5 * lagEvery}
	answer, err := c.Get("http://" + r.plan.Host + r.plan.Path + "/metrics")
	if err != nil {
		return sample{}, err
	}
	defer answer.Body.Close()
	return parseLag(answer.Body)
}

// parseLag adds up the lanes of a page of metrics.
func parseLag(page io.Reader) (s sample, err error) {
	lines := bufio.NewScanner(page)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		name, _, _ = strings.Cut(name, "{")
		if name != "budgetd_log_lag_entries" && name != "budgetd_log_lag_seconds" {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return s, err
		}
		if name == "budgetd_log_lag_entries" {
			s.entries += int64(n)
		} else {
			s.seconds = max(s.seconds, n)
		}
	}
	return s, lines.Err()
}

// lagOf returns the most of each half.
func lagOf(samples []sample) *Lag {
	lag := &Lag{Samples: len(samples)}
	for i, s := range samples {
		if i < len(samples)/2 {
			lag.FirstHalfEntries = max(lag.FirstHalfEntries, s.entries)
			lag.FirstHalfS = max(lag.FirstHalfS, s.seconds)
		} else {
			lag.SecondHalfEntries = max(lag.SecondHalfEntries, s.entries)
			lag.SecondHalfS = max(lag.SecondHalfS, s.seconds)
		}
		lag.EndEntries = s.entries
	}
	return lag
}
