package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestExplain asks why deductions were refused: a used-up limit, a used-up budget, one that was accepted later.
func TestExplain(t *testing.T) {
	server := serveReal(t)
	must1(t, server, "create sale --type promo --total 100 --limit name=per-user,dimension=user,window=day,max=1")
	must1(t, server, "deduct sale 1 --request-id o1 --dimension user=u7")
	checkFailure(t, command(t, server, "deduct sale 1 --request-id o2 --dimension user=u7"), exitRefused, "limit_exceeded")
	checkFailure(t, command(t, server, "deduct sale 200 --request-id o3 --dimension user=u8"), exitRefused, "budget_exhausted")
	checkContains(t, must1(t, server, "explain o2").stdout, "limit_exceeded", "default/sale", "user=u7", "per-user", "bucket-",
		"try again at")
	checkContains(t, must1(t, server, "explain u8").stdout, "o3", "budget_exhausted", "the budget had  99", "append to the budget")
	must1(t, server, "deduct sale 2 --request-id o3x --dimension user=u9")
	checkContains(t, must1(t, server, "explain o3x --budget sale").stdout, "o3x is used: 2", "no such refusal")
	checkContains(t, must1(t, server, "explain o3 --budget sale -o json").stdout, `"code": "budget_exhausted"`)
	checkFailure(t, command(t, server, "explain o4 --budget sale"), exitError, "nothing is known of o4", "deduction_not_found", "request \"o4\" is not in the ledger")
	checkFailure(t, command(t, server, "explain o4"), exitError, "nothing is known of o4")

	// One that was accepted since, and one that waits for what is held.
	must1(t, server, "append sale 400")
	must1(t, server, "deduct sale 200 --request-id o3 --dimension user=u8")
	accepted := must1(t, server, "explain o3").stdout
	checkContains(t, accepted, "Recorded: o3 is used: 200.", "nothing: the id was accepted since")
	if strings.Contains(accepted, "append to the budget") {
		t.Errorf("advice for a request that was accepted:\n%s", accepted)
	}
	must1(t, server, "deduct sale 250 --request-id h1 --hold 10m --dimension user=u10")
	checkFailure(t, command(t, server, "deduct sale 100 --request-id o5 --dimension user=u11"), exitRefused, "budget_exhausted")
	checkContains(t, must1(t, server, "explain o5").stdout, "250 are held", "budgetctl holds sale")
	checkContains(t, must1(t, server, "holds sale").stdout, "h1", "250", "bucket-")
	checkFailure(t, command(t, server, "holds sale --limit 0"), exitUsage, "--limit 0 must be 1 to 500")
	if text := must1(t, server, "explain u8 --budget sale").stdout; strings.Contains(text, "Recorded") {
		t.Errorf("a user was looked up as a request:\n%s", text)
	}
	checkFailure(t, command(t, server, "explain o4 --key u8"), exitUsage, "--key needs --budget")
}

// TestExplainInStoreMode checks that the key of a refusal finds the record of its id, also with a
// routing dimension, that the bucket shown is the one that deducts, and that refusals are shown if
// the record cannot be found.
func TestExplainInStoreMode(t *testing.T) {
	server := serveWith(t, fmt.Sprintf("instances: [{name: a, driver: redis, addrs: [%q]}]\n"+
		"store_mode: {record_window: 24h}\n", testservers.Redis(t).Addr()))
	must1(t, server, "create keyed --type promo --total 100 --buckets 16 --durability store")
	must1(t, server, "create routed --type promo --total 100 --buckets 16 --durability store --routing-dimension user")
	for _, test := range []struct{ budget, request, key string }{
		{"keyed", "--request-id k1 --key u-1", "u-1"},
		{"keyed", "--request-id k2", "k2"},
		{"routed", "--request-id r1 --dimension user=u-1", "u-1"},
		{"routed", "--request-id r2 --dimension city=rome,user=u-2 --key k-2", "u-2"},
	} {
		id := strings.Fields(test.request)[1]
		ask := func(amount int) string { return fmt.Sprintf("deduct %s %d %s", test.budget, amount, test.request) }
		checkFailure(t, command(t, server, ask(1000)), exitRefused, "budget_exhausted")
		explain := "explain " + id + " --budget " + test.budget
		checkContains(t, must1(t, server, explain).stdout, "1,000", "append to the budget",
			"Recorded: not found: deduction_not_found: bucket")

		var done client.Deduction
		parse(t, must1(t, server, ask(2)+" -o json").stdout, &done)
		checkContains(t, must1(t, server, explain).stdout, "Recorded: "+id+" is used: 2.",
			done.Bucket+" in a/0, by key "+test.key, "budget_exhausted")
	}
	must1(t, server, "deduct routed 3 --request-id r3 --dimension user=u-3")
	checkFailure(t, command(t, server, "explain r3 --budget routed"), exitError, "must be the deduction's value of user")
	checkContains(t, must1(t, server, "explain r3 --budget routed --key u-3").stdout, "r3 is used: 3", "no such refusal")
}

// TestExplainAfterTheRecordWindow checks that nothing is said about attempts whose record may be
// forgotten.
func TestExplainAfterTheRecordWindow(t *testing.T) {
	server := serveWith(t, fmt.Sprintf("instances: [{name: a, driver: redis, addrs: [%q]}]\n"+
		"store_mode: {record_window: 1s}\n", testservers.Redis(t).Addr()))
	must1(t, server, "create sale --type promo --total 100 --buckets 1 --durability store")
	must1(t, server, "deduct sale 2 --request-id o1")
	until := time.Now().Add(2 * time.Minute)
	for {
		r := command(t, server, "explain o1 --budget sale")
		if strings.Contains(r.stderr, "deduction_not_found") {
			checkContains(t, r.stderr, "deduction_not_found: bucket sale:bucket-0 has no record of "+
				`request "o1"; a record lasts for the record window, and only the key of its request finds it`)
			return
		}
		if time.Now().After(until) {
			t.Fatalf("the record stays: %+v", r)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// parse reads an answer in JSON.
func parse(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}
