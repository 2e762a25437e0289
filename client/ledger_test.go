package client_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/google/go-cmp/cmp"
)

const entryOne = `{"kind":"deduct","bucket":"b:bucket-0","entry":1,"request_id":"o1","amount":5,"held":false,
	"dimensions":{"user":"u1"},"reference":"r","at":"2026-05-01T12:00:00Z"}`

func ledgerPage(next string, entries ...string) reply {
	text := `{"entries":[`
	for i, e := range entries {
		if i > 0 {
			text += ","
		}
		text += e
	}
	return answer(200, text+`],"next":"`+next+`"}`)
}

func TestLedger(t *testing.T) {
	s := newScripted(t, ledgerPage("c1", entryOne), ledgerPage("c1"), problem(422, "invalid"))
	c, _ := impatient(t, s.URL, client.WithTenant("acme"))
	page, err := c.Ledger(t.Context(), "b", "", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := &client.LedgerPage{Next: "c1", Entries: []client.LedgerEntry{{Kind: "deduct", Bucket: "b:bucket-0", Entry: 1,
		RequestID: "o1", Amount: 5, Dimensions: map[string]string{"user": "u1"}, Reference: "r",
		At: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}}}
	if diff := cmp.Diff(want, page); diff != "" {
		t.Error(diff)
	}
	if page, err = c.Ledger(t.Context(), "b", "c1", 7, 1500*time.Millisecond); err != nil || len(page.Entries) != 0 || page.Next != "c1" {
		t.Errorf("%+v, %v", page, err)
	}
	if _, err = c.Ledger(t.Context(), "b", "c0", 0, 0); client.CodeOf(err) != budget.Invalid || client.KindOf(err) != budget.Faulty {
		t.Errorf("another budget's cursor: %v", err)
	}
	var uris []string
	for _, r := range s.log() {
		uris = append(uris, r.method+" "+r.uri)
	}
	if diff := cmp.Diff([]string{"GET /v1/budgets/b/ledger?tenant=acme",
		"GET /v1/budgets/b/ledger?after=c1&limit=7&tenant=acme&wait=1.5s",
		"GET /v1/budgets/b/ledger?after=c0&tenant=acme"}, uris); diff != "" {
		t.Error(diff)
	}
}

// TestLedgerWaitExtendsTheAttempt checks that an attempt may last longer than AttemptTimeout by the
// time that the server was asked to wait.
func TestLedgerWaitExtendsTheAttempt(t *testing.T) {
	late := func(d time.Duration) reply {
		return func(w http.ResponseWriter) { time.Sleep(d); ledgerPage("c1")(w) }
	}
	s := newScripted(t, late(1200*time.Millisecond))
	c, _ := impatient(t, s.URL) // 600 ms an attempt
	if _, err := c.Ledger(t.Context(), "b", "", 0, 10*time.Second); err != nil {
		t.Error(err)
	}
}

// TestFollow checks that pages come in order despite lost answers, unavailability and empty pages,
// and that the first final error ends the sequence.
func TestFollow(t *testing.T) {
	unavailable := answer(503, `{"code":"unavailable","retry_after":3}`)
	s := newScripted(t, lost, unavailable, ledgerPage("c1", entryOne), ledgerPage("c1"), ledgerPage("c1"), cut,
		unavailable, unavailable, unavailable, unavailable, unavailable, // more than one call repeats
		ledgerPage("c2", entryOne, entryOne), problem(422, "invalid"), ledgerPage("c3", entryOne))
	c, waits := impatient(t, s.URL)
	var got []string
	for page, err := range c.Follow(t.Context(), "b", "c0", 2, time.Hour) {
		if err != nil {
			got = append(got, string(client.CodeOf(err)))
			continue
		}
		got = append(got, page.Next)
	}
	if want := []string{"c1", "c2", "invalid"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	requests := s.log()
	if len(requests) != 13 {
		t.Fatalf("%d requests", len(requests))
	}
	for i, want := range map[int]string{0: "c0", 2: "c0", 3: "c1", 11: "c1", 12: "c2"} {
		if uri := "/v1/budgets/b/ledger?after=" + want + "&limit=2&wait=30s"; requests[i].uri != uri {
			t.Errorf("request %d: %s, want %s", i, requests[i].uri, uri)
		}
	}
	// A pause followed each of the ten answers without entries, at least as long as Retry-After.
	if len(waits.slept) < 9 || slices.Max(waits.slept) < 3*time.Second || slices.Min(waits.slept) <= 0 {
		t.Errorf("slept %v", waits.slept)
	}
}

func TestFollowEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := newScripted(t, ledgerPage("c1", entryOne), ledgerPage("c2", entryOne), stuck(time.Second))
	c, _ := impatient(t, s.URL)
	pages := 0
	for _, err := range c.Follow(ctx, "b", "", 0, time.Millisecond) {
		if err != nil {
			t.Error(err)
		}
		if pages++; pages == 2 {
			time.AfterFunc(50*time.Millisecond, cancel)
		}
	}
	if pages != 2 || !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("%d pages, %v", pages, ctx.Err())
	}
	enough := newScripted(t, ledgerPage("c1", entryOne), ledgerPage("c2", entryOne))
	c, _ = impatient(t, enough.URL)
	for _, err := range c.Follow(t.Context(), "b", "", 0, 0) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if n := len(enough.log()); n != 1 {
		t.Errorf("%d requests of a caller that stopped after one page", n)
	}
}
