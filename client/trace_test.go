//go:build go1.25

package client_test

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/budgetd/budgetd/client"
	"github.com/google/go-cmp/cmp"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// lostTwice loses two replies, then refuses, so that a deduct is sent three times and then cancelled.
func lostTwice() *till {
	s := newTill()
	s.slow(map[int]luck{1: {before: true}, 2: {after: true}, 3: {status: 409, code: "budget_exhausted"}})
	return s
}

func TestEveryAttemptIsPartOfTheCallersTrace(t *testing.T) {
	given := client.ContextWithTrace(t.Context(), client.Trace{Parent: traceparent, State: "v=1,w=2"})
	type key struct{}
	found := client.WithTrace(func(ctx context.Context) client.Trace {
		parent, _ := ctx.Value(key{}).(string)
		return client.Trace{Parent: parent}
	})
	other := strings.Replace(traceparent, "0af7", "1111", 1)
	tests := []struct {
		name    string
		ctx     context.Context
		options []client.Option
		want    string // "" means a new trace
	}{
		{"given", given, nil, traceparent + " v=1,w=2"},
		{"found", context.WithValue(t.Context(), key{}, other), []client.Option{found}, other + " "},
		{"given before found", context.WithValue(given, key{}, other), []client.Option{found}, traceparent + " v=1,w=2"},
		{"not found", t.Context(), []client.Option{found}, ""},
		{"none", t.Context(), nil, ""},
		{"a state that no header can hold", client.ContextWithTrace(t.Context(),
			client.Trace{Parent: traceparent, State: "v=\n"}), nil, traceparent + " "},
		{"alone in a coalescing client", given, []client.Option{client.WithCoalescing(client.Coalescing{})},
			traceparent + " v=1,w=2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := lostTwice()
			ask(test.ctx, s.customer(t, 5, test.options...), "a")
			if diff := cmp.Diff([]string{"deduct a", "deduct a", "deduct a", "cancel a"}, s.log()); diff != "" {
				t.Fatalf("calls (-want +got):\n%s", diff)
			}
			for _, got := range s.traces {
				if test.want == "" {
					test.want = ownTrace.FindString(got)
				}
				if got != test.want || got == "" {
					t.Errorf("trace %q, want %q", got, test.want)
				}
			}
		})
	}
}

var ownTrace = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-00 $`)

func TestNewTracesDiffer(t *testing.T) {
	s := newTill()
	c := s.customer(t, 1)
	known := map[string]bool{}
	for range 100 {
		ask(t.Context(), c, client.NewRequestID())
	}
	for _, got := range s.traces {
		if !ownTrace.MatchString(got) || known[got] {
			t.Errorf("trace %q", got)
		}
		known[got] = true
	}
}

func TestABatchHasItsOwnTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill()
		s.slow(nil)
		w := newCrowd(s.customer(t, 1, one(client.Coalescing{})))
		w.come(client.ContextWithTrace(t.Context(), client.Trace{Parent: traceparent}), "a", "b", "c")
		w.outcomes()
		if s.log()[1] != "batch b c" || s.traces[0] != traceparent+" " || !ownTrace.MatchString(s.traces[1]) {
			t.Errorf("calls %q with traces %q", s.log(), s.traces)
		}
	})
	s := newTill()
	s.slow(map[int]luck{1: {before: true}})
	ctx := client.ContextWithTrace(t.Context(), client.Trace{Parent: traceparent})
	items := []client.BatchItem{{Budget: "b", DeductRequest: client.DeductRequest{RequestID: "a", Amount: 1}}}
	if _, err := s.customer(t, 3).DeductBatch(ctx, items); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{traceparent + " ", traceparent + " "}, s.traces); diff != "" {
		t.Errorf("traces of DeductBatch (-want +got):\n%s", diff)
	}
}

// TestInvalidTracesAreReplaced checks that an invalid traceparent is replaced and does not fail the
// call.
func TestInvalidTracesAreReplaced(t *testing.T) {
	for text, kept := range map[string]bool{
		traceparent: true, "01" + traceparent[2:]: true, "cc" + traceparent[2:] + "-what-will-be": true,
		"": false, traceparent + "-x": false, "ff" + traceparent[2:]: false, strings.ToUpper(traceparent): false,
		traceparent[:54]: false, "cc" + traceparent[2:] + "-\n": false, "cc" + traceparent[2:] + strings.Repeat("-", 600): false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": false,
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": false,
	} {
		var got string
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			got = r.Header.Get("Traceparent")
			io.Copy(io.Discard, r.Body)
			return answerOf(r, 200, `{"outcome":"accepted"}`), nil
		})
		c, err := client.New("http://till", client.WithTransport(transport))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ask(client.ContextWithTrace(t.Context(), client.Trace{Parent: text}), c, "a"); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if kept != (got == text) || got == "" {
			t.Errorf("%q was sent as %q, want it kept: %t", text, got, kept)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
