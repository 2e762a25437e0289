package workload

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// Process is a process that is measured while the load runs.
type Process struct {
	Name string
	Pid  int
}

// Usage is what a process has used since it began.
type Usage struct {
	// CPU is user and system time, in steps of 10 ms. It includes the children that have ended and
	// that the process waited for, such as those in which Redis rewrites its append-only file. A
	// child counts as a whole when the process waits for it.
	CPU time.Duration
	// MemoryBytes is its resident memory now, without its children.
	MemoryBytes int64
}

// ticksPerSecond is the unit of times in /proc, which does not depend on the kernel's own (USER_HZ,
// proc(5)).
const ticksPerSecond = 100

// parseStat parses /proc/PID/stat. The program's name is in brackets and may contain any character.
func parseStat(text []byte, pageBytes int64) (Usage, error) {
	// Indexes of fields, from 0 at the first one behind the name.
	const user, system, childrenUser, childrenSystem, pages = 11, 12, 13, 14, 21
	at := bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[at+1:])
	if at < 0 || len(fields) <= pages {
		return Usage{}, fmt.Errorf("%d fields, more are expected", len(fields))
	}
	var numbers [pages + 1]int64
	for _, field := range []int{user, system, childrenUser, childrenSystem, pages} {
		var err error
		if numbers[field], err = strconv.ParseInt(string(fields[field]), 10, 64); err != nil {
			return Usage{}, err
		}
	}
	ticks := numbers[user] + numbers[system] + numbers[childrenUser] + numbers[childrenSystem]
	return Usage{CPU: time.Duration(ticks) * time.Second / ticksPerSecond,
		MemoryBytes: numbers[pages] * pageBytes}, nil
}
