package strictyaml

import (
	"errors"
	"strings"
	"testing"
)

// TestParse checks which files are refused, where, and that no value of theirs is in the message.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\n---\nb: 2\n":             "one YAML document",
		"a: 1\n---\n":                   "one YAML document",
		"a:\n  - {n: marker}\n  - &x 1": "line 3: a[1] must not have an anchor",
		"a: &x {}\nb: *x":               "line 1: a must not have an anchor",
		"a: {<<: {b: 1}}":               "line 1: a must not have a merge key",
		"a: !!binary bWFya2Vy":          "line 1: a must not have a tag",
		"a: !!str marker":               "line 1: a must not have a tag",
		"a: 1\na: 2":                    `line 2: a appears twice`,
		"a: [":                          "line 1",
		"a: 1\n\tb: 2":                  "line 2",
		"a: *marker":                    "(not shown)",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "marker") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"", "# nothing", "a:", "a: ~", "- 1", "---\na: 1\n...\n", "a: 'x'\nb: \"y\"\nc: |\n  z"} {
		if _, err := Parse([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestNumbers checks that a number is what the API takes, or refused: 0100 is not 64.
func TestNumbers(t *testing.T) {
	for _, number := range []string{"0100", "010", "-010", "08", "00", "-0", "+5", "0x10", "0X10", "0b1", "0o17", "1_000",
		"1e3", "1E+3", ".5", "5.", "1_0.5", "01.5", "-.5", ".inf", "-.Inf", ".nan"} {
		for _, text := range []string{"a: {b: " + number + "}", "a: [1, {b: " + number + "}]"} {
			_, err := Parse([]byte(text))
			if err == nil || !strings.Contains(err.Error(), "line 1: a") || !strings.Contains(err.Error(), "a number such as 10 or 0.5") {
				t.Errorf("%q: %v", text, err)
			}
		}
		for _, text := range []string{"a: '" + number + "'", "a: |-\n  " + number} {
			if got, err := JSON([]byte(text)); err != nil || string(got) != `{"a":"`+number+`"}` {
				t.Errorf("%q: %s %v", text, got, err)
			}
		}
	}
	for _, number := range []string{"0", "7", "-7", "100", "9007199254740993", "99999999999999999999", "0.5", "-1.0", "1.0"} {
		if got, err := JSON([]byte("a: " + number)); err != nil || string(got) != `{"a":`+number+"}" {
			t.Errorf("%s: %s %v", number, got, err)
		}
	}
}

// TestJSON checks what becomes of each kind of value.
func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		"{a: yes, b: True, c: false, d: 2027-01-01T00:00:00Z, e: 1 000, f: '~'}": `{"a":"yes","b":true,"c":false,` +
			`"d":"2027-01-01T00:00:00Z","e":"1 000","f":"~"}`,
		"- {}\n- []\n- [x, \"a\\u00e1\\n\\\"\"]": `[{},[],["x","aá\n\""]]`,
		`{"a": [1, {"b": "c"}]}`:                 `{"a":[1,{"b":"c"}]}`,
	} {
		if got, err := JSON([]byte(text)); err != nil || string(got) != want {
			t.Errorf("%q: %s %v, want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{"a:\n  b: ~": "line 2: a.b has no value: leave it out", "a:": "line 1: a has no value",
		"": "it is empty", "a: [1, null]": "line 1: a[1] has no value", "? [a]\n: b": "line 1: a key must be a text"} {
		if got, err := JSON([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s %v, want %q", text, got, err, want)
		}
	}
}

// TestAllFaults checks that all faults are returned at once, and the rest of the document.
func TestAllFaults(t *testing.T) {
	got, err := JSON([]byte("a: 010\nb:\nc: {d: 1, d: 2, e: [&x 1, 3]}\n? [f]\n: 4\ng: true"))
	var faults Faults
	if !errors.As(err, &faults) || len(faults) != 5 || faults[3].At != "c.e[0]" || faults[3].Line != 3 {
		t.Errorf("%+v", err)
	}
	if want := `{"a":null,"b":null,"c":{"d":1,"e":[null,3]},"g":true}`; string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}
