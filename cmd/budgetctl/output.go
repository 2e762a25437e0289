package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/budgetd/budgetd/internal/strictyaml"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

// formats are the values of --output.
var formats = []string{"table", "json", "yaml", "name"}

// show writes an answer to stdout, as the API's JSON, as YAML, as names, or as a table that fits
// the terminal.
func (a *app) show(answer any, layout func() string) error {
	var out string
	switch a.output {
	case "table":
		out = fitted(layout(), a.width())
	default:
		text, err := json.Marshal(answer, jsontext.WithIndent("  "), json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("answer cannot be written as JSON: %w", err)
		}
		if a.output == "name" {
			out, err := names(text)
			return firstOf(err, a.write(out))
		}
		if a.output == "yaml" {
			if text, err = strictyaml.FromJSON(text); err != nil {
				return fmt.Errorf("answer cannot be written as YAML: %w", err)
			}
		}
		out = strings.TrimSuffix(string(text), "\n")
	}
	return a.write(out)
}

// write writes text to stdout, as lines.
func (a *app) write(text string) error {
	if text == "" {
		return nil
	}
	if _, err := io.WriteString(a.stdout, text+"\n"); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

// width returns the width of the terminal, or 0 if stdout is not a terminal.
func (a *app) width() int {
	if file, is := a.stdout.(*os.File); is {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// fitted makes lines no longer than the width; 0 means no bound. It wraps sentences. It cuts lines
// of tables, whose columns are two spaces apart, and marks the cut.
func fitted(out string, width int) string {
	if width < 2 {
		return out
	}
	lines := strings.Split(out, "\n")
	for i, line := range lines {
		if strings.Contains(line, "  ") {
			lines[i] = text.Snip(line, width, "…")
		} else if text.StringWidthWithoutEscSequences(line) > width {
			wrapped := strings.Split(text.WrapSoft(line, width), "\n")
			for j := range wrapped {
				wrapped[j] = strings.TrimRight(wrapped[j], " ")
			}
			lines[i] = strings.Join(wrapped, "\n")
		}
	}
	return strings.Join(lines, "\n")
}

// field is one line of details.
type field struct {
	name  string
	value any
}

// details formats one object, a field per line, with aligned numbers.
func details(fields ...field) string {
	widest := 0
	for _, f := range fields {
		if isNumber(f.value) {
			widest = max(widest, len(cell(f.value)))
		}
	}
	w := newTable()
	for _, f := range fields {
		value := cell(f.value)
		if isNumber(f.value) {
			value = fmt.Sprintf("%*s", widest, value)
		}
		w.AppendRow(table.Row{f.name, value})
	}
	return w.Render()
}

// listing formats a list, one row per object. Columns whose first value is a number are aligned to
// the right.
func listing(header []string, rows [][]any) string {
	w := newTable()
	head := make(table.Row, len(header))
	columns := make([]table.ColumnConfig, len(header))
	for i, name := range header {
		head[i] = name
		columns[i].Number = i + 1
		if len(rows) > 0 && isNumber(rows[0][i]) {
			columns[i].Align, columns[i].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	w.AppendHeader(head)
	w.SetColumnConfigs(columns)
	for _, values := range rows {
		row := make(table.Row, len(values))
		for i, value := range values {
			row[i] = cell(value)
		}
		w.AppendRow(row)
	}
	return w.Render()
}

func newTable() table.Writer {
	w := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	w.SetStyle(style)
	w.SuppressTrailingSpaces()
	return w
}

func isNumber(value any) bool {
	switch value.(type) {
	case int, int64, float64:
		return true
	}
	return false
}

// cell writes one value of a table.
func cell(value any) string {
	switch v := value.(type) {
	case int:
		return grouped(int64(v))
	case int64:
		return grouped(v)
	case float64:
		whole, fraction, _ := strings.Cut(strconv.FormatFloat(v, 'f', 3, 64), ".")
		n, _ := strconv.ParseInt(whole, 10, 64) // rates and milliseconds are far within its range
		return grouped(n) + "." + fraction
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case time.Time:
		if v.IsZero() {
			return "-"
		}
		return v.Format(time.RFC3339)
	}
	if s := printable(fmt.Sprint(value)); s != "" {
		return s
	}
	return "-"
}

// grouped writes a number with a comma between thousands.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}

// printable replaces characters that would move a terminal's cursor or change its colours.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}
