package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

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

// TestLedger checks that a page is decoded.
func TestLedger(t *testing.T) {
	s := newScripted(t, ledgerPage("c1", entryOne))
	c, _ := impatient(t, s.URL)
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
