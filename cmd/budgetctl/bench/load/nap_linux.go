package load

import (
	"syscall"
	"time"
)

// nap sleeps to within some 0.1 ms. time.Sleep of an idle program is late by up to a
// millisecond, which would be taken for the server's.
func nap(d time.Duration) {
	left := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&left, nil) // woken early: the caller looks at the clock
}
