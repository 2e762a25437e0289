package redisstore_test

import (
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/testservers"
)

// TestSentOnce: a command whose reply is lost with its connection is not sent again by the driver: a
// deduction would be executed twice (I1, I4).
func TestSentOnce(t *testing.T) {
	f := newFakeRedis(t)
	store := fakeStore(t, f) // it reads every command and closes the connection
	_, err := store.Open(t.Context(), lane0, []bucket.Ref{ref1})
	wantCodes(t, map[string]error{"open": err}, budget.OutcomeUnknown)
	if f.calls() != 1 {
		t.Errorf("%d commands arrived, want 1", f.calls())
	}
}

// TestReadsAfterARestart: reads use no script, so only the identity that a new connection meets tells
// that the server restarted, with all its data (I2).
func TestReadsAfterARestart(t *testing.T) {
	server, store, _ := serving(t, testservers.AppendOnly("always"))
	must(t, server.Kill())
	must(t, server.Restart())
	activate(t, connect(t, config(server)), 2)
	wantCodes(t, reads(t.Context(), store), lost)
}
