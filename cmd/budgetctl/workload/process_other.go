//go:build !linux

package workload

import "errors"

// ReadUsage returns an error, because it needs the /proc of Linux.
func ReadUsage(int) (Usage, error) {
	return Usage{}, errors.New("the CPU time of processes is read from /proc, on Linux only")
}
