package strictjson

import (
	"encoding/json"
	"fmt"
	"github.com/budgetd/budgetd/api"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"pgregory.net/rapid"
)

// all is a body with a member of every kind; members may lie within each other.
type all struct {
	ID         string            `json:"id" check:"required id"`
	Any        string            `json:"any"`
	Budget     string            `json:"budget" check:"same"`
	Amount     int64             `json:"amount" check:"1..max"`
	Count      int               `json:"count" check:"-5..5"`
	On         bool              `json:"on"`
	At         *time.Time        `json:"at" check:"null"`
	TTL        string            `json:"ttl" check:"length"`
	Dimensions map[string]string `json:"dimensions" check:"most=2 key"`
	Counts     map[string]int64  `json:"counts" check:"most=2 name"`
	List       []string          `json:"list" check:"most=2 key"`
	Within     *all              `json:"within"`
	Objects    []all             `json:"objects" check:"most=1"`
	members    [][]string
}

// Validate notes the members that were read, in order.
func (a *all) Validate(o *api.Object) { a.members = append(a.members, slices.Clone(o.Members)) }

// outcome describes the result of reading a body: values, faults and their order.
func outcome(body string, library bool) string {
	var a all
	var items []all
	var faults [2]api.Faults
	var ofItems []*api.Faults
	read([]byte(body), &a, &faults[0], library)
	each := Each{Name: "items", Most: 3, Next: func() (any, *api.Faults) {
		items = append(items, all{})
		ofItems = append(ofItems, new(api.Faults))
		return &items[len(items)-1], ofItems[len(ofItems)-1]
	}}
	read([]byte(body), &each, &faults[1], library)
	var seen strings.Builder
	encoded := json.NewEncoder(&seen)
	for _, v := range append([]all{a}, items...) {
		_ = encoded.Encode(v)
		fmt.Fprintln(&seen, v.members)
	}
	for _, f := range append(ofItems, &faults[0], &faults[1]) {
		if err, is := f.Err("").(*budget.Error); is {
			fmt.Fprintln(&seen, err.Code, err.Message, err.Fields)
		}
	}
	fmt.Fprintln(&seen, each.TooMany)
	return seen.String()
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
	`{"items":[{"id":"a"},7,{"id":"b"}],"id":"c"}`, `{"items":[]}`, `{"id":"a","list":["a"}`, `{"id":truex}`, `{"on":truex}`, `{"on":tru`, `{"on":true`, `{"amount":01}`, `{"amount":-}`, `{"amount":5`,
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
		Read([]byte("{"+names.String()[1:]+"}"), &last, new(api.Faults))
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
				var faults api.Faults
				read(body, &o, &faults, library)
			}
		})
	}
}

type small struct {
	ID         string            `json:"id" check:"required id"`
	Amount     int64             `json:"amount" check:"required 1..max"`
	Dimensions map[string]string `json:"dimensions" check:"most=5 key"`
}
