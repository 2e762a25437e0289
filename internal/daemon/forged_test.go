package daemon

import (
	"crypto/rand"
	"strings"
	"sync"
	"testing"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestForgedKeys checks what calls with forged keys on 8 connections cost the database: nothing when
// they are refused, and afterwards one row, one link and one round trip for all of a source, with no
// id that no key has.
func TestForgedKeys(t *testing.T) {
	const connections, each = 8, 50
	server := testservers.SharedMariaDB(t)
	proxy := testservers.NewProxy(t, server.Addr())
	o := newSecuredNode(t, "BUDGETD_DATABASE_DRIVER=mysql",
		"BUDGETD_DATABASE_DSN="+strings.Replace(server.NewDatabase(t), server.Addr(), proxy.Addr(), 1))
	o.halt()
	if err := o.security.auditLog.Append(t.Context(), auditlog.Row{Op: "connect"}); err != nil {
		t.Fatal(err)
	}
	before := proxy.RoundTrips()
	var calls sync.WaitGroup
	for range connections {
		calls.Go(func() {
			for n := range each {
				token, err := access.NewToken(rand.Reader)
				if err != nil {
					t.Error(err)
					return
				}
				method, path := "GET", "/v1/budgets"
				if n%2 == 0 {
					method, path = "POST", "/v1/budgets/b/append"
				}
				if got := o.ask(token.Reveal(), method, path, ""); got.status != 401 {
					t.Errorf("%d %s", got.status, got.text)
				}
			}
		})
	}
	calls.Wait()
	if n := proxy.RoundTrips() - before; n != 0 {
		t.Errorf("%d round trips while they are refused", n)
	}
	read := func() auditlog.Page {
		page, err := o.security.auditLog.Read(t.Context(), auditlog.Query{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	at := read().Head.Seq
	before = proxy.RoundTrips()
	for range 3 {
		if err := o.security.auditLog.NoteRefusals(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := proxy.RoundTrips() - before; n != 1 {
		t.Errorf("%d round trips to record them", n)
	}
	after := read()
	row := after.Rows[len(after.Rows)-1]
	if after.Head.Seq != at+1 || row.Times != connections*each || row.Outcome != "unknown" || row.KeyID != "" {
		t.Errorf("%d rows, the last is %+v", after.Head.Seq-at, row)
	}
}
