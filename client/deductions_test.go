package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

func TestDeductOfAServerThatIsNotThere(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	c, w := impatient(t, address)
	_, err = c.Deduct(t.Context(), "b", client.DeductRequest{RequestID: "o1", Amount: 5})
	if client.KindOf(err) != budget.NotDone || !client.Unreachable(err) {
		t.Errorf("kind %d, unreachable %t; want NotDone, true: %v",
			client.KindOf(err), client.Unreachable(err), err)
	}
	if len(w.slept) != 3 {
		t.Errorf("%d waits, want 3 (4 attempts)", len(w.slept))
	}
}

func TestDeductThatTimesOutIsNotUnreachable(t *testing.T) {
	slow := stuck(900 * time.Millisecond)
	server := newScripted(t, slow, slow, slow, slow)
	c, _ := impatient(t, server.URL)
	_, err := c.Deduct(t.Context(), "b", client.DeductRequest{RequestID: "o1", Amount: 5})
	var unknown *client.UnknownOutcome
	if !errors.As(err, &unknown) || unknown.RequestID != "o1" || unknown.Attempts != 4 {
		t.Errorf("error %#v, want UnknownOutcome of o1 after 4 attempts", err)
	}
	if client.Unreachable(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("unreachable %t, want false and a time-out: %v", client.Unreachable(err), err)
	}
}

// TestAServerThatDiesAfterALostAnswer checks that the outcome of a lost answer stays unknown when the
// server cannot be reached afterwards.
func TestAServerThatDiesAfterALostAnswer(t *testing.T) {
	var server *scripted
	server = newScripted(t, func(w http.ResponseWriter) {
		server.Listener.Close()
		lost(w)
	})
	c, _ := impatient(t, server.URL)
	_, err := c.Deduct(t.Context(), "b", client.DeductRequest{RequestID: "o1", Amount: 5})
	if client.KindOf(err) != budget.MayBeDone || client.Unreachable(err) {
		t.Errorf("kind %d, unreachable %t; want MayBeDone, false: %v",
			client.KindOf(err), client.Unreachable(err), err)
	}
}

func TestNothingIsSentAfterTheContextEnded(t *testing.T) {
	server := newScripted(t)
	c, _ := impatient(t, server.URL)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Deduct(ctx, "b", client.DeductRequest{RequestID: "o1", Amount: 5})
	if client.KindOf(err) != budget.NotDone || !errors.Is(err, context.Canceled) {
		t.Errorf("kind %d, want NotDone: %v", client.KindOf(err), err)
	}
	if n := len(server.log()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestTheDefaultSleepObeysTheContext(t *testing.T) {
	server := newScripted(t, answer(503, `{"code":"unavailable"}`, "Retry-After", "25"))
	c, err := client.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	begin := time.Now()
	_, err = c.Deduct(ctx, "b", client.DeductRequest{RequestID: "o1", Amount: 5})
	if took := time.Since(begin); took > 10*time.Second || client.CodeOf(err) != budget.Unavailable {
		t.Errorf("took %s: %v", took, err)
	}
}
