package workload

import (
	"fmt"
	"os"
)

// ReadUsage returns what a process has used.
func ReadUsage(pid int) (Usage, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, err
	}
	usage, err := parseStat(text, int64(os.Getpagesize()))
	if err != nil {
		err = fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	return usage, err
}
