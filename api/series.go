package api

import (
	"time"
)

// Series is a budget's figures over time, and when it will be used up at its recent rate.
type Series struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// StepS is the time between two points, in seconds.
	StepS int64 `json:"step_s"`
	// Points begin with the first stored sample. Each has the figures of the latest sample at its
	// time.
	Points []SeriesPoint `json:"points"`
	// Now holds the present figures.
	Now SeriesPoint `json:"now"`
	// RatePerS is what was used or held within the last 15 minutes, in minor units per second.
	RatePerS float64 `json:"rate_per_s"`
	// ExhaustedAt is nil unless Projection is "projected".
	ExhaustedAt *time.Time `json:"exhausted_at"`
	// Projection is "projected", "exhausted", "unlimited", "not_before_end", "not_for_years",
	// "not_used" or "not_known".
	Projection string `json:"projection"`
}

// SeriesPoint is a budget's figures at an instant, in minor units. An unlimited budget has no
// total, and the figures of what is left are nil.
type SeriesPoint struct {
	At    time.Time `json:"at"`
	Total *int64    `json:"total"`
	// Undistributed is what a period had and no bucket, NotFunded what no period had received.
	Undistributed *int64 `json:"undistributed"`
	NotFunded     *int64 `json:"not_funded"`
	// Released is what was handed out: total − not funded − undistributed − forfeited.
	Released *int64 `json:"released"`
	Used     int64  `json:"used"`
	Held     int64  `json:"held"`
	// Remaining is what deductions could take then, as in Budget. InBuckets is what the open buckets
	// held.
	Remaining *int64 `json:"remaining"`
	InBuckets *int64 `json:"in_buckets"`
	InTransit int64  `json:"in_transit"`
	// Stranded units are in buckets that are halted or out of reach, or are fragments.
	Stranded    int64 `json:"stranded"`
	Quarantined int64 `json:"quarantined"`
	Forfeited   int64 `json:"forfeited"`
}
