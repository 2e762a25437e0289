// Command mutants switches the safeguards off one at a time and runs the tests that docs/MUTANTS.md
// names for each: every one of them has to fail, by a wrong outcome or a violation that was found, and
// to pass while all safeguards are on. It is run in the repository's folder:
//
//	go run ./internal/safeguard/mutants [NAME...]
//
// It exits with 1 when a safeguard can be lost without a test failing. The test binaries are built
// once, with the tag mutants and without the race detector: a mutant does the wrong thing whatever the
// order, and plain binaries are several times as fast.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run prints a line for every mutant and test. The error says how many safeguards nobody missed.
func run(ctx context.Context, names []string, out io.Writer) error {
	table, err := loadTable(".")
	if err != nil {
		return err
	}
	if len(names) > 0 {
		table = slices.DeleteFunc(table, func(m mutant) bool { return !slices.Contains(names, string(m.name)) })
	}
	folder, err := os.MkdirTemp("", "budgetd-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	b := &bench{folder: folder, tests: map[string]string{}}
	began := time.Now()
	if err := b.build(ctx, table); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d test binaries built in %.0f s\n", len(b.tests), time.Since(began).Seconds())
	failures := b.baseline(ctx, table, out)
	if failures > 0 {
		return fmt.Errorf("%d tests do not pass with every safeguard on: nothing can be said", failures)
	}
	survivors := 0
	for _, m := range table {
		if !b.kill(ctx, m, out) {
			survivors++
		}
	}
	fmt.Fprintf(out, "%d safeguards, %d not missed by a test, %.0f s\n", len(table), survivors,
		time.Since(began).Seconds())
	if survivors > 0 || len(table) == 0 {
		return fmt.Errorf("%d of %d safeguards can be lost without a test failing", survivors, len(table))
	}
	return nil
}

// bench holds the test binaries by package folder.
type bench struct {
	folder string
	tests  map[string]string
}

// build makes the binaries of all packages that the table names.
func (b *bench) build(ctx context.Context, table []mutant) error {
	for _, m := range table {
		for _, k := range m.killers {
			if b.tests[k.folder] != "" {
				continue
			}
			binary := fmt.Sprintf("%s/%d.test", b.folder, len(b.tests))
			cmd := exec.CommandContext(ctx, "go", "test", "-c", "-tags", "mutants", "-o", binary, "./"+k.folder)
			if text, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("build the tests of %s: %w\n%s", k.folder, err, text)
			}
			b.tests[k.folder] = binary
		}
	}
	return nil
}

// baseline runs each test once with all safeguards on, and returns how many do not pass.
func (b *bench) baseline(ctx context.Context, table []mutant, out io.Writer) (failures int) {
	seen := map[killer]bool{}
	for _, m := range table {
		for _, k := range m.killers {
			if seen[k] {
				continue
			}
			seen[k] = true
			v := b.try(ctx, k, "")
			fmt.Fprintf(out, "%-22s %6.1f s  %-8s %s\n", "(all on)", v.took.Seconds(), v.result, k)
			if v.result != passed {
				failures++
				fmt.Fprintln(out, v.output)
			}
		}
	}
	return failures
}

// kill switches a safeguard off and reports whether every test of it failed.
func (b *bench) kill(ctx context.Context, m mutant, out io.Writer) bool {
	killed := true
	for _, k := range m.killers {
		v := b.try(ctx, k, string(m.name))
		fmt.Fprintf(out, "%-22s %6.1f s  %-8s %s\n%34s%s\n", m.name, v.took.Seconds(), v.result, k, "", v.why)
		killed = killed && v.result == failed
	}
	return killed
}

// limit bounds one run of a test.
const limit = 5 * time.Minute

// try runs a test with a safeguard off, "" for none.
func (b *bench) try(ctx context.Context, k killer, off string) verdict {
	ctx, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	binary := b.tests[k.folder]
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.run", pattern(k.test),
		"-test.timeout", limit.String())
	cmd.Dir = "./" + k.folder
	cmd.Env = append(os.Environ(), "BUDGETD_MUTANT="+off)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	began := time.Now()
	output, err := cmd.CombinedOutput()
	v := judge(k.test, string(output), err == nil)
	v.took = time.Since(began)
	return v
}
