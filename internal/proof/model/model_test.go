package model_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var all = flag.Bool("model.all", false, "explore every configuration (minutes), not only mutants")

// build compiles the command of a model.
func build(t *testing.T, mode string) (command string) {
	t.Helper()
	command = filepath.Join(t.TempDir(), mode)
	out, err := exec.Command("go", "build", "-o", command, "./"+mode).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return command
}

// lines reads a list of arguments.
func lines(t *testing.T, mode, name string) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(mode, name))
	if err != nil {
		t.Fatal(err)
	}
	var out [][]string
	for line := range strings.Lines(string(text)) {
		out = append(out, strings.Fields(line))
	}
	if len(out) < 15 {
		t.Fatalf("%s of %s has only %d lines", name, mode, len(out))
	}
	return out
}

// verdict runs a command and returns its last line.
func verdict(t *testing.T, command string, args []string) string {
	t.Helper()
	out, err := exec.Command(command, append([]string{"-quiet"}, args...)...).Output()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		t.Fatal(err)
	}
	all := strings.Split(strings.TrimSpace(string(out)), "\n")
	return all[len(all)-1]
}

// TestRuns finds no violation in the configurations.
func TestRuns(t *testing.T) {
	const few = 2 // configurations in the short form
	for _, mode := range []string{"ledger", "store"} {
		command := build(t, mode)
		list := lines(t, mode, "runs.txt")
		if !*all {
			list = list[:few]
		}
		for _, args := range list {
			if got := verdict(t, command, args); !strings.HasPrefix(got, "exhausted, no violation") {
				t.Errorf("%s %s: %s", mode, strings.Join(args, " "), got)
			} else if *all {
				t.Logf("%s %s: %s", mode, strings.Join(args, " "), got)
			}
		}
	}
}

// TestMutants finds a violation for each removed safeguard, except those marked with "-", which are
// redundant in the model.
func TestMutants(t *testing.T) {
	for _, mode := range []string{"ledger", "store"} {
		command := build(t, mode)
		for _, line := range lines(t, mode, "mutants.txt") {
			name, redundant := strings.CutPrefix(line[0], "-")
			want := "VIOLATION"
			if redundant {
				want = "exhausted, no violation"
			}
			if redundant && !*all {
				continue // they take longest, and only say that another safeguard stands behind
			}
			got := verdict(t, command, append([]string{"-mut", name}, line[1:]...))
			if !strings.HasPrefix(got, want) {
				t.Errorf("%s without %s: %s", mode, line[0], got)
			}
		}
	}
}
