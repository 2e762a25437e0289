package load

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
