package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows the progress of a long command on stderr: a bar on a terminal, otherwise a line
// for every tenth, or nothing.
type progress struct {
	stderr io.Writer
	total  int
	bar    *progressbar.ProgressBar // nil if there is no terminal
	lines  bool
	tenths int // how many tenths were shown
}

// progresses are the values of --progress.
var progresses = []string{"auto", "always", "never"}

// terminal is stderr if it is a terminal that may show progress; nil otherwise.
func (a *app) terminal() *os.File {
	file, isFile := a.stderr.(*os.File)
	if !isFile || a.progress == "never" || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return file
}

// newProgress returns a progress in the form that --progress selects.
func (a *app) newProgress(total int) *progress {
	p := &progress{stderr: a.stderr, total: total}
	if a.terminal() != nil && total > 0 {
		p.bar = newBar(a.stderr, total)
	}
	p.lines = p.bar == nil && a.progress == "always"
	return p
}

func newBar(w io.Writer, total int) *progressbar.ProgressBar {
	return progressbar.NewOptions(total, progressbar.OptionSetWriter(w),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionClearOnFinish())
}

// show reports how many of the total are done.
func (p *progress) show(done int) {
	if p == nil {
		return
	}
	if p.bar != nil {
		_ = p.bar.Set(done) // a bar that cannot be drawn does no harm
	}
	if tenths := done * 10 / max(p.total, 1); p.lines && tenths > p.tenths {
		p.tenths = tenths
		fmt.Fprintf(p.stderr, "%d %% (%d of %d)\n", tenths*10, done, p.total)
	}
}

// finish clears the bar. A nil progress shows nothing.
func (p *progress) finish() {
	if p != nil && p.bar != nil {
		_ = p.bar.Clear()
	}
}

// patience is how long a call may take before waiting says so.
const patience = 2 * time.Second

// bounded bounds a call, with its repeats, by --timeout. While it takes longer than patience, it
// says so on stderr. Call the returned function at the end of the call. Every call of the server
// goes through it unless its command shows its progress otherwise.
func (a *app) bounded(ctx context.Context) (bounded context.Context, done func()) {
	bounded, cancel := context.WithTimeout(ctx, a.timeout)
	silence := a.waiting()
	return bounded, func() {
		cancel()
		silence()
	}
}

// waiting shows on stderr, as --progress says, how long a command has waited once it takes longer
// than patience. Call the returned function at the end.
func (a *app) waiting() (done func()) {
	switch file := a.terminal(); {
	case file != nil:
		erase := "\r" + text.EraseLine.Sprint()
		return tell(file, patience, time.Second, erase+" waiting for the server, %s", erase)
	case a.progress == "always":
		return tell(a.stderr, patience, 10*time.Second, "waiting for the server, %s\n", "")
	}
	return func() {}
}

// tell writes the time since its call, first after one interval and then at every other, until the
// returned function is called, which writes clear if there is something to clear.
func tell(w io.Writer, first, every time.Duration, format, clear string) (done func()) {
	began, stop, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		timer, said := time.NewTimer(first), false
		defer timer.Stop()
		for {
			select {
			case <-timer.C:
				said = true
				fmt.Fprintf(w, format, time.Since(began).Round(time.Second))
				timer.Reset(every)
			case <-stop:
				if said {
					fmt.Fprint(w, clear)
				}
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(stop); <-ended })
}
