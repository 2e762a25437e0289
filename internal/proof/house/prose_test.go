package house_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// worded lists phrases that stay out of the repository, each with its replacement.
var worded = []struct{ phrase, instead string }{
	{`\b[Ww]hoever\b`, "name the subject: a caller, a node, the holder"},
	{`\b[Aa]new\b`, "again"},
	{`\b[Ff]or ever\b`, "never ends, permanently"},
	{`\b[Ii]n vain\b`, "say what happened"},
	{`\bsuch as would\b`, "that would"},
	{`\bgoes on by itself\b`, "continues"},
	{`\bof one moment\b`, "in one snapshot"},
	{`\b(that|it|text|name) is none\b`, "invalid, or ok is false for any other text"},
	{`\bas of then\b`, "at that time"},
	{`\bhas it no more\b`, "must not use it afterwards"},
	{`\bhand(ed|s)? (it|them) in\b`, "pass, send, repeat"},
	{`\bthe machine's when nil\b`, "nil means the system clock"},
	{`\b(is|are) for the log\b`, "is logged"},
	{`(//|--) (false|true): `, "say what the result means in a sentence"},
	{`// (Test|Benchmark|Fuzz|Example)\w*: `, "a sentence that begins with the name: TestX checks that"},
	{`\b(no|without a) certain outcome\b`, "with an unknown outcome"},
	{`\bbe had\b`, "be deducted, be sold"},
	{`\bas (it|they) likes?\b`, "at any time, without a bound"},
	{`\bDESIGN('s)? ?[0-9]*\b`, "cite an ADR, docs/INVARIANTS.md or nothing"},
}

// TestProse checks tracked texts outside docs/adr, which may cite the paper of the first design.
func TestProse(t *testing.T) {
	out, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		t.Fatal(err)
	}
	var rules []*regexp.Regexp
	for _, w := range worded {
		rules = append(rules, regexp.MustCompile(w.phrase))
	}
	read := 0
	for _, name := range strings.Split(strings.TrimRight(string(out), "\x00"), "\x00") {
		if strings.HasPrefix(name, "docs/adr/") || name == "prose_test.go" || name == "LICENSE" ||
			strings.HasPrefix(name, "internal/console/dist/") ||
			strings.HasPrefix(name, "internal/console/web/") { // built into dist
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil || bytes.IndexByte(text, 0) >= 0 {
			continue // deleted in the working tree, or not a text
		}
		read++
		for n, line := range strings.Split(string(text), "\n") {
			for i, rule := range rules {
				if found := rule.FindString(line); found != "" {
					t.Errorf("%s:%d: %q; instead: %s", name, n+1, found, worded[i].instead)
				}
			}
		}
	}
	if read < 500 {
		t.Errorf("read only %d files", read)
	}
}
