// Package adversarial has a table of requests that the HTTP interface must refuse with a certain
// error and without any effect, and a list of odd request ids that it must accept verbatim.
//
// The requests are written to a connection as they are, because an HTTP client would repair or
// refuse many of them. Tests of any package run the table against their own server:
//
//	adversarial.Run(t, target, func() string { return what changed, or "" })
package adversarial

import (
	"embed"
	"fmt"
	"slices"
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

// Table returns every case.
func Table(target Target) []Case {
	var all []Case
	for _, part := range []func(Target) []Case{
		amounts, texts, definitions, changes, paths, queries, bodies, batches, headers, slow,
	} {
		all = append(all, part(target)...)
	}
	return all
}

// malformed requires status 400 and the code malformed.
func malformed(c Case) Case {
	c.Statuses, c.Codes = []int{400}, []budget.Code{budget.Malformed}
	return c
}

// invalid requires status 422 and the code invalid.
func invalid(c Case) Case {
	c.Statuses, c.Codes = []int{422}, []budget.Code{budget.Invalid}
	return c
}

// on returns a POST to a verb of the target's budget.
func on(target Target, verb, name, body string) Case {
	return Case{Name: verb + ": " + name, Method: "POST",
		Path: "/v1/budgets/" + target.Budget + "/" + verb, Body: body}
}

// amounts returns cases of invalid amounts in every field that takes one.
func amounts(target Target) []Case {
	tooLong := strings.Repeat("9", 10_000)
	wrong := map[string]string{ // integers that are not an amount
		"0": "0", "-1": "-1", "-0": "-0", "2^53": "9007199254740992", "2^53+1": "9007199254740993",
		"2^63": "9223372036854775808", "2^64+1": "18446744073709551617", "10,000 digits": tooLong,
	}
	foreign := map[string]string{ // not integers
		"1.5": "1.5", "1.0": "1.0", "1e3": "1e3", "1E+18": "1E+18", "1e-1": "1e-1",
		"1e999999": "1e999999",
		"a string": `"5"`, "a string -0": `"-0"`, "null": "null", "true": "true", "[]": "[]", "{}": "{}",
		"NaN": "NaN", "Infinity": "Infinity", "-Infinity": "-Infinity", "0x10": "0x10",
		"string 7":   `" 7"`,
		"full width": "５", "full width string": `"５"`, "007": "007", "+5": "+5", "5.": "5.", ".5": ".5",
		"1_000": "1_000", "--1": "--1", "minus": "-", "1,000": "1,000",
	}
	fields := []struct {
		field string
		make  func(name, text string) Case
	}{
		{"amount", func(name, text string) Case {
			return on(target, "deduct", "amount "+name, `{"request_id":"hostile","amount":`+text+`}`)
		}},
		{"amount", func(name, text string) Case {
			return on(target, "rollback", "amount "+name, `{"request_id":"hostile","amount":`+text+`}`)
		}},
		{"total_quantity", func(name, text string) Case {
			return definition("total_quantity "+name, `"total_quantity":`+text)
		}},
	}
	var cases []Case
	for _, f := range fields {
		for name, text := range wrong {
			c := invalid(f.make(name, text))
			c.Field = f.field
			cases = append(cases, c)
		}
		for name, text := range foreign {
			c := malformed(f.make(name, text))
			c.Field = f.field
			cases = append(cases, c)
		}
	}
	for name, text := range foreign {
		c := malformed(on(target, "append", "quantity "+name, `{"request_id":"hostile","quantity":`+text+
			`}`))
		c.Field = "quantity"
		cases = append(cases, c)
	}
	for _, text := range []string{"0", "-0", "9007199254740992", "-9007199254740992", tooLong,
		"-" + tooLong} {
		c := invalid(on(target, "append", "quantity "+text[:min(len(text), 20)],
			`{"request_id":"hostile","quantity":`+text+`}`))
		c.Field = "quantity"
		cases = append(cases, c)
	}
	return cases
}

// definition returns a create whose definition is valid except for the given members and the
// omitted ones.
func definition(name, members string, without ...string) Case {
	for _, sound := range []string{`"name":"hostile-new"`, `"unit":"count"`, `"type":"promo"`,
		`"total_quantity":100`} {
		key, _, _ := strings.Cut(sound, ":")
		given := strings.HasPrefix(members, key+":") || strings.Contains(members, ","+key+":")
		if !given && !slices.Contains(without, strings.Trim(key, `"`)) {
			members += "," + sound
		}
	}
	return Case{Name: "create: " + name, Method: "POST", Path: "/v1/budgets",
		Body: "{" + strings.TrimPrefix(members, ",") + "}"}
}

//go:embed testdata/*.txt
var testdata embed.FS

// readTable returns the cases of testdata.
func readTable(target Target) ([]Case, error) {
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
	at := map[string]string{}
	for _, file := range files {
		content, err := testdata.ReadFile("testdata/" + file.Name())
		if err != nil {
			return nil, err
		}
		blocks, err := read(file.Name(), string(content))
		if err != nil {
			return nil, err
		}
		for _, b := range blocks {
			cases, err := b.cases(known)
			if err != nil {
				return nil, err
			}
			for _, c := range cases {
				if at[c.Name] != "" {
					return nil, fmt.Errorf("%s: the name %q is that of %s", c.At, c.Name, at[c.Name])
				}
				at[c.Name] = c.At
			}
			all = append(all, cases...)
		}
	}
	return all, nil
}
