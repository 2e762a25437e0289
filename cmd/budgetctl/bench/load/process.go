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
	// CPU is user and system time, in steps of 10 ms.
	CPU time.Duration
	// MemoryBytes is what it has in memory now.
	MemoryBytes int64
}

// ticksPerSecond is the unit of times in /proc, whatever the kernel's own (USER_HZ, proc(5)).
const ticksPerSecond = 100

// parseStat reads /proc/PID/stat. The name of the program stands in brackets and may hold anything.
func parseStat(text []byte, pageBytes int64) (Usage, error) {
	const user, system, pages = 11, 12, 21 // counted from the field behind the name, from 0
	at := bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[at+1:])
	if at < 0 || len(fields) <= pages {
		return Usage{}, fmt.Errorf("%d fields, more are expected", len(fields))
	}
	var numbers [3]int64
	for i, field := range []int{user, system, pages} {
		var err error
		if numbers[i], err = strconv.ParseInt(string(fields[field]), 10, 64); err != nil {
			return Usage{}, err
		}
	}
	return Usage{CPU: time.Duration(numbers[0]+numbers[1]) * time.Second / ticksPerSecond,
		MemoryBytes: numbers[2] * pageBytes}, nil
}
