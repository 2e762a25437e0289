package bench

import (
	"slices"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	const yes = `{"request_id":"b-1-2","outcome":"accepted","amount":1,"limits":[{"name":"a"}],"replayed":`
	tests := []struct {
		name, answer, id, code string
		replayed               bool
	}{
		{"accepted", yes + "false}", "b-1-2", "accepted", false},
		{"replayed", yes + "true}", "b-1-2", "accepted", true},
		{"of another id", yes + "false}", "b-1-3", "", false},
		{"of a longer id", yes + "false}", "b-1-", "", false},
		{"refused", `{"type":"urn:x","status":409,"code":"budget_exhausted","available":0}`, "b-1-2", "budget_exhausted", false},
		{"not ours", `<html>bad gateway</html>`, "b-1-2", "", false},
		{"cut off", `{"code":"budget_exh`, "b-1-2", "", false},
		{"empty", ``, "b-1-2", "", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := read([]byte(test.answer), []byte(test.id))
			if string(got.code) != test.code || got.replayed != test.replayed {
				t.Errorf("%q, replayed %t; want %q, %t", got.code, got.replayed, test.code, test.replayed)
			}
		})
	}
}

// TestResults checks that the results of a batch are read one by one in every valid form, and that
// an answer that is cut off counts as incomplete.
func TestResults(t *testing.T) {
	const (
		usual  = `{"request_id":"b-1","outcome":"accepted","limits":[{"name":"a"}],"replayed":`
		unlike = `{"outcome":"accepted","request_id":"b-1","limits":[{"name":"}]{["}],"replayed":false,"x":"\\"}`
		no     = `{"type":"urn:x","detail":"\\\"}]{[","code":"limit_exceeded","limit":"a"}`
	)
	tests := []struct {
		name, answer string
		want         []string // codes; + for a replay
		over         bool
	}{
		{"none", `{"results":[]}`, nil, true},
		{"usual", `{"results":[` + usual + `false},` + usual + `true},` + usual + "false}]}\n",
			[]string{"accepted", "accepted+", "accepted"}, true},
		{"refused between", `{"results":[` + usual + `false},` + no + `,` + usual + `true}]}`,
			[]string{"accepted", "limit_exceeded", "accepted+"}, true},
		{"another order of members", `{"results":[` + unlike + `,` + no + `]}`, []string{"accepted", "limit_exceeded"}, true},
		{"of another id", `{"results":[{"request_id":"b-2","outcome":"accepted","replayed":false},` + no + `]}`,
			[]string{"", "limit_exceeded"}, true},
		{"no results", `{"code":"malformed"}`, nil, false},
		{"cut off between", `{"results":[` + no + `,`, []string{"limit_exceeded"}, false},
		{"cut off within", `{"results":[` + no + `,{"b":`, []string{"limit_exceeded"}, false},
		{"cut off in a text", `{"results":[{"a":"1`, nil, false},
		{"cut off in the usual", `{"results":[` + usual + `fal`, nil, false},
		{"not objects", `{"results":[1,2]}`, nil, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			list := resultsOf([]byte(test.answer))
			var got []string
			for {
				one, ok := list.next([]byte("b-1"))
				if !ok {
					break
				}
				code := string(one.code)
				if one.replayed {
					code += "+"
				}
				got = append(got, code)
			}
			if !slices.Equal(got, test.want) || list.over() != test.over {
				t.Errorf("%q, over %t, want %q", got, list.over(), test.want)
			}
		})
	}
}

// TestKey checks that every call carries the key of the plan, or no key if the plan has none.
func TestKey(t *testing.T) {
	for token, want := range map[string]bool{"bdg_key": true, "": false} {
		w := newWriter(&Plan{Host: "h", Budgets: []string{"b"}, Token: token})
		for _, call := range [][]byte{w.deduct(nil, item{}), w.batch(nil, []item{{}}), w.rollback(nil, item{})} {
			if got := strings.Contains(string(call), "\r\nAuthorization: Bearer bdg_key\r\n"); got != want {
				t.Errorf("key %q: %q", token, call)
			}
		}
	}
}
