package client_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/budgetd/budgetd/client"
)

// TestTheNextAddressIsCalled checks that the client calls the next address with the same request id
// if no server listens at the first one, or if it breaks the connection after the request.
func TestTheNextAddressIsCalled(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var asked []string
	note := func(r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, string(body))
	}
	breaks := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		note(r)
		panic(http.ErrAbortHandler)
	}))
	defer breaks.Close()
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(r)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"request_id":"o1","outcome":"accepted","amount":5,"state":"used",`+
			`"bucket":"b:bucket-0","bucket_remaining":1,"budget_remaining":1,"limits":[],"receipt":"r","replayed":true}`)
	}))
	defer answers.Close()
	c, err := client.New(gone + ", " + breaks.URL + "," + answers.URL)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Deduct(t.Context(), "b", client.DeductRequest{RequestID: "o1", Amount: 5})
	if err != nil || answer.Attempts != 3 {
		t.Fatalf("%+v, %v", answer, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != 2 || asked[0] != asked[1] {
		t.Errorf("asked: %q", asked)
	}
	if c.Server() != answers.URL {
		t.Errorf("the next call goes to %s, want the server that answered", c.Server())
	}
	if _, err := client.New(answers.URL + ","); err == nil {
		t.Error("an empty address is accepted")
	}
}
