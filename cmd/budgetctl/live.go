package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// live is the model of a watch's screen on a terminal. Update takes looks as they arrive; View
// draws the latest.
type live struct {
	ask   func() (*look, error)
	every time.Duration
	// count is how many looks to take; 0 means no bound.
	count, looks  int
	width, height int

	latest *look
	err    error   // the error of the last look
	ended  error   // why the watch ends; nil if the user or count ended it
	curve  []int64 // what remained at the latest looks
}

// asked is the result of a look.
type asked struct {
	look *look
	err  error
}

// again is the message that the next look is due.
type again struct{}

// mostLooks bounds the earlier looks that are kept. It is the width of the widest burn-down.
const mostLooks = 200

// onTerminal watches on a terminal until the user quits or count looks were taken.
func (w *watching) onTerminal(ctx context.Context, every time.Duration, count int) error {
	m := &live{every: every, count: count, ask: func() (*look, error) { return w.look(ctx) }}
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithOutput(w.app.stdout)).Run()
	if ctx.Err() != nil {
		return nil
	}
	return firstOf(m.ended, err)
}

// Init is part of tea.Model.
func (m *live) Init() tea.Cmd { return m.look }

func (m *live) look() tea.Msg {
	l, err := m.ask()
	return asked{l, err}
}

// Update is part of tea.Model.
func (m *live) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return m, tea.Quit
		}
	case again:
		return m, m.look
	case asked:
		m.err = msg.err
		kind := client.KindOf(msg.err)
		if msg.err == nil {
			m.latest, m.looks = msg.look, m.looks+1
			m.curve = append(m.curve, client.Units(msg.look.Series.Now.Remaining))
			m.curve = m.curve[max(0, len(m.curve)-mostLooks):]
		} else if m.looks == 0 || kind != budget.NotDone && kind != budget.MayBeDone {
			m.ended = msg.err
			return m, tea.Quit
		}
		if m.count > 0 && m.looks >= m.count {
			return m, tea.Quit
		}
		return m, tea.Tick(m.every, func(time.Time) tea.Msg { return again{} })
	}
	return m, nil
}

// Styles of the screen, in the terminal's own colours.
var (
	strong = lipgloss.NewStyle().Bold(true)
	quiet  = lipgloss.NewStyle().Faint(true)
	good   = lipgloss.NewStyle().Foreground(lipgloss.Color("2"))
	warn   = lipgloss.NewStyle().Foreground(lipgloss.Color("3"))
	bad    = lipgloss.NewStyle().Foreground(lipgloss.Color("1")).Bold(true)
)

// View is part of tea.Model.
func (m *live) View() tea.View {
	lines := []string{"Looking …"}
	if m.latest != nil {
		lines = m.lines()
	}
	width, height := m.width, m.height
	if width == 0 {
		width, height = 80, 24
	}
	foot := quiet.Render("q quits")
	if m.err != nil {
		foot = bad.Render("not answered, trying again: " + printable(m.err.Error()))
	}
	if hidden := len(lines) + 1 - height; hidden > 0 {
		lines = lines[:max(1, height-1)]
		foot = quiet.Render(fmt.Sprintf("%d more lines; q quits", hidden))
	}
	for i, line := range append(lines, foot) {
		line = lipgloss.NewStyle().MaxWidth(width).Render(line)
		if i < len(lines) {
			lines[i] = line
		} else {
			foot = line
		}
	}
	v := tea.NewView(strings.Join(append(lines, foot), "\n"))
	v.AltScreen = true
	return v
}

// lines draws the latest look.
func (m *live) lines() []string {
	b, s := m.latest.Budget, m.latest.Series
	width := min(max(m.width, 40), 120)
	status := good
	if b.Status != budget.Effective {
		status = warn
	}
	out := []string{
		strong.Render(printable(b.Name)) + "  " + status.Render(printable(string(b.Status))) + "  " +
			quiet.Render(cell(s.Now.At.Truncate(time.Second))),
		"",
	}
	if b.Unlimited {
		out = append(out, strong.Render(grouped(b.Used))+" used, unlimited")
	} else {
		total := client.Units(b.TotalQuantity)
		share := float64(b.Used+b.Held) / float64(max(total, 1))
		out = append(out, bar(share, width/2)+fmt.Sprintf("  %.1f %% used or held", 100*share),
			strong.Render(grouped(client.Units(b.Remaining)))+" remaining, "+grouped(b.Used)+
				" used and "+grouped(b.Held)+" held of "+grouped(total))
	}
	if !b.OpensAt.IsZero() {
		out = append(out, warn.Render("opens at "+cell(clockOf(b.Timezone)(b.OpensAt))))
	}
	out = append(out, cell(s.RatePerS)+" a second; used up: "+strong.Render(exhaustion(s)))
	if lost := s.Now.Stranded + b.Quarantined; lost > 0 {
		out = append(out, bad.Render(grouped(s.Now.Stranded)+" stranded, "+grouped(b.Quarantined)+
			" quarantined"))
	}
	if !b.Unlimited {
		out = append(out, m.burn(width)...)
	}
	out = append(out, "", quiet.Render("buckets"))
	out = append(out, bucketLines(m.latest.Buckets, width/4)...)
	if len(m.latest.refusals) > 0 {
		out = append(out, "", quiet.Render("refused lately by this node"))
		for _, r := range m.latest.refusals {
			out = append(out, fmt.Sprintf("%s  %s  %s asked for %s", r.At.Format(time.TimeOnly),
				warn.Render(printable(string(r.Problem.Code))), printable(r.RequestID), grouped(r.Amount)))
		}
	}
	return out
}

// burn draws what remained in the last hour, or since the watch began if that is more looks.
func (m *live) burn(width int) []string {
	s := m.latest.Series
	points, span := make([]int64, len(s.Points), len(s.Points)+1), "last hour"
	for i, p := range s.Points {
		points[i] = client.Units(p.Remaining)
	}
	if points = append(points, client.Units(s.Now.Remaining)); len(m.curve) >= len(points) {
		points, span = m.curve, "since this watch began"
	}
	return []string{"", quiet.Render("remaining, " + span), good.Render(sparkline(points, width))}
}

// bucketLines draws a line for each bucket, with its units relative to the fullest one.
func bucketLines(buckets []client.Bucket, width int) []string {
	most, name, number := int64(1), 0, 0
	for _, b := range buckets {
		most, name = max(most, b.Remaining), max(name, len(b.Key))
		number = max(number, len(grouped(b.Remaining)))
	}
	out := make([]string, len(buckets))
	for i, b := range buckets {
		style, status := good, b.Status
		switch {
		case b.Halted != "":
			style, status = bad, "halted"
		case status != "online":
			style = warn
		}
		out[i] = fmt.Sprintf("%-*s  %s  %*s  %s  %s", name, printable(b.Key),
			bar(float64(b.Remaining)/float64(most), width), number, grouped(b.Remaining),
			style.Render(printable(status)), quiet.Render(printable(b.Home.String())))
	}
	return out
}

// bar draws a bar over a share of a width.
func bar(share float64, width int) string {
	full := int(min(max(share, 0), 1)*float64(width) + 0.5)
	return good.Render(strings.Repeat("█", full)) + quiet.Render(strings.Repeat("░", width-full))
}

// sparkline draws as many of the last values as fit a width, on a scale from 0 to the largest.
func sparkline(values []int64, width int) string {
	const steps = "▁▂▃▄▅▆▇█"
	values = values[max(0, len(values)-width):]
	most := int64(1)
	for _, v := range values {
		most = max(most, v)
	}
	var out strings.Builder
	for _, v := range values {
		out.WriteRune([]rune(steps)[min(max(v, 0), most)*7/most])
	}
	return out.String()
}
