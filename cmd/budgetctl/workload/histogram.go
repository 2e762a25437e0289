package workload

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histogram counts durations from 1 µs to 10 minutes, to 0.1 %. It counts others as the nearer of
// these bounds. It is not safe for concurrent use.
type Histogram struct{ hdr *hdrhistogram.Histogram }

const longest = 10 * time.Minute

// NewHistogram returns an empty histogram.
func NewHistogram() *Histogram {
	return &Histogram{hdrhistogram.New(1, longest.Microseconds(), 3)}
}

// Add counts one duration.
func (h *Histogram) Add(d time.Duration) {
	_ = h.hdr.RecordValue(min(max(d, time.Microsecond), longest).Microseconds()) // within its range
}

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(other *Histogram) { h.hdr.Merge(other.hdr) }

// Count returns the number of durations.
func (h *Histogram) Count() int64 { return h.hdr.TotalCount() }

// Quantile returns a duration, up to 0.1 % too long, that the given share (0 to 1) of the counted
// durations does not exceed. It returns 0 for an empty histogram.
func (h *Histogram) Quantile(share float64) time.Duration {
	n := float64(h.hdr.TotalCount())
	if n == 0 {
		return 0
	}
	// The library takes the nearest rank; this is the rank that covers the share.
	rank := math.Ceil(share*n - 1e-9)
	return time.Duration(h.hdr.ValueAtPercentile(rank/n*100)) * time.Microsecond
}

// Max returns the longest duration, up to 0.1 % too long; 0 for an empty histogram.
func (h *Histogram) Max() time.Duration { return time.Duration(h.hdr.Max()) * time.Microsecond }

// Mean returns the mean; 0 for an empty histogram.
func (h *Histogram) Mean() time.Duration {
	return time.Duration(h.hdr.Mean() * float64(time.Microsecond))
}

// Latency is in milliseconds, to 0.1 % or 1 µs.
type Latency struct {
	P50  float64 `json:"p50_ms"`
	P90  float64 `json:"p90_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p99_9_ms"`
	Max  float64 `json:"max_ms"`
	Mean float64 `json:"mean_ms"`
}

// Latency returns what a report says about the durations.
func (h *Histogram) Latency() Latency {
	ms := func(d time.Duration) float64 { return Rounded(float64(d) / float64(time.Millisecond)) }
	return Latency{P50: ms(h.Quantile(0.5)), P90: ms(h.Quantile(0.9)), P99: ms(h.Quantile(0.99)),
		P999: ms(h.Quantile(0.999)), Max: ms(h.Max()), Mean: ms(h.Mean())}
}

// PerSecond returns a rate; 0 if nothing was measured.
func PerSecond(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return Rounded(float64(n) / d.Seconds())
}

// Rounded rounds to three decimals.
func Rounded(n float64) float64 { return math.Round(n*1000) / 1000 }
