package daemon

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// conversations are the calls whose round trips to MariaDB are counted, from the request of a caller
// with a key to its answer: with the row of the audit log where the call writes one, without what
// the node does in the background. The budget has 64 buckets and is known to the node. today is what
// was measured, and goal what is left once every movement loads, decides and saves.
var conversations = []conversation{
	{verb: "create", today: 2, goal: 2, own: true, call: func(c *talk) reply {
		return c.create(64, 64_000, "")
	}},
	{verb: "get", today: 1, goal: 1, call: func(c *talk) reply { return c.ask("GET", "", "") }},
	{verb: "pause", today: 2, goal: 2, call: func(c *talk) reply {
		return c.ask("PATCH", "", `{"status":"paused"}`)
	}},
	{verb: "append", today: 2, goal: 2, call: func(c *talk) reply { return c.adjust(6400) }},
	{verb: "shrink", today: 2, goal: 2, call: func(c *talk) reply { return c.adjust(-6400) }},
	{verb: "offline", today: 2, goal: 2, call: func(c *talk) reply { return c.onBucket("offline") }},
	{verb: "online", today: 2, goal: 2, before: func(c *talk) { c.onBucket("offline") },
		call: func(c *talk) reply { return c.onBucket("online") }},
	{verb: "apply", today: 2, goal: 2, before: func(c *talk) { c.onBucket("offline") },
		call: func(c *talk) reply { return c.on("bucket-1", "apply") }},
	{verb: "recycle", today: 2, goal: 2, before: func(c *talk) { c.deduct("a", 10, "") },
		call: func(c *talk) reply { return c.ask("POST", "/recycle", "") }},
	{verb: "rollover", today: 2, goal: 2, define: daily, before: func(c *talk) { c.aDayLater() },
		call: func(c *talk) reply { return c.rollOver() }},
	{verb: "deduct", today: 1, goal: 1, call: func(c *talk) reply { return c.deduct("a", 10, "") }},
	{verb: "deduct with two limits", today: 1, goal: 2, define: twoLimits,
		call: func(c *talk) reply { return c.deduct("a", 10, user) }},
	{verb: "deduct with two limits of a value that is new", today: 2, goal: 2, define: twoLimits,
		call: func(c *talk) reply { return c.deduct("a", 10, `,"dimensions":{"user":"bob"}`) }},
	{verb: "the first refusal after the sell-out", today: 1, goal: 1, status: 409,
		before: func(c *talk) { c.sellOut() },
		call:   func(c *talk) reply { return c.deduct("b", 10, "") }},
	{verb: "the next refusal", today: 1, goal: 1, status: 409,
		before: func(c *talk) { c.sellOut(); c.deduct("b", 10, "") },
		call:   func(c *talk) reply { return c.deduct("c", 10, "") }},
	{verb: "a deduct that its bucket cannot cover", today: 2, goal: 4,
		call: func(c *talk) reply { return c.deduct("a", 1500, "") }},
	// A usual deduction takes 10, so a budget with 64 buckets is at its end with 2,560.
	{verb: "a deduct that contracts the budget", today: 2, goal: 4, contracts: true,
		before: func(c *talk) { c.deduct("a", 62_490, "") },
		call:   func(c *talk) reply { return c.deduct("b", 1200, "") }},
	{verb: "hold", today: 1, goal: 1, call: func(c *talk) reply { return c.deduct("a", 10, held) }},
	{verb: "confirm", today: 2, goal: 3, before: func(c *talk) { c.deduct("a", 10, held) },
		call: func(c *talk) reply { return c.ask("POST", "/confirm", `{"request_id":"a"}`) }},
	{verb: "confirm above the hold", today: 2, goal: 3,
		before: func(c *talk) { c.deduct("a", 10, held+above) },
		call: func(c *talk) reply {
			return c.ask("POST", "/confirm", `{"request_id":"a","amount":15}`)
		}},
	{verb: "confirm above what its bucket has", today: 4, goal: 4,
		before: func(c *talk) { c.deduct("a", 10, held+above) },
		call: func(c *talk) reply {
			return c.ask("POST", "/confirm", `{"request_id":"a","amount":1500}`)
		}},
	{verb: "extend", today: 2, goal: 3, before: func(c *talk) { c.deduct("a", 10, held) },
		call: func(c *talk) reply {
			return c.ask("POST", "/extend", `{"request_id":"a","hold_ttl":"2h"}`)
		}},
	{verb: "renew", today: 2, goal: 3, before: func(c *talk) { c.deduct("a", 10, held) },
		call: func(c *talk) reply {
			return c.ask("POST", "/renew", `{"request_id":"a","step":1,"used":4,"hold":12,"hold_ttl":"1h"}`)
		}},
	{verb: "rollback", today: 2, goal: 3, before: func(c *talk) { c.deduct("a", 10, "") },
		call: func(c *talk) reply { return c.rollBack("a") }},
	{verb: "cancel", today: 2, goal: 3, before: func(c *talk) { c.deduct("a", 10, "") },
		call: func(c *talk) reply { return c.ask("POST", "/cancel", `{"request_id":"a"}`) }},
	{verb: "rollback with two limits", today: 3, goal: 4, define: twoLimits,
		before: func(c *talk) { c.deduct("a", 10, user); c.rollBack("first") },
		call:   func(c *talk) reply { return c.rollBack("a") }},
	{verb: "the first rollback with two limits", today: 4, goal: 4, define: twoLimits,
		call: func(c *talk) reply { return c.rollBack("first") }},
	{verb: "confirm of a group", today: 2, goal: 3, before: func(c *talk) {
		for _, id := range []string{"a", "b", "c"} {
			c.deduct(id, 10, held+`,"group":"g"`)
		}
	}, call: func(c *talk) reply { return c.ask("POST", "/confirm", `{"group":"g"}`) }},
	{verb: "expiry of 40 holds", today: 3, goal: 4, before: func(c *talk) { c.overdue(40) },
		call: func(c *talk) reply { return c.expire(40) }},
	// The last one, because a node that sees repeats looks for ids before it writes.
	{verb: "a repeat of an accepted id", today: 2, goal: 2,
		before: func(c *talk) { c.deduct("a", 10, "") },
		call:   func(c *talk) reply { return c.deduct("a", 10, "") }},
}

// Further members of a definition, and of a deduction.
const (
	twoLimits = `,"limits":[{"name":"cap","dimension":"user","window":{"kind":"lifetime"},
		"max":1000,"measure":"count"},{"name":"day","dimension":"user",
		"window":{"kind":"calendar","every":"day"},"max":100000,"measure":"amount"}]`
	daily = `,"type":"daily","timezone":"UTC","start_at":%q,"end_at":%q,
		"type_rule":{"kind":"calendar","every":"day","unused":"next"}`
	user  = `,"dimensions":{"user":"ann"}`
	held  = `,"hold_ttl":"1h"`
	above = `,"above":"available"`
)

// conversation is a call and its round trips.
type conversation struct {
	verb        string
	today, goal int
	define      string // members of the definition
	own         bool   // the call creates the budget
	status      int    // of the answer; 0 means success
	contracts   bool   // buckets are offline after it
	before      func(*talk)
	call        func(*talk) reply
}

// talk is one node on MariaDB without its loops, and a budget.
type talk struct {
	*securedNode
	proxy *testservers.Proxy
	made  int
	name  string
}

// TestRoundTrips counts the round trips of each verb. What else may be needed now and then (a
// connection that is opened or compared, a definition that is half a second old) only adds to the
// number, so the least of several calls is the verb's.
func TestRoundTrips(t *testing.T) {
	const usual, most = 3, 12
	server := testservers.SharedMariaDB(t)
	proxy := testservers.NewProxy(t, server.Addr())
	dsn := strings.Replace(server.NewDatabase(t), server.Addr(), proxy.Addr(), 1)
	c := &talk{proxy: proxy, securedNode: newSecuredNode(t, "BUDGETD_DATABASE_DRIVER=mysql",
		"BUDGETD_DATABASE_DSN="+dsn)}
	c.halt()
	for _, one := range conversations {
		t.Run(one.verb, func(t *testing.T) {
			c.t = t
			least := 0
			for n := 0; n < usual || n < most && least != one.today; n++ {
				if got := c.count(&one); n == 0 || got < least {
					least = got
				}
			}
			switch {
			case least > one.today:
				t.Errorf("%d round trips, which were %d: the goal is %d", least, one.today, one.goal)
			case least < one.today:
				t.Errorf("%d round trips, which were %d: write %d into the table", least, one.today, least)
			}
		})
	}
}

// count returns the round trips of one call, on a new budget.
func (c *talk) count(one *conversation) int {
	c.t.Helper()
	if !one.own {
		now := time.Now().UTC().Truncate(24 * time.Hour)
		define := one.define
		if strings.Contains(define, "%q") {
			define = fmt.Sprintf(define, now.Format(time.RFC3339), now.Add(72*time.Hour).Format(time.RFC3339))
		}
		c.create(64, 64_000, define)
		c.deduct("first", 10, user)
	}
	if one.before != nil {
		one.before(c)
	}
	before := c.proxy.RoundTrips()
	got := one.call(c)
	n := c.proxy.RoundTrips() - before
	if want := one.status; got.status != want && (want != 0 || got.status/100 != 2) {
		c.t.Fatalf("%d %s", got.status, got.text)
	}
	offline := 0
	for _, b := range c.buckets() {
		if b.Status != "online" {
			offline++
		}
	}
	if one.contracts && offline == 0 {
		c.t.Fatal("no bucket went offline")
	}
	return n
}

func (c *talk) ask(method, path, body string) reply {
	c.t.Helper()
	return c.securedNode.ask(c.root, method, "/v1/budgets/"+c.name+path, body)
}

func (c *talk) create(buckets, total int, more string) reply {
	c.t.Helper()
	c.made++
	c.name = fmt.Sprintf("b%d", c.made)
	if !strings.Contains(more, `"type"`) {
		more += `,"type":"promo"`
	}
	got := c.securedNode.ask(c.root, "POST", "/v1/budgets", fmt.Sprintf(
		`{"name":%q,"unit":"count","bucket_quantity":%d,"total_quantity":%d%s}`, c.name, buckets, total,
		more))
	if got.status != http.StatusCreated {
		c.t.Fatalf("%d %s", got.status, got.text)
	}
	return got
}

// deduct deducts from the bucket that all these deductions share.
func (c *talk) deduct(id string, amount int, more string) reply {
	c.t.Helper()
	return c.ask("POST", "/deduct", fmt.Sprintf(`{"request_id":%q,"amount":%d,"key":"k"%s}`, id, amount,
		more))
}

func (c *talk) rollBack(id string) reply {
	c.t.Helper()
	return c.ask("POST", "/rollback", fmt.Sprintf(`{"request_id":%q}`, id))
}

// overdue makes holds whose time is over.
func (c *talk) overdue(n int) {
	c.t.Helper()
	for i := range n {
		c.deduct(fmt.Sprint("h", i), 1, held)
	}
	c.sql(`UPDATE hold SET hold_until_ms = 1, due_ms = 1 WHERE state = 'held'
		AND request_id LIKE ?`, "h%")
}

// expire ends holds, as a loop does.
func (c *talk) expire(n int) reply {
	c.t.Helper()
	got, err := hold.NewLedger(c.backends.db).ExpireHolds(c.t.Context(), n+1, 0)
	if err != nil || got.Holds != n {
		c.t.Fatalf("%+v, %v", got, err)
	}
	return reply{status: http.StatusOK}
}

func (c *talk) adjust(quantity int) reply {
	c.t.Helper()
	return c.ask("POST", "/append", fmt.Sprintf(`{"request_id":"adj","quantity":%d}`, quantity))
}

// aBucket is a bucket in an answer.
type aBucket struct {
	Key, Status string
	Outstanding int
}

func (c *talk) buckets() []aBucket {
	c.t.Helper()
	var answer struct{ Buckets []aBucket }
	c.done(c.root, "GET", "/v1/budgets/"+c.name+"/buckets", "", &answer)
	return answer.Buckets
}

// on makes a call on a bucket.
func (c *talk) on(key, verb string) reply {
	c.t.Helper()
	return c.ask("POST", "/buckets/"+key+"/"+verb, "")
}

// onBucket makes a call on the first bucket.
func (c *talk) onBucket(verb string) reply {
	c.t.Helper()
	return c.on("bucket-0", verb)
}

// sellOut deducts all that is left.
func (c *talk) sellOut() {
	c.t.Helper()
	left := 0
	for _, b := range c.buckets() {
		left += b.Outstanding
	}
	if got := c.deduct("all", left, ""); got.status != http.StatusOK {
		c.t.Fatalf("%d %s", got.status, got.text)
	}
}

// aDayLater moves the budget a day into the past, so that its first day is over.
func (c *talk) aDayLater() {
	c.t.Helper()
	const day = 24 * 60 * 60 * 1000
	c.sql(`UPDATE budget_management_bucket SET start_ms = start_ms - ?, end_ms = end_ms - ?,
		period_start_ms = period_start_ms - ?, period_end_ms = period_end_ms - ?,
		roll_over_ms = roll_over_ms - ? WHERE name = ?`, day, day, day, day, day, c.name)
	for _, set := range []string{"budget_period SET start_ms = start_ms - ?, end_ms = end_ms - ?",
		"bucket_epoch SET period_end_ms = period_end_ms - ?"} {
		args := []any{day, day, c.name}
		c.sql("UPDATE "+set+` WHERE budget_id = (SELECT id FROM budget_management_bucket
			WHERE name = ?)`, args[2-strings.Count(set, "?"):]...)
	}
}

// rollOver begins the next period, as a call on the budget or a loop does.
func (c *talk) rollOver() reply {
	c.t.Helper()
	b, err := c.service.budgets.Find(c.t.Context(), bucket.BudgetRef{Tenant: "default", Name: c.name})
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.service.transfer.RollOver(c.t.Context(), b.ID); err != nil {
		c.t.Fatal(err)
	}
	return reply{status: http.StatusOK}
}
