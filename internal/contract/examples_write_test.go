package contract_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// write replaces examples of answers in openapi.yaml; the name of a new one stands there already.
func write(t *testing.T, recorded map[string][]byte) {
	const file = "../../openapi.yaml"
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range recorded {
		at := regexp.MustCompile(`(?m)^    ` + regexp.QuoteMeta(name) + `:\n      value:\n(        .*\n)+`)
		source = at.ReplaceAllLiteral(source,
			fmt.Appendf(nil, "    %s:\n      value:\n%s\n", name, wrapped(bytes.TrimSpace(text), 8, 98)))
	}
	if err := os.WriteFile(file, source, 0o644); err != nil {
		t.Fatal(err)
	}
}

// wrapped breaks JSON into lines after commas outside of strings.
func wrapped(text []byte, indent, width int) string {
	var lines []string
	line, quoted := "", false
	var part []byte
	flush := func() {
		if line != "" && indent+len(line)+len(part) > width {
			lines = append(lines, strings.TrimRight(line, " "))
			line = ""
		}
		line += string(part)
		part = part[:0]
	}
	for i, c := range text {
		part = append(part, c)
		switch {
		case c == '"' && (i == 0 || text[i-1] != '\\'):
			quoted = !quoted
		case quoted:
		case c == ':':
			part = append(part, ' ')
		case c == ',':
			part = append(part, ' ')
			flush()
		}
	}
	flush()
	lines = append(lines, line)
	pad := strings.Repeat(" ", indent)
	return pad + strings.Join(lines, "\n"+pad)
}
