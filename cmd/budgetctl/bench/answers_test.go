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

func TestEachResult(t *testing.T) {
	tests := []struct {
		name, answer string
		want         []string
		count        int
	}{
		{"none", `{"results":[]}`, nil, 0},
		{"two", `{"results":[{"a":1},{"b":[{"c":2}]}]}` + "\n", []string{`{"a":1}`, `{"b":[{"c":2}]}`}, 2},
		{"brackets in texts", `{"results":[{"a":"}]{["},{"b":"\\"},{"c":"\\\"}"}]}`,
			[]string{`{"a":"}]{["}`, `{"b":"\\"}`, `{"c":"\\\"}"}`}, 3},
		{"no results", `{"code":"malformed"}`, nil, -1},
		{"cut off between", `{"results":[{"a":1},`, []string{`{"a":1}`}, -1},
		{"cut off within", `{"results":[{"a":1},{"b":`, []string{`{"a":1}`}, -1},
		{"cut off in a text", `{"results":[{"a":"1`, nil, -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			count := eachResult([]byte(test.answer), func(n int, result []byte) {
				if n != len(got) {
					t.Errorf("number %d after %d results", n, len(got))
				}
				got = append(got, string(result))
			})
			if count != test.count || !slices.Equal(got, test.want) {
				t.Errorf("%d: %q, want %d: %q", count, got, test.count, test.want)
			}
		})
	}
}

func TestLag(t *testing.T) {
	const page = `# HELP budgetd_log_lag_entries x
budgetd_log_lag_entries{instance="a",lane="0"} 12
budgetd_log_lag_entries{instance="b",lane="0"} 3
budgetd_log_lag_seconds{instance="a",lane="0"} 0.5
budgetd_log_lag_seconds{instance="b",lane="0"} 1.5
budgetd_log_lag_entries_total 99
`
	s, err := parseLag(strings.NewReader(page))
	if want := (sample{15, 1.5}); err != nil || s != want {
		t.Errorf("%+v, %v, want %+v", s, err, want)
	}
	got := *lagOf([]sample{{5, 1}, {9, 0.5}, {4, 3}, {7, 2}, {6, 1}})
	if want := (Lag{FirstHalfEntries: 9, SecondHalfEntries: 7, EndEntries: 6, FirstHalfS: 1, SecondHalfS: 3,
		Samples: 5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := *lagOf(nil); got != (Lag{}) {
		t.Errorf("of nothing: %+v", got)
	}
}
