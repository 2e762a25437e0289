package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/httpapi"
	"github.com/budgetd/budgetd/ledger"
)

// TestLongCalls checks that a ledger call that waits and an audit may exceed the time limits of
// other calls, and have limits of their own.
func TestLongCalls(t *testing.T) {
	tight := func(c *httpapi.Config) {
		c.Limits.RequestTimeout, c.Limits.ReadTimeout = 150*time.Millisecond, 100*time.Millisecond
		c.Limits.WriteTimeout = 100 * time.Millisecond
	}
	service, server, _ := start(t, tight)
	var deadline time.Duration
	service.before = func(ctx context.Context, _ string) {
		if end, ok := ctx.Deadline(); ok {
			deadline = time.Until(end)
		}
		select {
		case <-time.After(time.Second): // longer than all three limits together
		case <-ctx.Done():
			t.Error("the wait was cut off:", ctx.Err())
		}
	}
	for _, long := range []struct {
		call, answer string
		least, most  time.Duration
	}{
		{"ledger?wait=30s", `"next":"next-1"`, 29 * time.Second, 31 * time.Second},
		{"audit", `"used":`, 9 * time.Minute, 11 * time.Minute},
	} {
		answer, body := ask(t, server, "GET", "/v1/budgets/sale/"+long.call, "")
		if answer.StatusCode != 200 || !strings.Contains(body, long.answer) {
			t.Errorf("%s: %d %s", long.call, answer.StatusCode, body)
		}
		if deadline < long.least || deadline > long.most {
			t.Errorf("%s is bounded by %s", long.call, deadline)
		}
	}
	service.before = func(ctx context.Context, _ string) { <-ctx.Done() }
	service.err = context.DeadlineExceeded
	answer, body := ask(t, server, "GET", "/v1/budgets/sale/ledger?wait=0s", "")
	if answer.StatusCode != 503 {
		t.Errorf("without a wait: %d %s", answer.StatusCode, body)
	}
}

// waiting is a service whose Feed waits for the end that it is given.
type waiting struct {
	*fake
	entered chan struct{}
}

func (w waiting) Feed(ctx context.Context, r bucket.FeedRequest) (bucket.FeedPage, error) {
	close(w.entered)
	select {
	case <-r.Until:
	case <-ctx.Done():
		return bucket.FeedPage{}, ctx.Err()
	}
	return bucket.FeedPage{Next: "same"}, nil
}

func TestLedgerEndsWhenTheNodeLeaves(t *testing.T) {
	service := waiting{new(fake), make(chan struct{})}
	_, server, api := start(t, func(c *httpapi.Config) { c.Service = service })
	ended := make(chan string, 1)
	go func() {
		answer, err := http.Get(server.URL + "/v1/budgets/sale/ledger?wait=30s")
		if err != nil {
			ended <- err.Error()
			return
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		ended <- string(text)
	}()
	<-service.entered
	api.Leave()
	api.Leave() // twice is harmless
	select {
	case text := <-ended:
		if text != `{"entries":[],"next":"same"}`+"\n" {
			t.Error(text)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the call still waits")
	}
}

// forged is a service whose feed has an entry that no caller could have made.
type forged struct{ *fake }

func (forged) Feed(context.Context, bucket.FeedRequest) (bucket.FeedPage, error) {
	e := bucket.FeedEntry{BucketKey: "b:bucket-0"}
	e.Kind, e.RequestID, e.Reference, e.Dimensions = ledger.FeedDeduct, "a\xff", "\xc0", "{broken"
	return bucket.FeedPage{Entries: []bucket.FeedEntry{e, {}}, Next: "n"}, nil
}

// TestLedgerIsNotStoppedByAnEntry checks that an entry that has no JSON form does not fail the page
// of the ledger.
func TestLedgerIsNotStoppedByAnEntry(t *testing.T) {
	_, server, _ := start(t, func(c *httpapi.Config) { c.Service = forged{new(fake)} })
	answer, body := ask(t, server, "GET", "/v1/budgets/sale/ledger", "")
	if answer.StatusCode != 200 || !strings.Contains(body, "\"request_id\":\"a\ufffd\"") || strings.Contains(body, "broken") {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
}
