package redisstore_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/storetest"
	"github.com/budgetd/budgetd/internal/testservers"
)

// serving starts a server with an activated store and one bucket of 100 units on it.
func serving(t *testing.T, options ...testservers.RedisOption) (*testservers.RedisServer,
	*redisstore.Store, *redis.Client) {
	t.Helper()
	server := testservers.Redis(t, options...)
	store := connect(t, config(server))
	activate(t, store, 1)
	fill(t, store, ref1, 100)
	return server, store, client(t, server)
}

// deduct takes 1 unit from the first bucket.
func deduct(ctx context.Context, store *redisstore.Store) (bucket.Reply, error) {
	got, err := store.Deduct(ctx, lane0, []bucket.Operation{storetest.Deduction(ref1, 1, "x")})
	if err != nil {
		return bucket.Reply{}, err
	}
	return got[0], nil
}

// wantUnits fails unless the first bucket is open with so many units left of 100.
func wantUnits(t *testing.T, store *redisstore.Store, left int64) {
	t.Helper()
	got, err := store.Balances(t.Context(), lane0, []bucket.Ref{ref1})
	if err != nil {
		t.Fatal(err)
	}
	want := bucket.Balance{Verdict: bucket.OK, Seq: 1 + 100 - left, GrantSeq: 1, Balance: left,
		Granted: 100, Deducted: 100 - left}
	if got[0] != want {
		t.Errorf("balance is %+v, want %+v", got[0], want)
	}
	log, err := store.Read(t.Context(), lane0, []bucket.Cursor{{Ref: ref1}}, 1000)
	if err != nil || log[0].Err != nil || int64(len(log[0].Entries)) != want.Seq+1 {
		t.Errorf("the log has %d entries, want %d; %v, %v", len(log[0].Entries), want.Seq+1, err,
			log[0].Err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestServerDown: nobody answers, so nothing was done; when it comes back with all its data, it is
// still not the memory that was activated.
func TestServerDown(t *testing.T) {
	server, store, _ := serving(t, testservers.AppendOnly("always"))
	must(t, server.Kill())
	wantCodes(t, writes(t.Context(), store), budget.Unavailable)
	wantCodes(t, reads(t.Context(), store), budget.Unavailable)
	_, err := store.Identity(t.Context(), lane0)
	wantCodes(t, map[string]error{"identity": err,
		"activate": store.Activate(t.Context(), lane0, "x", 1)}, budget.Unavailable)
	must(t, server.Restart())
	wantCodes(t, writes(t.Context(), store), lost)
	wantCodes(t, reads(t.Context(), store), lost)
	activate(t, store, 2)
	wantUnits(t, store, 100)
	got, err := deduct(t.Context(), store)
	must(t, err)
	if got.Verdict != bucket.WrongActivation {
		t.Errorf("an epoch of the old activation answers %+v", got)
	}
}

// TestRestartUnnoticed: between two calls of one node the server restarted with its data and
// another node loaded the same scripts. Only the identity tells.
func TestRestartUnnoticed(t *testing.T) {
	server, store, _ := serving(t, testservers.AppendOnly("always"))
	must(t, server.Kill())
	must(t, server.Restart())
	other := connect(t, config(server))
	activate(t, other, 1)
	wantCodes(t, writes(t.Context(), store), lost)
	wantCodes(t, reads(t.Context(), store), lost)
	wantUnits(t, other, 100)
}

// TestStopped: a server that takes a call and does not answer leaves the outcome unknown; what was
// sent is executed when it goes on.
func TestStopped(t *testing.T) {
	server := testservers.Redis(t)
	c := config(server)
	c.ReadTimeout = 200 * time.Millisecond
	store := connect(t, c)
	activate(t, store, 1)
	fill(t, store, ref1, 100)
	must(t, server.Pause())
	_, err := deduct(t.Context(), store)
	wantCodes(t, map[string]error{"deduct": err}, budget.OutcomeUnknown)
	wantCodes(t, reads(t.Context(), store), budget.Unavailable)
	must(t, server.Resume())
	wantUnits(t, store, 99)
}

// TestNoMemory: OOM is refused before anything is written, in every verb that needs memory; what
// frees memory goes on.
func TestNoMemory(t *testing.T) {
	_, store, raw := serving(t)
	two := bucket.Ref{Bucket: 2, Epoch: 1, Activation: 1}
	fill(t, store, two, 100)
	must(t, raw.ConfigSet(t.Context(), "maxmemory", "1").Err())
	ctx := t.Context()
	refused := make(map[string]error)
	_, refused["open"] = store.Open(ctx, lane0, []bucket.Ref{{Bucket: 3, Epoch: 1, Activation: 1}})
	_, refused["grant"] = store.Grant(ctx, lane0,
		[]bucket.GrantOrder{{Ref: two, Number: 2, Amount: 1}})
	_, refused["deduct"] = store.Deduct(ctx, lane0, []bucket.Operation{
		storetest.Deduction(two, 1, "a"), storetest.Deduction(two, 1, "b")})
	_, refused["close"] = store.Close(ctx, lane0, []bucket.Ref{two})
	wantCodes(t, refused, budget.Unavailable)
	for verb, err := range refused {
		if !strings.Contains(err.Error(), "maxmemory") {
			t.Errorf("%s does not say what to do: %v", verb, err)
		}
	}
	must(t, store.Trim(ctx, lane0, []bucket.Cursor{{Ref: ref1, From: 1}}))
	must(t, store.Forget(ctx, lane0, []bucket.Ref{ref1}))
	must(t, raw.ConfigSet(ctx, "maxmemory", "0").Err())
	got, err := store.Balances(ctx, lane0, []bucket.Ref{two, {Bucket: 3, Epoch: 1, Activation: 1}})
	must(t, err)
	want := bucket.Balance{Verdict: bucket.OK, Seq: 1, GrantSeq: 1, Balance: 100, Granted: 100}
	if got[0] != want || got[1].Verdict != bucket.EpochGone {
		t.Errorf("after the refusals: %+v", got)
	}
	log, err := store.Read(ctx, lane0, []bucket.Cursor{{Ref: two}}, 10)
	must(t, err)
	if len(log[0].Entries) != 2 {
		t.Errorf("after the refusals the log has %d entries, want 2", len(log[0].Entries))
	}
}

// TestRefusedWrites: a server that may not write says so before anything is written.
func TestRefusedWrites(t *testing.T) {
	for name, arguments := range map[string][]any{
		"too few replicas": {"CONFIG", "SET", "min-replicas-to-write", "1"},
		"no XADD":          {"ACL", "SETUSER", "default", "-xadd"},
		"no HMGET":         {"ACL", "SETUSER", "default", "-hmget"},
		"no EVALSHA":       {"ACL", "SETUSER", "default", "-evalsha"},
	} {
		t.Run(name, func(t *testing.T) {
			_, store, raw := serving(t)
			must(t, raw.Do(t.Context(), arguments...).Err())
			_, err := deduct(t.Context(), store)
			wantCodes(t, map[string]error{"deduct": err}, budget.Unavailable)
			if name == "too few replicas" {
				must(t, raw.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err())
			} else {
				must(t, raw.Do(t.Context(), "ACL", "SETUSER", "default", "+@all").Err())
			}
			wantUnits(t, store, 100)
		})
	}
}

// TestLargeSums: a sum of deductions stays exact where a Lua number is not.
func TestLargeSums(t *testing.T) {
	_, store, raw := serving(t)
	must(t, raw.HSet(t.Context(), balanceKey1, "deducted", budget.MaxAmount-1).Err())
	for n := range int64(4) {
		_, err := deduct(t.Context(), store)
		must(t, err)
		if sum := raw.HGet(t.Context(), balanceKey1, "deducted").Val(); sum != strconv.FormatInt(budget.MaxAmount+n, 10) {
			t.Errorf("after %d: %s", n+1, sum)
		}
	}
}

// TestHalfDone: an ACL that allows the append and not what follows. The entry is in the log, so
// the outcome is unknown, and the bucket says that it is broken from then on.
func TestHalfDone(t *testing.T) {
	for _, command := range []string{"hset", "hincrby"} {
		t.Run(command, func(t *testing.T) {
			_, store, raw := serving(t)
			if command == "hincrby" { // a sum that a Lua number cannot hold
				must(t, raw.HSet(t.Context(), balanceKey1, "deducted", budget.MaxAmount).Err())
			}
			must(t, raw.Do(t.Context(), "ACL", "SETUSER", "default", "-"+command).Err())
			_, err := deduct(t.Context(), store)
			wantCodes(t, map[string]error{"deduct": err}, budget.OutcomeUnknown)
			must(t, raw.Do(t.Context(), "ACL", "SETUSER", "default", "+@all").Err())
			log, err := store.Read(t.Context(), lane0, []bucket.Cursor{{Ref: ref1, From: 2}}, 10)
			must(t, err)
			if len(log[0].Entries) != 1 {
				t.Errorf("the log has %d entries from 2, want 1", len(log[0].Entries))
			}
			got, err := deduct(t.Context(), store)
			must(t, err)
			if command == "hset" && got.Verdict != bucket.Broken {
				t.Errorf("the next deduction answers %+v, want Broken: the log is ahead", got)
			}
		})
	}
}

// TestReplica: a server that becomes a replica refuses; back as a primary it has another
// replication id, so its memory is not taken for the one that was known.
func TestReplica(t *testing.T) {
	_, store, raw := serving(t)
	must(t, raw.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err())
	_, err := deduct(t.Context(), store)
	wantCodes(t, map[string]error{"deduct": err}, budget.Unavailable)
	_, err = deduct(t.Context(), store) // on a new connection
	wantCodes(t, map[string]error{"deduct": err}, budget.Unavailable)
	wantCodes(t, reads(t.Context(), store), budget.Unavailable)
	_, err = store.Identity(t.Context(), lane0)
	wantCodes(t, map[string]error{"identity": err}, budget.Unavailable)
	must(t, raw.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	wantCodes(t, writes(t.Context(), store), lost)
	activate(t, store, 2)
	wantUnits(t, store, 100)
}

// TestOldConnectionsClosed: the connections to a memory that no lane uses any more are closed.
func TestOldConnectionsClosed(t *testing.T) {
	_, store, raw := serving(t)
	for n := range 5 {
		must(t, raw.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err())
		must(t, raw.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
		activate(t, store, int64(n+2))
		wantUnits(t, store, 100)
	}
	for patience := 0; ; patience++ {
		list, err := raw.ClientList(t.Context()).Result()
		must(t, err)
		n := strings.Count(list, "name=budgetd-"+instance)
		if n <= 1 {
			return
		}
		if patience > 500 {
			t.Fatalf("%d connections are open:\n%s", n, list)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestScriptsFlushed: a lane that does not know its scripts is lost until it is activated, even
// when somebody else loads them again.
func TestScriptsFlushed(t *testing.T) {
	server, store, raw := serving(t)
	must(t, raw.ScriptFlush(t.Context()).Err())
	_, err := deduct(t.Context(), store)
	wantCodes(t, map[string]error{"deduct": err}, lost)
	activate(t, connect(t, config(server)), 1)
	_, err = deduct(t.Context(), store)
	wantCodes(t, map[string]error{"deduct": err}, lost)
	wantCodes(t, reads(t.Context(), store), lost)
	activate(t, store, 1)
	_, err = deduct(t.Context(), store)
	wantCodes(t, map[string]error{"deduct": err}, "")
	wantUnits(t, store, 99)
}

// TestLanesAndInstallations: lanes and installations that share a server know nothing of one
// another's memory, scripts included.
func TestLanesAndInstallations(t *testing.T) {
	server, store, raw := serving(t)
	c := config(server)
	c.InstallationID = "other"
	other := connect(t, c)
	activate(t, other, 1)
	lane1 := bucket.Lane{Instance: instance, Index: 1}
	_, err := store.Deduct(t.Context(), lane1, []bucket.Operation{storetest.Deduction(ref1, 1, "x")})
	wantCodes(t, map[string]error{"lane 1": err}, lost)
	who, err := store.Identity(t.Context(), lane1)
	must(t, err)
	must(t, store.Activate(t.Context(), lane1, who, 1))
	for name, look := range map[string]struct {
		store *redisstore.Store
		lane  bucket.Lane
	}{"lane 1": {store, lane1}, "other installation": {other, lane0}} {
		got, err := look.store.Balances(t.Context(), look.lane, []bucket.Ref{ref1})
		must(t, err)
		if got[0].Verdict != bucket.EpochGone {
			t.Errorf("%s has %+v", name, got[0])
		}
	}
	wantUnits(t, store, 100)
	// The other installation is activated again after a SCRIPT FLUSH: that must not bring back ours.
	must(t, raw.ScriptFlush(t.Context()).Err())
	activate(t, other, 1)
	must(t, store.Activate(t.Context(), lane1, who, 1))
	_, err = deduct(t.Context(), store)
	wantCodes(t, map[string]error{"deduct": err}, lost)
	_, err = store.Deduct(t.Context(), lane1, []bucket.Operation{storetest.Deduction(ref1, 1, "x")})
	wantCodes(t, map[string]error{"lane 1": err}, "")
}

// TestBusy: a server that is busy with somebody else's script did nothing.
func TestBusy(t *testing.T) {
	_, store, raw := serving(t, testservers.RedisArgs("--busy-reply-threshold", "10"))
	var loop sync.WaitGroup
	loop.Go(func() { _ = raw.Eval(t.Context(), "while true do end", nil).Err() })
	killer := raw.Conn()
	defer killer.Close()
	for {
		err := killer.Get(t.Context(), "x").Err()
		if redis.HasErrorPrefix(err, "BUSY") {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	_, err := deduct(t.Context(), store)
	wantCodes(t, map[string]error{"deduct": err}, budget.Unavailable)
	must(t, killer.ScriptKill(t.Context()).Err())
	loop.Wait()
	wantUnits(t, store, 100)
}

// TestKilledUnderLoad: while callers deduct, the server dies and comes back with everything it had
// acknowledged. What was answered OK is in the log, what was answered unavailable or lost is not.
func TestKilledUnderLoad(t *testing.T) {
	server, store, _ := serving(t, testservers.AppendOnly("always"))
	big := bucket.Ref{Bucket: 9, Epoch: 1, Activation: 1}
	fill(t, store, big, 1_000_000)
	var mu sync.Mutex
	codes := make(map[string]budget.Code) // by request id; "" for OK
	var callers sync.WaitGroup
	stop := make(chan struct{})
	for caller := range 4 {
		callers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				id := string(rune('a'+caller)) + "-" + time.Duration(n).String()
				_, err := store.Deduct(t.Context(), lane0,
					[]bucket.Operation{storetest.Deduction(big, 1, id)})
				mu.Lock()
				codes[id] = budget.CodeOf(err)
				mu.Unlock()
			}
		})
	}
	time.Sleep(100 * time.Millisecond)
	must(t, server.Kill())
	time.Sleep(20 * time.Millisecond)
	close(stop)
	callers.Wait()
	must(t, server.Restart())
	activate(t, store, 2)
	got, err := store.Read(t.Context(), lane0, []bucket.Cursor{{Ref: big}}, 1_000_000)
	must(t, err)
	if got[0].Err != nil {
		t.Fatal(got[0].Err)
	}
	counts := make(map[budget.Code]int)
	logged := make(map[string]bool)
	for _, e := range got[0].Entries {
		logged[e.Request.ID] = true
	}
	for id, code := range codes {
		counts[code]++
		switch {
		case code == "" && !logged[id]:
			t.Errorf("%s was answered OK and is not in the log", id)
		case code != "" && code != budget.OutcomeUnknown && logged[id]:
			t.Errorf("%s was answered %s and is in the log", id, code)
		}
	}
	if counts[""] == 0 || counts[budget.Unavailable] == 0 {
		t.Errorf("the answers were %v", counts)
	}
}
