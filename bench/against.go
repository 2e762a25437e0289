package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// rounds is how often each commit is measured. They take turns, so that a machine that becomes
// slower is in no ratio.
const rounds = 3

// versus is a row measured with two commits, the other one first: its figures by round.
type versus struct {
	row
	sides [2][]measurement
}

// alternate measures the other commit and this one in turns. side is 0 for the other commit.
func alternate(measure func(side int) (measurement, error)) (sides [2][]measurement, err error) {
	for range rounds {
		for side := range sides {
			m, err := measure(side)
			if err != nil {
				return sides, err
			}
			sides[side] = append(sides[side], m)
		}
	}
	return sides, nil
}

// compare measures rows with the binaries in the folder other and with those of this commit. What
// the bench itself sends is the same for both.
func (w *world) compare(names []string, commit, other string) (all []versus) {
	bins := w.bins
	w.measureEach(names, func(name string) error {
		r := rows[slices.IndexFunc(rows, func(r row) bool { return r.name == name })]
		sides, err := alternate(func(side int) (measurement, error) {
			w.bins, w.at = bins, ""
			if side == 0 {
				w.bins, w.at = append([]string{other}, bins...), commit
			}
			return w.once(r)
		})
		if err == nil {
			all = append(all, versus{r, sides})
		}
		return err
	})
	w.at = ""
	return all
}

// comparable reports whether two commits can be compared by what has this name: a row of budgetd.
func comparable(name string) bool {
	at := slices.IndexFunc(rows, func(r row) bool { return r.name == name })
	if at < 0 {
		return false
	}
	switch rows[at].measurer.(type) {
	case service, hotRow:
		return false
	}
	return true
}

// compared writes a table with the medians of both commits.
func (w *world) compared(commit string, all []versus) string {
	var b strings.Builder
	b.WriteString(w.heading())
	fmt.Fprintf(&b, "Medians of %d rounds that take turns.\n\n", rounds)
	fmt.Fprintf(&b, "| row | what | figure | %s | this commit | ÷ |\n", commit)
	b.WriteString("|---|---|---|--:|--:|--:|\n")
	for _, v := range all {
		name, what := v.name, v.what
		for i, f := range v.sides[1][0].figures() {
			var at [2]float64
			for side, ms := range v.sides {
				at[side] = medianOf(ms, f.name)
			}
			if i > 0 {
				name, what = "", ""
			}
			ratio := ""
			if at[0] > 0 {
				ratio = fmt.Sprintf("%.2f", at[1]/at[0])
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", name, what, f.name, short(at[0]),
				short(at[1]), ratio)
		}
	}
	return b.String() + w.failures()
}

// medianOf returns the median of a named figure; 0 if no measurement has it.
func medianOf(all []measurement, name string) float64 {
	var values []float64
	for _, m := range all {
		for _, f := range m.figures() {
			if f.name == name {
				values = append(values, f.value)
			}
		}
	}
	return median(values)
}

// short formats a figure with the digits that mean something.
func short(n float64) string {
	switch {
	case n >= 100:
		return thousands(n)
	case n >= 10:
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.2f", n)
}

// heading describes the run and the machine.
func (w *world) heading() string {
	text := ""
	if w.quick {
		text = "**A quick run, which shows that everything works. The figures mean nothing.**\n\n"
	}
	if w.at != "" {
		text += "budgetd at commit " + w.at + "; "
	}
	return text + time.Now().UTC().Format("2006-01-02") + "; " + machine() + "\n\n"
}

func (w *world) failures() string {
	var b strings.Builder
	for _, why := range w.failed {
		fmt.Fprintf(&b, "\nFailed: %s\n", why)
	}
	return b.String()
}
