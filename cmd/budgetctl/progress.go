package main

import (
	"fmt"
	"io"
	"os"

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
