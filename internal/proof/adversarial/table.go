// Package adversarial has a table of requests that the HTTP interface must refuse with a certain
// error and without any effect, and a list of odd request ids that it must accept verbatim. The
// table is testdata; testdata/README.md has its format.
//
// The requests are written to a connection as they are, because an HTTP client would repair or
// refuse many of them. Tests of any package run the table against their own server:
//
//	adversarial.Run(t, target, func() string { return what changed, or "" })
package adversarial

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Target is the server under test.
type Target struct {
	// Addr is its host:port.
	Addr string
	// Budget is the name of an effective budget with units.
	Budget string
	// BodyBytes, BatchBytes and BatchItems are its limits for a body and a batch.
	BodyBytes, BatchBytes int64
	BatchItems            int
	// ReadTimeout is how long a request may take to arrive.
	ReadTimeout time.Duration
}

// Case is one request and its required refusal.
type Case struct {
	Name string
	// At is the file and the line of testdata.
	At     string
	Method string
	// Path is sent verbatim, with its query.
	Path string
	// Header lists lines to send in addition to Host, Content-Length and, unless Untyped, a JSON
	// Content-Type.
	Header  []string
	Untyped bool
	Body    string
	// Raw, if set, is sent instead of all of the above. Nothing is sent after it.
	Raw string

	// Statuses and Codes are the allowed answers. Without codes the answer comes from net/http and is
	// not a problem document. Without statuses the connection must be closed without an answer.
	Statuses []int
	Codes    []budget.Code
	// Field, if set, must be among the errors.
	Field string
	// Item marks a batch that is accepted as a call and whose first result must be the refusal.
	Item bool
}

//go:embed testdata/*.txt
var testdata embed.FS

// Table returns every case for a target. An error names the file and the line that it can't read.
func Table(target Target) ([]Case, error) {
	files, err := testdata.ReadDir("testdata")
	if err != nil {
		return nil, err
	}
	known := names{
		"budget":      {text: target.Budget},
		"body_bytes":  {text: strconv.FormatInt(target.BodyBytes, 10)},
		"batch_bytes": {text: strconv.FormatInt(target.BatchBytes, 10)},
		"batch_items": {text: strconv.Itoa(target.BatchItems)},
		"empty":       {},
	}
	var all []Case
	for _, file := range files {
		content, err := testdata.ReadFile("testdata/" + file.Name())
		if err != nil {
			return nil, err
		}
		cases, err := read(file.Name(), string(content), known)
		if err != nil {
			return nil, err
		}
		all = append(all, cases...)
	}
	at := map[string]string{}
	for _, c := range all {
		if at[c.Name] != "" {
			return nil, fmt.Errorf("%s: the name %q is that of %s", c.At, c.Name, at[c.Name])
		}
		at[c.Name] = c.At
	}
	return all, nil
}

// OddIDs returns valid request ids that look dangerous or alike. Ids are compared byte by byte, so
// each of them is a different request.
func OddIDs() []string {
	return []string{
		"a", "A", "a ", " a", "á", "a\u0301", "7", "007", "1e3", "1000", "1000.0", "7 ", "null", "true",
		"0", "-0",
		"{}", "{partition}", "a:b:c", "}{", "*?[", "'; DROP TABLE deduction;--", "${jndi:x}", "%s%n%d",
		"%00",
		"\\0",
		"]] redis.call('FLUSHALL')", "../../admin", "<script>", "\"", "\\", "|", "a|b", "ﬀ", "ff", "İ",
		"ı",
		"\u200b", "\u202e", "\ufeff", "\U0001F600", strings.Repeat("x", 128), strings.Repeat("ü", 64),
	}
}
