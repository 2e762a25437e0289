package client_test

import (
	"testing"

	"github.com/budgetd/budgetd/client"
	"github.com/go-json-experiment/json"
)

// TestHome checks that the home of a bucket is the text sql or an object, in both directions.
func TestHome(t *testing.T) {
	for _, test := range []struct {
		name, text string
		home       client.Home
		shown      string
	}{
		{"SQL", `{"home":"sql"}`, client.Home{}, "sql"},
		{"a partition", `{"home":{"instance":"redis-a","partition":3}}`,
			client.Home{Instance: "redis-a", Partition: 3}, "redis-a/3"},
		{"the first partition", `{"home":{"instance":"redis-a","partition":0}}`,
			client.Home{Instance: "redis-a"}, "redis-a/0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			type body struct {
				Home client.Home `json:"home"`
			}
			read := body{client.Home{Instance: "before", Partition: 7}}
			if err := json.Unmarshal([]byte(test.text), &read); err != nil || read.Home != test.home {
				t.Errorf("read %+v, %v", read.Home, err)
			}
			if text, err := json.Marshal(body{test.home}); err != nil || string(text) != test.text {
				t.Errorf("written %s, %v", text, err)
			}
			if got := test.home.String(); got != test.shown {
				t.Errorf("shown %s, want %s", got, test.shown)
			}
		})
	}
	for _, text := range []string{`"redis-a"`, `""`, `7`, `null`, `{}`, `{"partition":1}`, `[]`} {
		var home client.Home
		if err := json.Unmarshal([]byte(text), &home); err == nil {
			t.Errorf("%s is read as %+v", text, home)
		}
	}
}
