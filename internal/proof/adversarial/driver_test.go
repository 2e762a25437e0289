package adversarial

import (
	"fmt"
	"testing"
)

// TestSameCases checks that the testdata has the cases of the tables in Go, which it replaces.
func TestSameCases(t *testing.T) {
	key := func(c Case) string {
		c.Name, c.At = "", ""
		return fmt.Sprintf("%#v", c)
	}
	for _, target := range []Target{
		{Budget: "sale", BodyBytes: 1 << 20, BatchBytes: 4 << 20, BatchItems: 1000},
		{Budget: "other-one", BodyBytes: 12_345, BatchBytes: 54_321, BatchItems: 7},
	} {
		want := map[string]int{}
		for _, c := range Table(target) {
			want[key(c)]++
		}
		cases, err := readTable(target)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			want[key(c)]--
			if want[key(c)] < 0 {
				t.Errorf("%s: %s is new", c.At, c.Name)
			}
		}
		for text, n := range want {
			if n > 0 {
				t.Errorf("%d cases are missing: %.300s", n, text)
			}
		}
		t.Logf("%d cases", len(cases))
	}
}
