package main

import (
	"fmt"
	"io"
	"os"
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

// newProgress returns a progress in the form that --progress selects.
func (a *app) newProgress(mode string, total int) *progress {
	p := &progress{stderr: a.stderr, total: total}
	file, isFile := a.stderr.(*os.File)
	terminal := isFile && term.IsTerminal(int(file.Fd()))
	switch {
	case mode == "never":
	case terminal:
		p.bar = newBar(a.stderr, total)
	case mode == "always":
		p.lines = true
	}
	return p
}

func newBar(w io.Writer, total int) *progressbar.ProgressBar {
	return progressbar.NewOptions(total, progressbar.OptionSetWriter(w),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionClearOnFinish())
}

// show reports how many of the total are done.
func (p *progress) show(done int) {
	if p.bar != nil {
		_ = p.bar.Set(done) // a bar that cannot be drawn does no harm
	}
	if tenths := done * 10 / max(p.total, 1); p.lines && tenths > p.tenths {
		p.tenths = tenths
		fmt.Fprintf(p.stderr, "%d %% (%d of %d)\n", tenths*10, done, p.total)
	}
}

// finish clears the bar.
func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// patience is how long a call may take before waiting says so.
const patience = 2 * time.Second

// waiting shows on stderr, if that is a terminal, how long a call has taken once it takes longer
// than patience. Call the returned function at the end of the call.
func (a *app) waiting() (done func()) {
	file, isFile := a.stderr.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) {
		return func() {}
	}
	return tell(file, patience, time.Second)
}

// tell writes the time since its call, first after one interval and then at every other, until the
// returned function is called, which clears the line.
func tell(w io.Writer, first, every time.Duration) (done func()) {
	began, stop, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		timer, said := time.NewTimer(first), false
		defer timer.Stop()
		for {
			select {
			case <-timer.C:
				said = true
				fmt.Fprintf(w, "\r%s waiting for the server, %s", text.EraseLine.Sprint(),
					time.Since(began).Round(time.Second))
				timer.Reset(every)
			case <-stop:
				if said {
					fmt.Fprint(w, "\r"+text.EraseLine.Sprint())
				}
				return
			}
		}
	}()
	return func() { close(stop); <-ended }
}
