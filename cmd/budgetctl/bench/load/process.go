package load

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// Process is one that is watched while the load runs.
type Process struct {
	Name string
	Pid  int
}

// Usage is what a process has used since it began.
type Usage struct {
	// CPU is user and system time, in steps of 10 ms, of the process and of its children that ended
	// and that it waited for, such as those in which Redis saves or rewrites its append-only file. A
	// child counts all at once and whole when it is waited for; one that still runs is not in it.
	CPU time.Duration
	// MemoryBytes is what it has in memory now, without its children.
	MemoryBytes int64
}

// ticksPerSecond is the unit of times in /proc, whatever the kernel's own (USER_HZ, proc(5)).
const ticksPerSecond = 100

// parseStat reads /proc/PID/stat. The name of the program stands in brackets and may hold anything.
func parseStat(text []byte, pageBytes int64) (Usage, error) {
	// Counted from the field behind the name, from 0.
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
