package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// profileFor is how long a profile is taken, in seconds, and profileAfter how long after the begin
// of the load.
const profileFor, profileAfter = 5, 5

// profile writes, by perf, which functions the watched processes of a row spend their time in: a
// file each in the folder of -profile. watched are name=pid. It returns at once; the result comes
// when the files are there.
func (s *stage) profile(row string, watched []string) <-chan error {
	done := make(chan error, 1)
	if s.profiles == "" {
		done <- nil
		return done
	}
	go func() {
		select {
		case <-s.ctx.Done():
			done <- s.ctx.Err()
			return
		case <-time.After(s.seconds(profileAfter)):
		}
		done <- s.profileNow(row, watched)
	}()
	return done
}

func (s *stage) profileNow(row string, watched []string) error {
	failed := make([]error, len(watched))
	var all sync.WaitGroup
	for i, p := range watched {
		all.Go(func() { failed[i] = s.profileOne(row, p) })
	}
	all.Wait()
	return errors.Join(failed...)
}

func (s *stage) profileOne(row, watched string) error {
	name, pid, _ := strings.Cut(watched, "=")
	data := filepath.Join(s.dir, name+".perf")
	// The software clock is there on virtual machines too.
	if _, err := s.output("perf", "record", "-q", "-e", "cpu-clock", "-F", "997", "-p", pid, "-o",
		data, "--",
		"sleep", fmt.Sprintf("%.0f", s.seconds(profileFor).Seconds())); err != nil {
		return err
	}
	text, err := s.output("perf", "report", "-i", data, "--stdio", "-q", "--sort", "dso,symbol")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.profiles, row+"."+name+".txt"),
		[]byte(profileText(string(text))), 0o644)
}

// profileText makes of perf's report (a line per function: its share in percent, its program or
// library, [k] or [.], its name) two lists: the shares of packages and libraries, and those of
// functions, of half a percent and more.
func profileText(report string) string {
	const least = 0.5
	parts := map[string]float64{}
	var functions strings.Builder
	for line := range strings.Lines(report) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		share, err := strconv.ParseFloat(strings.TrimSuffix(fields[0], "%"), 64)
		if err != nil {
			continue
		}
		symbol := strings.TrimSuffix(strings.Join(fields[3:], " "), " - -")
		parts[partOf(fields[1], symbol)] += share
		if share >= least {
			fmt.Fprintf(&functions, "%5.1f%%  %s  %s\n", share, fields[1], symbol)
		}
	}
	var out strings.Builder
	for _, part := range slices.SortedFunc(maps.Keys(parts),
		func(a, b string) int { return cmp.Compare(parts[b], parts[a]) }) {
		if parts[part] >= least {
			fmt.Fprintf(&out, "%5.1f%%  %s\n", parts[part], part)
		}
	}
	return out.String() + "\n" + functions.String()
}

// partOf is the package of a function of budgetd; else the program or library.
func partOf(object, symbol string) string {
	switch {
	case strings.HasPrefix(object, "["):
		return strings.Trim(object, "[]")
	case object != "budgetd":
		return object
	}
	symbol, _, _ = strings.Cut(symbol, "[") // type arguments
	folder := strings.LastIndex(symbol, "/") + 1
	name, _, isGo := strings.Cut(symbol[folder:], ".")
	if !isGo || strings.HasPrefix(symbol, "type:") { // assembly, and what the compiler makes
		return "runtime"
	}
	return symbol[:folder] + name
}
