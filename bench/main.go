// Bench runs budgetd and the baselines that it is measured against, one after the other on private
// servers, and writes a table with their throughput, latency and CPU time, and the ratios that
// docs/PERFORMANCE.md promises. bench/run.sh builds what it needs and calls it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

func init() {
	// The servers are killed when the thread that started them ends. The first thread lives as long as
	// the process.
	runtime.LockOSThread()
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	bin := flags.String("bin", "", "absolute folder of the binaries (bench/run.sh makes it)")
	quick := flags.Bool("quick", false,
		"run each row for a second or two, to see that everything works; the figures mean nothing")
	only := flags.String("only", "", "names of rows and series to run, or words that such names "+
		"begin with (distance), separated by commas; baselines that they need run too")
	against := flags.String("against", "", "measure rows of budgetd with the binaries of another "+
		"commit and with this one in turns")
	at := flags.String("at", "", "measure with the binaries of another commit")
	other := flags.String("other", "", "folder of that commit's binaries (bench/run.sh makes it)")
	list := flags.Bool("list", false, "list the names of the rows and series")
	out := flags.String("out", "", "file for the table (default: standard output)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	all, text := listed()
	if *list {
		return write(*out, stdout, text)
	}
	names, err := chosen(*only, all)
	if err != nil {
		return err
	}
	if *against != "" {
		names = slices.DeleteFunc(names, func(name string) bool { return !comparable(name) })
	}
	dir, err := os.MkdirTemp("", "budgetd-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	w := &world{ctx: ctx, dir: dir, quick: *quick, log: stderr, at: *at, against: *against != "",
		measured: map[string]measurement{}, near: map[string]measurement{},
		every: map[string][]measurement{}, bins: []string{*bin}}
	if *at != "" {
		w.bins = []string{*other, *bin}
	}
	if w.against {
		text = w.compared(*against, w.compare(names, *against, *other))
	} else {
		w.measureEach(names, w.measureOne)
		text = w.markdown()
	}
	if err := write(*out, stdout, text); err != nil {
		return err
	}
	if len(w.failed) > 0 {
		return fmt.Errorf("%d rows failed", len(w.failed))
	}
	return nil
}

// listed returns the names of the rows and series, and a list of what they are.
func listed() (names []string, text string) {
	for _, r := range rows {
		names = append(names, r.name)
		text += fmt.Sprintf("%-24s %s\n", r.name, r.what)
	}
	for _, s := range flat {
		names = append(names, s.name)
		text += fmt.Sprintf("%-24s cost by %s\n", s.name, s.what)
	}
	return names, text
}

// measureEach measures rows and records those that fail.
func (w *world) measureEach(names []string, measure func(name string) error) {
	for _, name := range names {
		err := measure(name)
		if w.ctx.Err() != nil {
			w.failed = append(w.failed, name+": interrupted; it and the following rows have no figures")
			break
		}
		if err != nil {
			// Keep the figures of the other rows.
			w.failed = append(w.failed, fmt.Sprintf("%s: %v", name, err))
			fmt.Fprintf(w.log, "%s: %v\n", name, err)
		}
	}
}

// measureOne measures a row, or a series in both modes.
func (w *world) measureOne(name string) error {
	at := slices.IndexFunc(flat, func(s series) bool { return s.name == name })
	if at < 0 {
		_, err := w.measure(name)
		return err
	}
	for _, durability := range modes {
		if _, is := flat[at].may[durability]; !is {
			continue
		}
		spots, err := w.measureSeries(flat[at], durability)
		w.spots = append(w.spots, spots...)
		if err != nil {
			return fmt.Errorf("%s mode: %w", durability, err)
		}
	}
	return nil
}

// chosen returns the names of the rows and series to run.
func chosen(only string, all []string) ([]string, error) {
	if only == "" {
		return slices.DeleteFunc(slices.Clone(all), func(name string) bool {
			return slices.Contains(apart, name)
		}), nil
	}
	var names []string
	for word := range strings.SplitSeq(only, ",") {
		found := slices.DeleteFunc(slices.Clone(all), func(name string) bool {
			return name != word && (slices.Contains(all, word) || !strings.HasPrefix(name, word+"-"))
		})
		if len(found) == 0 {
			return nil, fmt.Errorf("there is no %q; there are %s", word, strings.Join(all, ", "))
		}
		names = append(names, found...)
	}
	return names, nil
}

func write(path string, stdout io.Writer, text string) error {
	if path == "" {
		_, err := io.WriteString(stdout, text)
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
