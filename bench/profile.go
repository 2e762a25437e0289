package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// profileFor is how long a profile is taken, in seconds, and profileAfter how long after the begin of the load.
const profileFor, profileAfter = 5, 5

// profile writes, by perf, which functions the watched processes of a row spend their time in: a file each in
// the folder of -profile. watched are name=pid. It returns at once; the result comes when the files are there.
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
	if _, err := s.output("perf", "record", "-q", "-e", "cpu-clock", "-F", "997", "-p", pid, "-o", data, "--",
		"sleep", fmt.Sprintf("%.0f", s.seconds(profileFor).Seconds())); err != nil {
		return err
	}
	text, err := s.output("perf", "report", "-i", data, "--stdio", "-q", "--sort", "dso,symbol", "--percent-limit", "0.5")
	if err != nil {
		return err
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		out.WriteString(strings.TrimRight(strings.TrimSuffix(strings.TrimSpace(line), "-      -"), " ") + "\n")
	}
	return os.WriteFile(filepath.Join(s.profiles, row+"."+name+".txt"), []byte(out.String()), 0o644)
}
