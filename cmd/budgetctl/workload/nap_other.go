//go:build !linux

package workload

import "time"

// nap sleeps, and may be late by a millisecond.
func nap(d time.Duration) { time.Sleep(d) }
