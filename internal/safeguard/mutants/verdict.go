package main

import (
	"regexp"
	"strings"
	"time"
)

// result is how a test ended.
type result string

// The results. Only failed kills a mutant.
const (
	passed result = "passed"
	// failed: the test said what is wrong, or the model found a violation.
	failed result = "failed"
	// hung: its time was over.
	hung result = "hung"
	// crashed: the process ended otherwise, by a panic for example.
	crashed result = "crashed"
	// absent: no test of that name was run.
	absent result = "absent"
)

// verdict is what one run of a test showed.
type verdict struct {
	result result
	// why is the first line that the test, or the model's check, complained with.
	why    string
	output string
	took   time.Duration
}

var (
	complaint = regexp.MustCompile(`(?m)^ +[a-z_]+\.go:\d+: .+$`)
	violation = regexp.MustCompile(`(?m)^.*memstore: I1 is violated: .+$`)
)

// judge reads what a test binary, run with -test.v, printed about one test.
func judge(test, output string, clean bool) verdict {
	name := strings.ReplaceAll(test, " ", "_")
	line := func(word string) bool {
		return regexp.MustCompile(`(?m)^\s*--- ` + word + `: ` + regexp.QuoteMeta(name) + ` `).MatchString(output)
	}
	v := verdict{output: output}
	found := violation.FindString(output)
	switch {
	case strings.Contains(output, "panic: test timed out"):
		v.result = hung
	case found != "":
		v.result, v.why = failed, found
	case strings.Contains(output, "panic: "):
		v.result = crashed
	case line("PASS") && clean:
		v.result = passed
	case line("FAIL"):
		v.result, v.why = failed, complaint.FindString(output)
	case clean:
		v.result = absent
	default:
		v.result = crashed
	}
	const longest = 160
	v.why = strings.TrimSpace(v.why)
	v.why = strings.ToValidUTF8(v.why[:min(len(v.why), longest)], "")
	return v
}

// pattern is the -test.run of one test: each part of its name, and nothing else.
func pattern(test string) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(strings.ReplaceAll(part, " ", "_")) + "$"
	}
	return strings.Join(parts, "/")
}
