//go:build !linux

package load

import "time"

// nap sleeps, and may be late by a millisecond.
func nap(d time.Duration) { time.Sleep(d) }
