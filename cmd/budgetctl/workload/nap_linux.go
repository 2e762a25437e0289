package workload

import (
	"syscall"
	"time"
)

// nap sleeps to within about 0.1 ms. time.Sleep in an idle program is late by up to a millisecond,
// which would appear as latency of the server.
func nap(d time.Duration) {
	left := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&left, nil) // after an early wake-up the caller checks the clock
}
