package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// markdown writes the tables.
func (w *world) markdown() string {
	var b strings.Builder
	b.WriteString(w.heading())
	b.WriteString("| row | what | per second | p50 ms | p99 ms | CPU µs per deduction | ÷ (a) | ÷ " +
		"(b) | |\n" +
		"|---|---|--:|--:|--:|---|--:|--:|---|\n")
	for _, r := range rows {
		m, found := w.measured[r.name]
		if !found || m.perS == 0 {
			continue
		}
		var cpu []string
		for _, c := range m.cpu {
			cpu = append(cpu, fmt.Sprintf("%s %.2f", c.process, c.us))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %.2f | %.2f | %s | %s | %s | %s |\n", r.name, r.what,
			thousands(m.perS), m.p50,
			m.p99, strings.Join(cpu, ", "), w.ratio(m, "empty"), w.ratio(m, "lua"),
			strings.TrimSuffix(m.note+texts(m.named), "; "))
	}
	b.WriteString(w.medians())
	b.WriteString(w.promises())
	return b.String() + w.failures()
}

// promises writes a table of the targets whose rows were measured, and of the series.
func (w *world) promises() string {
	var b strings.Builder
	for _, t := range targets {
		value, found := w.value(t)
		if !found {
			continue
		}
		met, sign := "yes", "≥"
		if t.most {
			sign = "≤"
		}
		if t.most && value > t.bound || !t.most && value < t.bound {
			met = "**no**"
		}
		fmt.Fprintf(&b, "| %s | %s %g | %.2f | %s |\n", t.what, sign, t.bound, value, met)
	}
	b.WriteString(flatTable(w.spots))
	if b.Len() == 0 {
		return ""
	}
	return "\n| target | wanted | measured | met |\n|---|--:|--:|---|\n" + b.String()
}

// texts formats the figures that only some rows have, as a part of a note.
func texts(all []figure) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "%s %s; ", f.name, short(f.value))
	}
	return b.String()
}

// medians writes a table of the rows that have only named figures: a column for each row.
func (w *world) medians() string {
	head, rule, lines := "\n| median |", "|---|", []string{}
	for _, r := range rows {
		m, found := w.measured[r.name]
		if !found || m.perS > 0 {
			continue
		}
		head, rule = head+" "+r.name+" |", rule+"--:|"
		for i, f := range m.named {
			if i == len(lines) {
				lines = append(lines, "| "+f.name+" |")
			}
			lines[i] += " " + short(f.value) + " |"
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return head + "\n" + rule + "\n" + strings.Join(lines, "\n") + "\n"
}

// value returns the figure of a target. ok is false if its rows were not measured.
func (w *world) value(t target) (figure float64, ok bool) {
	m, found := w.measured[t.row]
	if !found || t.by == "" {
		return t.of(m), found
	}
	by, found := m.beside[t.by]
	if !found {
		by, found = w.measured[t.by]
	}
	if !found || t.of(by) == 0 {
		return 0, false
	}
	return t.of(m) / t.of(by), true
}

// ratio returns the ratio of a row's throughput to that of another row, or "".
func (w *world) ratio(m measurement, by string) string {
	other, found := m.beside[by]
	if !found {
		other, found = w.measured[by]
	}
	if !found || other.perS == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", m.perS/other.perS)
}

// thousands formats a number without decimals, with commas between thousands.
func thousands(n float64) string {
	text := fmt.Sprintf("%.0f", n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// machine describes the machine, the servers and the load average.
func machine() string {
	parts := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		_, after, _ := strings.Cut(string(text), "model name\t: ")
		model, _, _ := strings.Cut(after, "\n")
		parts = append(parts, model)
	}
	for _, command := range [][]string{{"redis-server", "--version"}, {"mariadbd", "--version"}} {
		if text, err := exec.Command(command[0], command[1:]...).Output(); err == nil {
			words := strings.Fields(string(text))
			parts = append(parts, strings.Join(words[:min(3, len(words))], " "))
		}
	}
	parts = append(parts, runtime.Version())
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		parts = append(parts, "load average at the end "+strings.Join(strings.Fields(string(text))[:3],
			" "))
	}
	return strings.Join(parts, "; ")
}
