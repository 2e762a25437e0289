//go:build !linux

package load

import "errors"

// ReadUsage returns an error: processes are read from /proc, on Linux only.
func ReadUsage(int) (Usage, error) {
	return Usage{}, errors.New("the CPU time of processes is read from /proc, on Linux only")
}
