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

// progress shows on stderr how far a long command has come: a bar on a terminal, elsewhere a line
// for every tenth, or nothing.
type progress struct {
	stderr io.Writer
	total  int
	bar    *progressbar.ProgressBar // nil: none
	lines  bool
	tenths int // shown so far
}

// newProgress shows progress as --progress asks for it.
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

// show says that so many of the total are done.
func (p *progress) show(done int) {
	if p.bar != nil {
		_ = p.bar.Set(done) // what cannot be drawn is not missed
	}
	if tenths := done * 10 / max(p.total, 1); p.lines && tenths > p.tenths {
		p.tenths = tenths
		fmt.Fprintf(p.stderr, "%d %% (%d of %d)\n", tenths*10, done, p.total)
	}
}

// finish clears the bar, also one that did not get to its end.
func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// patience is how long a call may take before a person is told that it is under way.
const patience = 2 * time.Second

// waiting says on stderr, if that is a terminal, that a call has taken longer than patience, and
// how long. The function that it returns ends that.
func (a *app) waiting() (done func()) {
	file, isFile := a.stderr.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) {
		return func() {}
	}
	return tell(file, patience, time.Second)
}

// tell writes how long it has been called ago, after a first time and then every time, until the
// function that it returns is called, which clears the line.
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
