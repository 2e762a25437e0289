package client_test

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// TestTheDefaultsBridgeARestart checks that a deduction succeeds although the server is down for more
// than a second.
func TestTheDefaultsBridgeARestart(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil { // no server listens there now
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"request_id":"o1","outcome":"accepted","amount":5,"state":"used",`+
				`"bucket":"b:bucket-0","bucket_remaining":1,"budget_remaining":1,"limits":[],"receipt":"r","replayed":true}`)
		})}
	back := make(chan error, 1)
	go func() {
		time.Sleep(1200 * time.Millisecond)
		again, err := net.Listen("tcp", address)
		if err == nil {
			err = server.Serve(again)
		}
		back <- err
	}()
	c, err := client.New(address)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Deduct(t.Context(), "b", client.DeductRequest{RequestID: "o1", Amount: 5})
	if err != nil || answer.Attempts < 2 {
		t.Errorf("%+v, %v", answer, err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-back; err != http.ErrServerClosed {
		t.Error(err)
	}
}

// TestAKindPrintsItsName checks the text of kinds in messages and logs.
func TestAKindPrintsItsName(t *testing.T) {
	for kind, want := range map[budget.Kind]string{budget.Faulty: "faulty", budget.Refused: "refused",
		budget.Conflict: "conflict", budget.NotDone: "not done", budget.MayBeDone: "may be done", 0: "kind 0"} {
		if got := kind.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
