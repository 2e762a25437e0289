package main

import (
	"strings"
	"testing"
)

func TestRequest(t *testing.T) {
	c := &caller{head: "POST /d HTTP/1.1\r\nContent-Length: ", number: 3, users: 1,
		pieces: split(`{"id":"{id}","user":"{user}","again":"{id}"}`)}
	for _, id := range []string{"3-1", "3-2"} {
		text, _ := c.Request(nil)
		want := "POST /d HTTP/1.1\r\nContent-Length: 38\r\n\r\n" + `{"id":"` + id + `","user":"u0","again":"` + id + `"}`
		if string(text) != want {
			t.Errorf("%q, want %q", text, want)
		}
	}
	if got := split("plain"); len(got) != 1 || got[0].text != "plain" || got[0].then != 0 {
		t.Errorf("%+v", got)
	}
}

func TestOnlyOKCounts(t *testing.T) {
	c := &caller{}
	c.Answer(200, nil)
	c.Answer(503, []byte("no"))
	if c.done != 1 || c.failed != 1 || !strings.Contains(c.why, "status 503: no") {
		t.Errorf("%+v", c)
	}
}
