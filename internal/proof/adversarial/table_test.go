package adversarial

import (
	"reflect"
	"testing"

	"github.com/budgetd/budgetd/budget"
)

// TestTestdata checks that all testdata can be read, without a server.
func TestTestdata(t *testing.T) {
	target := Target{Budget: "sale", BodyBytes: 1000, BatchBytes: 1000, BatchItems: 10}
	if cases, err := Table(target); err != nil || len(cases) == 0 {
		t.Errorf("%d cases, %v", len(cases), err)
	}
}

func TestRead(t *testing.T) {
	const text = "# two\ncase <<verb>>\nrequest POST /v1/<<verb>>\nuntyped\nheader Accept: <<it>>\n" +
		"body [<<it>>]\n| verb | field |\n| undo | id |\n| redo | |\nanswer 422,400 invalid,malformed <<field>>\n    7\n" +
		"\ncase b\nraw GET / HTTP/1.1\nraw\nbody {}\nclose\nitem 413"
	codes := []budget.Code{budget.Invalid, budget.Malformed}
	want := []Case{
		{"undo 422,400 invalid,malformed id 7", "a:11", "POST", "/v1/undo", []string{"Accept: 7"}, true,
			"[7]", "", []int{422, 400}, codes, "id", false},
		{"redo 422,400 invalid,malformed  7", "a:11", "POST", "/v1/redo", []string{"Accept: 7"}, true,
			"[7]", "", []int{422, 400}, codes, "", false},
		{Name: "b", At: "a:17", Raw: "GET / HTTP/1.1\r\n\r\n{}"},
		{Name: "b 413", At: "a:18", Raw: "GET / HTTP/1.1\r\n\r\n{}", Statuses: []int{413}, Item: true},
	}
	if got, err := read("a", text, names{}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%+v, %v, want\n%+v", got, err, want)
	}
}

func TestPlaceholders(t *testing.T) {
	in := names{
		"size": {text: "10"}, "empty": {}, "a": {text: "<<2 times <<b>>>>"}, "b": {text: "x>"},
	}
	for text, want := range map[string]string{
		"": "", "> <": "> <", "a<<empty>>b": "ab", "<<a>>": "x>x>", "<<size>>": "10",
		"<<size+1>>": "11", "<<size-10>>": "0", "<<1_000>>": "1000", "<<size+6 hex>>": "10",
		"<<390 clock>>": "06:30", "<<1_440 clock>>": "00:00",
		"<<bytes c0 af>>|<<bytes 0d0a>>":             "\xc0\xaf|\r\n",
		`{<<3 items "l<<n>>":1>>}`:                   `{"l0":1,"l1":1,"l2":1}`,
		"<<2 times <<n hex>>-<<n+1 clock>> >>":       "0-00:01 1-00:02 ",
		"<<3 times ab>><<0 items ab>>":               "ababab",
		"<<2 items [<<2 times <<bytes 5b 5d>>>>]>>.": "[[][]],[[][]].",
	} {
		got, err := in.expand(line{text: text})
		if err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
}

// TestFaultsOfTestdata checks that what can't be read is reported with its file and line.
func TestFaultsOfTestdata(t *testing.T) {
	const sound = "case a\nrequest GET /<<it>>\nanswer 404\n    b"
	type fault struct{ text, want string }
	faults := []fault{
		{"request GET /", "x.txt:1: stands before the first case"},
		{"\n#\ncase a\nreqest GET /", `x.txt:4: unknown keyword "reqest"`},
		{"case a\n  b", `x.txt:2: unknown keyword ""`},
		{"case a\nbody {} ", "x.txt:2: ends in a space; write <<bytes 20>>"},
		{"case a\n    b", "x.txt:2: a value stands before the answer that it must get"},
		{sound + "\nbody {}", "x.txt:5: only answers and values may follow an answer"},
		{"case a\nrequest GET /\nrequest GET /b", "x.txt:3: the case has a second request"},
		{"case a\n| b | c |\n| 1 |", "x.txt:3: the row has 1 cells, want 2"},
		{"case a\nrequest GET /\n\n" + sound, "x.txt:1: the case has no answer or no row"},
		{"case a\nrequest GET /\n| b |\nanswer 404", "x.txt:1: the case has no answer or no row"},
		{"case a\nanswer 404", "x.txt:1: the case needs either request or raw"},
		{"case a\nrequest GET /\nraw GET /\nanswer 404", "x.txt:1: the case needs either request or raw"},
		{"case a\nrequest GET /\nanswer 404\n    b", "x.txt:1: the case has values, but no <<it>>"},
		{"case a\nrequest GET /\nanswer", `x.txt:3: "" is not what answer requires`},
		{"case a\nrequest GET /\nclose 404", `x.txt:3: "404" is not what close requires`},
		{"case a\nrequest GET /\nanswer 404 invalid b c", `x.txt:3: "404 invalid b c" is not what answer requires`},
		{"case a\nrequest GET /\nanswer invalid", `x.txt:3: status "invalid" is not a number`},
		{"case a\nrequest GET /\nanswer 404 invald", `x.txt:3: "invald" is not the code of a faulty request`},
		{sound + "\nanswer 404", "x.txt:2: unknown placeholder <<it>>"},
		{sound + "<<5 times x>", "x.txt:4: << without >>"},
		{sound + "<<2 times <<bugdet>>>>", "x.txt:4: unknown placeholder <<bugdet>>"},
	}
	for _, p := range []string{"it", "bytes", "bytes fg", "5 tims x", "5 times", "n", "b+1", "5+x", "", "self"} {
		faults = append(faults, fault{"case a\nrequest GET /\nbody <<" + p + ">>\nanswer 404",
			"x.txt:3: unknown placeholder <<" + p + ">>"})
	}
	for _, tc := range faults {
		cases, err := read("x.txt", tc.text, names{"self": {"x.txt:3", "<<self>>"}})
		if err == nil || err.Error() != tc.want {
			t.Errorf("%q: %d cases, %v, want %s", tc.text, len(cases), err, tc.want)
		}
	}
}
