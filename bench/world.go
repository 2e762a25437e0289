package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// world is the state of a run that all rows share.
type world struct {
	ctx      context.Context
	dir      string
	bins     []string // folders of the binaries; the first that has one is asked
	at       string   // the commit whose binaries are measured; "" means this one
	against  bool     // two commits are compared, so baselines are of no interest
	quick    bool
	log      io.Writer
	measured map[string]measurement
	near     map[string]measurement   // baselines measured since the last row of budgetd
	every    map[string][]measurement // all measurements of the baselines
	spots    []spot                   // measurements of the series
	failed   []string
	runs     int
}

// measurement is the result of one row.
type measurement struct {
	perS, p50, p99 float64 // deductions a second; ms of a call
	cpu            []cost
	note           string
	named          []figure
	memoryMiB      float64                // of budgetd
	beside         map[string]measurement // baselines: the mean of a run before and one after it
}

// figure is a result that few rows have. The name says the unit.
type figure struct {
	name  string
	value float64
}

// figures returns all results of a row that two commits are compared by.
func (m measurement) figures() (all []figure) {
	if m.perS > 0 {
		all = []figure{{"per second", m.perS}, {"p50, ms", m.p50}, {"p99, ms", m.p99}}
	}
	for _, c := range m.cpu {
		all = append(all, figure{"CPU of " + c.process + ", µs", c.us})
	}
	return append(all, m.named...)
}

// cost is the CPU time of a process per deduction, in microseconds.
type cost struct {
	process string
	us      float64
}

// us returns the cost of one process, or 0.
func (m measurement) us(process string) float64 {
	for _, c := range m.cpu {
		if c.process == process {
			return c.us
		}
	}
	return 0
}

// measure runs a row unless it was run before, between two runs of each baseline of its targets.
func (w *world) measure(name string) (measurement, error) {
	if m, done := w.measured[name]; done {
		return m, nil
	}
	at := slices.IndexFunc(rows, func(r row) bool { return r.name == name })
	if at < 0 {
		return measurement{}, fmt.Errorf("there is no row %q", name)
	}
	if _, is := rows[at].measurer.(service); is {
		return w.baseline(name)
	}
	var beside []string
	for _, t := range targets {
		by := slices.IndexFunc(rows, func(r row) bool { return r.name == t.by })
		if w.against || t.row != name || by < 0 || slices.Contains(beside, t.by) {
			continue
		}
		if _, is := rows[by].measurer.(service); is {
			beside = append(beside, t.by)
		} else if _, err := w.measure(t.by); err != nil {
			return measurement{}, err
		}
	}
	before, err := w.baselines(beside)
	if err != nil {
		return measurement{}, err
	}
	m, err := w.once(rows[at])
	clear(w.near)
	if err != nil {
		return m, err
	}
	after, err := w.baselines(beside)
	if err != nil {
		return m, err
	}
	m.beside = map[string]measurement{}
	for i, by := range beside {
		m.beside[by] = mean(before[i], after[i])
	}
	w.measured[name] = m
	return m, nil
}

// baselines measures baselines, except those measured since the last row of budgetd.
func (w *world) baselines(names []string) ([]measurement, error) {
	out := make([]measurement, len(names))
	for i, name := range names {
		m, err := w.baseline(name)
		if err != nil {
			return nil, err
		}
		out[i] = m
	}
	return out, nil
}

// baseline measures a baseline. The table shows the mean of all its runs.
func (w *world) baseline(name string) (measurement, error) {
	if m, is := w.near[name]; is {
		return m, nil
	}
	m, err := w.once(rows[slices.IndexFunc(rows, func(r row) bool { return r.name == name })])
	if err != nil {
		return m, err
	}
	w.near[name] = m
	w.every[name] = append(w.every[name], m)
	all := mean(w.every[name]...)
	all.note = fmt.Sprintf("mean of %d runs", len(w.every[name]))
	w.measured[name] = all
	return m, nil
}

// mean returns the mean of measurements of one row.
func mean(all ...measurement) measurement {
	var out measurement
	n := float64(len(all))
	for _, m := range all {
		out.perS, out.p50, out.p99 = out.perS+m.perS/n, out.p50+m.p50/n, out.p99+m.p99/n
		for i, c := range m.cpu {
			if i == len(out.cpu) {
				out.cpu = append(out.cpu, cost{process: c.process})
			}
			out.cpu[i].us += c.us / n
		}
	}
	return out
}

// once runs a row.
func (w *world) once(r row) (measurement, error) {
	w.runs++
	s := &stage{world: w, dir: filepath.Join(w.dir, fmt.Sprint(w.runs))}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return measurement{}, err
	}
	fmt.Fprintf(w.log, "%s: %s %s\n", time.Now().Format(time.TimeOnly), r.name, w.at)
	m, err := r.measure(s)
	m.named = append(m.named, s.trips...)
	if err = errors.Join(err, s.close()); err != nil {
		return m, err
	}
	fmt.Fprintf(w.log, "  %s%s\n", texts(m.figures()), m.note)
	return m, nil
}

// seconds returns n seconds, or one second in a quick run.
func (w *world) seconds(n int) time.Duration {
	if w.quick {
		return time.Second
	}
	return time.Duration(n) * time.Second
}

// stage holds the servers of one row, in their own folder. close stops the last one started first.
type stage struct {
	*world
	dir   string
	stop  []func() error
	trips []figure // round trips to servers behind a proxy
}

func (s *stage) close() error {
	var all []error
	for i := len(s.stop) - 1; i >= 0; i-- {
		all = append(all, s.stop[i]())
	}
	return errors.Join(append(all, os.RemoveAll(s.dir))...)
}

// process is a running server from one of the built binaries.
type process struct {
	pid     int
	address string
}

var listening = regexp.MustCompile(`listening.*?([0-9.]+:[0-9]+)`)

// start starts one of the built binaries and waits until it prints its address.
func (s *stage) start(name string, env []string, args ...string) (process, error) {
	logged := filepath.Join(s.dir, fmt.Sprintf("%s-%d.log", name, len(s.stop)))
	file, err := os.Create(logged)
	if err != nil {
		return process{}, err
	}
	defer file.Close()
	cmd := exec.Command(s.binary(name), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, file, file
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = childAttributes()
	if err := cmd.Start(); err != nil {
		return process{}, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the log says how it ended
		close(ended)
	}()
	s.stop = append(s.stop, func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		return nil
	})
	for {
		text, err := os.ReadFile(logged)
		if err != nil {
			return process{}, err
		}
		if at := listening.FindSubmatch(text); at != nil {
			return process{cmd.Process.Pid, string(at[1])}, nil
		}
		select {
		case <-ended:
			return process{}, fmt.Errorf("%s ended while starting:\n%s", name, text)
		case <-s.ctx.Done():
			return process{}, s.ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// binary returns the path of a built binary, or the name of an installed one.
func (w *world) binary(name string) string {
	for _, dir := range w.bins {
		if path := filepath.Join(dir, name); exists(path) {
			return path
		}
	}
	return name
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// output runs one of the built binaries, or an installed one, and returns its output. An error
// includes what it wrote to standard error.
func (s *stage) output(name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(s.ctx, s.binary(name), args...)
	cmd.SysProcAttr = childAttributes()
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	text, err := cmd.Output()
	if err != nil {
		return text, fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(complaint.String()))
	}
	return text, nil
}

// scaled returns n, or a hundredth of it in a quick run.
func (w *world) scaled(n int) int {
	if w.quick {
		return n / 100
	}
	return n
}

// each calls do n times, batchConnections of them concurrently, until one fails.
func (s *stage) each(n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range batchConnections {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				one, done := context.WithTimeout(ctx, time.Minute)
				if err := do(one, i); err != nil {
					cancel(err)
				}
				done()
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// create creates n budgets of type promo that count units.
func (s *stage) create(c *client.Client, n int, of func(i int) client.CreateRequest) error {
	return s.each(n, func(ctx context.Context, i int) error {
		request := of(i)
		request.Unit, request.Type = budget.Count, budget.Promo
		_, err := c.Create(ctx, request)
		return err
	})
}
