package strictjson

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"pgregory.net/rapid"
)

// all is a body with a member for every method of a Reader; members may lie within each other. seen notes
// what was read, in order.
type all struct {
	seen   *strings.Builder
	faults []*Faults
}

func (a *all) Member(r *Reader, name string) bool {
	var text string
	var number int64
	var small int
	var on bool
	var at time.Time
	var length time.Duration
	var texts map[string]string
	var integers map[string]int64
	var list []string
	switch name {
	case "id":
		r.Text(name, &text, budget.CheckRequestID)
	case "any":
		r.Text(name, &text, nil)
	case "budget":
		r.ID(name, &text)
	case "amount":
		r.Amount(name, &number)
	case "count":
		r.Int(name, &small, -5, 5)
	case "on":
		r.Bool(name, &on)
	case "at":
		if !r.Null() {
			r.Time(name, &at)
		}
	case "ttl":
		r.Duration(name, &length)
	case "dimensions":
		r.Texts(name, &texts, 2, budget.CheckKey)
	case "counts":
		r.Integers(name, &integers, 2, budget.CheckName)
	case "list":
		r.Strings(name, &list, 2, budget.CheckKey)
	case "within":
		r.Object(name, a)
	case "objects":
		r.List(name, func(i int) Body {
			if i == 2 {
				return nil
			}
			return a
		})
	case "items":
		r.Objects(name, func(i int) (Body, *Faults) {
			if i == 3 {
				return nil, nil
			}
			a.faults = append(a.faults, new(Faults))
			return a, a.faults[len(a.faults)-1]
		})
	default:
		return false
	}
	fmt.Fprintf(a.seen, "%s %q %d %d %t %v %v %v %v %q\n", name, text, number, small, on, at, length, texts, integers, list)
	return true
}

func (a *all) Check(r *Reader) {
	fmt.Fprintf(a.seen, "end %q\n", r.seen)
	r.Require("id")
}

// outcome describes the result of reading a body: values, faults and their order.
func outcome(body string, library bool) string {
	a := all{seen: new(strings.Builder)}
	faults := new(Faults)
	read([]byte(body), &a, faults, library)
	for _, f := range append(a.faults, faults) {
		fmt.Fprintf(a.seen, "%q %q %d\n", f.malformed, f.invalid, f.dropped)
	}
	return a.seen.String()
}

func compare(t interface{ Fatalf(string, ...any) }, body string) {
	if got, want := outcome(body, false), outcome(body, true); got != want {
		t.Fatalf("%q\nthe scan reads\n%s\nthe library reads\n%s", body, got, want)
	}
}

var seeds = []string{
	`{"id":"a","amount":5,"dimensions":{"user":"u1","ad":"ü"},"budget":"sale","on":true}`,
	` { "id" : "a" , "amount" : 5 , "on":false,"items" : [ { "id":"b", "budget":"sale"} , {"id":"c","budget":"sale"},{"id":"d","amount":1e3} ] } `,
	`{"id":"a","within":{"id":"b","within":{"id":"c"}},"objects":[{"id":"d"},{"id":"e"},{"id":"f"}]}`,
	`{"id":"a\u0020","any":"","budget":7,"count":-0,"at":null,"ttl":"1d12h","counts":{"a":1,"b":0},"list":["a","b","c"]}`,
	`{"id":"a","id":"a"}`, `{"id":"a","dimensions":{"u":"1","u":"2"}}`, `{"id":"a","x":{"u":"1","u":"2"}}`,
	`{"id":"a","items":[{"id":"1"},{"id":"2"},{"id":"3"},{"id":"4"},x`, `{"id":"a"}{}`, `{"id":"a",}`, `{"id":"a"]`,
	`{"id":"a","list":["a"}`, `{"id":truex}`, `{"on":truex}`, `{"on":tru`, `{"on":true`, `{"amount":01}`, `{"amount":-}`, `{"amount":5`,
	`{"amount":1.5}`, `{"budget":"sale","budget":"sale"}`, `{"id" "a"}`, `{"id":,"a"}`, `{,"id":"a"}`, `{"items":[,{}]}`, `{"items":[{}{}]}`,
	"{\"id\":\"\xff\"}", "{\"id\":\"\x01\"}", "{\"\xff\":1}", "\ufeff{}", `{"id":"a" "b"}`, `{"objects":[7,null,{}]}`, `{"list":[}`, `{1:2}`,
}

// TestScanIsTheLibrary checks that the scan and the library read the same values and report the
// same faults, in the same order and words.
func TestScanIsTheLibrary(t *testing.T) {
	for _, seed := range seeds {
		compare(t, seed)
		for cut := range len(seed) {
			compare(t, seed[:cut])
			compare(t, seed[:cut]+seed[cut+1:])
			for _, c := range []string{`"`, `\`, "{", "}", "[", "]", ",", ":", " ", "0", "-", ".", "e", "x", "\x00", "\xff"} {
				compare(t, seed[:cut]+c+seed[cut:])
			}
		}
	}
	compare(t, strings.Repeat(`{"within":`, 100)+`{"id":"a","on":x}`)
	compare(t, strings.Repeat(`{"within":`, 200))
	compare(t, strings.Repeat(`{"within":`, 61)+`{"id":"a"}`+strings.Repeat(`}`, 61))
}

// lastMember notes who read the name of the last member.
type lastMember struct{ handed bool }

func (l *lastMember) Member(r *Reader, name string) bool {
	var text string
	l.handed = r.handed
	r.Text(name, &text, nil)
	return true
}

func (*lastMember) Check(*Reader) {}

// TestScanLeavesLargeObjects checks that the scan leaves objects with more than maxScanNames names
// to the library, which finds a duplicate name without comparing all of them.
func TestScanLeavesLargeObjects(t *testing.T) {
	for n := maxScanNames - 1; n <= maxScanNames+2; n++ {
		var names strings.Builder
		for i := range n {
			fmt.Fprintf(&names, `,"n%d":"1"`, i)
		}
		for _, last := range []string{"", `,"n0":"2"`, fmt.Sprintf(`,"n%d":"2"`, n-1)} {
			object := "{" + names.String()[1:] + last + "}"
			compare(t, object)
			compare(t, `{"id":"a","dimensions":`+object+`}`)
		}
		var last lastMember
		Read([]byte("{"+names.String()[1:]+"}"), &last, new(Faults))
		if want := n > maxScanNames; last.handed != want {
			t.Errorf("%d names: read by the library: %v", n, last.handed)
		}
	}
}

// TestScanIsTheLibraryAtRandom compares the scan with the library on random bodies made from pieces
// of valid and invalid ones.
func TestScanIsTheLibraryAtRandom(t *testing.T) {
	names := []string{"id", "any", "budget", "amount", "count", "on", "at", "ttl", "dimensions", "counts", "list", "within",
		"objects", "items", "other", "Id", "\\u0069d"}
	values := []string{`"a"`, `"ü"`, `"sale"`, `"\n"`, `""`, `7`, `-3`, `0`, `1.0`, `1e2`, `007`, `true`, `false`, `null`, `tru`, `"1h"`,
		`"2026-01-31T10:00:00Z"`, `{}`, `[]`, `["a","b"]`, `{"a":"b"}`, `{"a":1}`, ``}
	var piece func(t *rapid.T, depth int) string
	piece = func(t *rapid.T, depth int) string {
		kind := rapid.IntRange(0, 3).Draw(t, "kind")
		if kind == 0 || depth == 0 {
			return rapid.SampledFrom(values).Draw(t, "value")
		}
		space := rapid.SampledFrom([]string{"", "", "", " ", "\n"}).Draw(t, "space")
		parts := make([]string, rapid.IntRange(0, 4).Draw(t, "parts"))
		for i := range parts {
			parts[i] = piece(t, depth-1)
			if kind > 1 {
				parts[i] = space + `"` + rapid.SampledFrom(names).Draw(t, "name") + `"` + space + ":" + space + parts[i]
			}
		}
		text := strings.Join(parts, space+","+space)
		if kind > 1 {
			return "{" + text + "}" + space
		}
		return "[" + text + "]" + space
	}
	rapid.Check(t, func(t *rapid.T) { compare(t, piece(t, 4)) })
}

func FuzzScan(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) { compare(t, body) })
}

// BenchmarkRead measures reading the body of a deduct.
func BenchmarkRead(b *testing.B) {
	for _, library := range []bool{false, true} {
		b.Run(fmt.Sprintf("library=%t", library), func(b *testing.B) {
			body := []byte(`{"id":"order-0001","amount":5,"dimensions":{"user":"u1"}}`)
			b.ReportAllocs()
			for b.Loop() {
				var o small
				var faults Faults
				read(body, &o, &faults, library)
			}
		})
	}
}

type small struct {
	id         string
	amount     int64
	dimensions map[string]string
}

func (s *small) Member(r *Reader, name string) bool {
	switch name {
	case "id":
		r.Text(name, &s.id, budget.CheckRequestID)
	case "amount":
		r.Amount(name, &s.amount)
	case "dimensions":
		r.Texts(name, &s.dimensions, 5, budget.CheckKey)
	default:
		return false
	}
	return true
}

func (s *small) Check(r *Reader) { r.Require("id", "amount") }
