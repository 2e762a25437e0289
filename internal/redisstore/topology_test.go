package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/storetest"
	"github.com/budgetd/budgetd/internal/testservers"
	"github.com/budgetd/budgetd/ledger"
)

// never is a time-out of servers on each other that a busy machine does not reach.
const never = time.Hour

// onCluster is how the tests reach a Cluster: through one of its servers, the others are found.
func onCluster(c *testservers.RedisClusterServers) redisstore.Config {
	return redisstore.Config{Name: instance, Seeds: []string{c.Nodes[5].Addr()}, Lanes: 16, InstallationID: "test",
		DialTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
}

// behindSentinels is how the tests reach a group.
func behindSentinels(s *testservers.SentinelServers) redisstore.Config {
	return redisstore.Config{Name: instance, Lanes: 2, InstallationID: "test",
		Sentinels:   redisstore.Sentinels{Addrs: s.Addrs(), MasterName: testservers.SentinelName},
		DialTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
}

// TestClusterConformance: a lane of a Cluster is a store like any other, and with the rules that operators
// are told.
func TestClusterConformance(t *testing.T) {
	rules := append([]string{"--user", "budgetd"}, documentedACL(t)...)
	c := testservers.RedisCluster(t, never, testservers.RedisArgs(rules...))
	installation := 'a'
	storetest.RunStore(t, func(t *testing.T) storetest.StoreUnderTest {
		on := onCluster(c)
		on.InstallationID, on.Username, on.Password = string(installation), "budgetd", "PASSWORD"
		installation++ // an empty store, on the same servers
		lane := bucket.Lane{Instance: instance, Index: 5}
		return storetest.StoreUnderTest{
			Store:       connect(t, on),
			Lane:        lane,
			AnotherNode: func() bucket.Instance { return connect(t, on) },
			LoseMemory: func() {
				master, err := c.MasterOf(redisstore.SlotOf(lane))
				must(t, err)
				must(t, master.Kill())
				must(t, master.Restart())
				must(t, c.AwaitServing())
			},
		}
	})
}

// TestSentinelConformance: a group is a store like any other.
func TestSentinelConformance(t *testing.T) {
	s := testservers.RedisSentinels(t, never)
	installation := 'a'
	storetest.RunStore(t, func(t *testing.T) storetest.StoreUnderTest {
		behind := behindSentinels(s)
		behind.InstallationID = string(installation)
		installation++
		return storetest.StoreUnderTest{
			Store:       connect(t, behind),
			Lane:        bucket.Lane{Instance: instance, Index: 1},
			AnotherNode: func() bucket.Instance { return connect(t, behind) },
			LoseMemory: func() {
				master, err := s.Master()
				must(t, err)
				must(t, master.Kill())
				must(t, master.Restart())
				must(t, s.AwaitFollowed(master))
			},
		}
	})
}

// onLane calls every verb on lane `at` of a store.
func onLane(ctx context.Context, s bucket.Store, at bucket.Lane, ref bucket.Ref) map[string]error {
	errs := make(map[string]error)
	_, errs["open"] = s.Open(ctx, at, []bucket.Ref{ref})
	_, errs["grant"] = s.Grant(ctx, at, []bucket.GrantOrder{{Ref: ref, Number: 1, Amount: 1}})
	_, errs["deduct"] = s.Deduct(ctx, at, []bucket.Operation{storetest.Deduction(ref, 1, "x")})
	_, errs["read"] = s.Read(ctx, at, []bucket.Cursor{{Ref: ref}}, 1)
	_, errs["balances"] = s.Balances(ctx, at, []bucket.Ref{ref, ref})
	_, errs["close"] = s.Close(ctx, at, []bucket.Ref{ref})
	errs["trim"] = s.Trim(ctx, at, []bucket.Cursor{{Ref: ref}})
	errs["forget"] = s.Forget(ctx, at, []bucket.Ref{ref})
	return errs
}

// activateLane gives a lane to the store as it finds it, and returns who that is.
func activateLane(t *testing.T, store *redisstore.Store, at bucket.Lane, activation int64) (who string) {
	t.Helper()
	who, err := store.Identity(t.Context(), at)
	must(t, err)
	must(t, store.Activate(t.Context(), at, who, activation))
	return who
}

// unitsOf fails unless the bucket of a lane has so many units left.
func unitsOf(t *testing.T, store *redisstore.Store, at bucket.Lane, want int64) {
	t.Helper()
	got, err := store.Balances(t.Context(), at, []bucket.Ref{ref1})
	must(t, err)
	if got[0].Verdict != bucket.OK || got[0].Balance != want {
		t.Errorf("lane %s has %+v, want %d units", at, got[0], want)
	}
}

// TestMigratedSlot: a lane whose slot moves to another master is not used there before it was activated,
// whether the store knows where it is by now or not; lanes that stayed are not touched (I2, I4).
func TestMigratedSlot(t *testing.T) {
	c := testservers.RedisCluster(t, never)
	store := connect(t, onCluster(c))
	moves, stays := lane0, bucket.Lane{Instance: instance, Index: 2} // 2: a quarter of the way, beside lane 0
	slot := redisstore.SlotOf(moves)
	before := activateLane(t, store, moves, 1)
	if other := activateLane(t, store, stays, 1); other != before {
		t.Fatalf("lanes 0 and 2 are not on one master: %s, %s", before, other)
	}
	fill(t, store, ref1, 100)
	_, err := store.Open(t.Context(), stays, []bucket.Ref{ref1})
	must(t, err)

	from, err := c.MasterOf(slot)
	must(t, err)
	must(t, c.BeginMigration(slot, from, c.Nodes[1]))
	got, err := deduct(t.Context(), store) // its keys are there still
	if err != nil || got.Verdict != bucket.OK {
		t.Errorf("while the slot is open: %+v, %v", got, err)
	}
	ref2 := bucket.Ref{Bucket: 2, Epoch: 1, Activation: 1}
	wantCodes(t, onLane(t.Context(), store, moves, ref2), budget.Unavailable) // ASK: no keys of it yet
	_, err = store.Identity(t.Context(), moves)
	wantCodes(t, map[string]error{"identity": err}, budget.Unavailable)

	was, _, err := c.Migrate(slot)
	must(t, err)
	if was != from {
		t.Fatalf("it moved from %s, not %s", was.Addr(), from.Addr())
	}
	wantCodes(t, onLane(t.Context(), store, moves, ref1), budget.Unavailable) // MOVED
	after, err := store.Identity(t.Context(), moves)
	must(t, err)
	if after == before {
		t.Errorf("the identity is still %s", after)
	}
	wantCodes(t, onLane(t.Context(), store, moves, ref1), budget.Unavailable)
	wantCodes(t, map[string]error{"as it was": store.Activate(t.Context(), moves, before, 2)}, lost)
	must(t, store.Activate(t.Context(), moves, after, 2))
	unitsOf(t, store, moves, 99)
	got, err = deduct(t.Context(), store)
	if err != nil || got.Verdict != bucket.WrongActivation {
		t.Errorf("an epoch of before: %+v, %v", got, err)
	}
	for verb, err := range onLane(t.Context(), store, stays, ref1) {
		if err != nil {
			t.Errorf("%s on a lane that stayed: %v", verb, err)
		}
	}
}

// answered is what callers of one bucket were told.
type answered struct {
	mu    sync.Mutex
	codes map[string]budget.Code // by request id; "" for OK
}

// callers deduct single units from the first bucket of a lane until stop is closed.
func callers(ctx context.Context, store *redisstore.Store, at bucket.Lane, n int, stop chan struct{}) (
	*answered, *sync.WaitGroup) {
	a, all := &answered{codes: map[string]budget.Code{}}, &sync.WaitGroup{}
	for caller := range n {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprint(caller, "-", i)
				got, err := store.Deduct(ctx, at, []bucket.Operation{storetest.Deduction(ref1, 1, id)})
				code := budget.CodeOf(err)
				if errors.Is(err, bucket.ErrMemoryLost) {
					code = lost
				} else if err == nil && got[0].Verdict != bucket.OK {
					code = budget.Code(fmt.Sprint("verdict ", got[0].Verdict))
				}
				a.mu.Lock()
				a.codes[id] = code
				a.mu.Unlock()
				if code != "" {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	return a, all
}

func (a *answered) count(code budget.Code) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.codes {
		if c == code {
			n++
		}
	}
	return n
}

// until waits for a condition.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within a minute: " + what)
		}
	}
}

// check compares what callers were told with a log: nothing is in it twice, and nothing that was answered
// as not done. Whether everything answered OK is in it depends on what the log's server had.
func (a *answered) check(t *testing.T, entries []ledger.Entry, whole bool) {
	t.Helper()
	logged := map[string]int{}
	for _, e := range entries {
		if e.Kind == ledger.KindDeduct {
			logged[e.Request.ID]++
		}
	}
	for id, code := range a.codes {
		n := logged[id]
		switch {
		case n > 1:
			t.Errorf("%s is in the log %d times", id, n)
		case n == 1 && code != "" && code != budget.OutcomeUnknown:
			t.Errorf("%s was answered %q and is in the log", id, code)
		case n == 0 && code == "" && whole:
			t.Errorf("%s was answered OK and is not in the log", id)
		}
	}
}

// movedUnderLoad runs callers while move takes the first lane from its server; then the lane is activated
// where it is. It returns what the callers were told and the log that is left.
func movedUnderLoad(t *testing.T, store *redisstore.Store, move func()) (*answered, []ledger.Entry) {
	t.Helper()
	before := activateLane(t, store, lane0, 1)
	fill(t, store, ref1, 1_000_000)
	stop := make(chan struct{})
	told, all := callers(t.Context(), store, lane0, 4, stop)
	until(t, "there is load", func() bool { return told.count("") > 50 })
	move()
	failed := told.count("")
	until(t, "the callers notice", func() bool { return told.count(budget.Unavailable)+told.count(lost) > 10 })
	time.Sleep(200 * time.Millisecond) // nothing more is accepted, however long they try
	served := told.count("")
	var after string
	until(t, "the lane is found", func() bool {
		who, err := store.Identity(t.Context(), lane0)
		if err != nil && !budget.Is(err, budget.Unavailable) {
			t.Fatal(err)
		}
		after = who
		return err == nil
	})
	if again := told.count(""); again != served {
		t.Errorf("%d more were accepted after the callers had been refused (%d before)", again-served, failed)
	}
	close(stop)
	all.Wait()
	if after == before {
		t.Fatalf("the identity is still %s", after)
	}
	must(t, store.Activate(t.Context(), lane0, after, 2))
	log, err := store.Read(t.Context(), lane0, []bucket.Cursor{{Ref: ref1}}, 10_000_000)
	must(t, err)
	if log[0].Err != nil {
		t.Error(log[0].Err)
	}
	counts := map[budget.Code]int{}
	for _, code := range told.codes {
		counts[code]++
	}
	t.Logf("answers: %v; %d entries are left", counts, len(log[0].Entries))
	return told, log[0].Entries
}

// TestClusterFailOverUnderLoad: a master is killed and its replica takes over; nothing is done twice, no
// answer is wrong, and lanes of other masters serve on (I2, I4).
func TestClusterFailOverUnderLoad(t *testing.T) {
	c := testservers.RedisCluster(t, 2*time.Second, testservers.RedisArgs("--cluster-require-full-coverage", "no"))
	on := onCluster(c)
	on.DialTimeout, on.ReadTimeout = time.Second, time.Second
	store := connect(t, on)
	other := bucket.Lane{Instance: instance, Index: 1} // half of the way
	activateLane(t, store, other, 1)
	_, err := store.Open(t.Context(), other, []bucket.Ref{ref1})
	must(t, err)
	slot := redisstore.SlotOf(lane0)
	told, entries := movedUnderLoad(t, store, func() {
		master, err := c.MasterOf(slot)
		must(t, err)
		must(t, master.Kill())
		got, err := store.Grant(t.Context(), other, []bucket.GrantOrder{{Ref: ref1, Number: 1, Amount: 5}})
		if err != nil || got[0].Verdict != bucket.OK {
			t.Errorf("a lane of another master: %+v, %v", got, err)
		}
		_, err = c.AwaitMoved(slot, master)
		must(t, err)
	})
	told.check(t, entries, false)
	unitsOf(t, store, other, 5)
}

// TestClusterHandOverUnderLoad: an agreed hand-over loses nothing that was answered.
func TestClusterHandOverUnderLoad(t *testing.T) {
	c := testservers.RedisCluster(t, never)
	told, entries := movedUnderLoad(t, connect(t, onCluster(c)), func() {
		_, _, err := c.FailOver(redisstore.SlotOf(lane0), "")
		must(t, err)
	})
	told.check(t, entries, true)
}

// TestTakenOver: a replica takes over without asking anybody while the master lives on. What both say is
// decided by the epoch, whoever is asked first.
func TestTakenOver(t *testing.T) {
	c := testservers.RedisCluster(t, never)
	told, entries := movedUnderLoad(t, connect(t, onCluster(c)), func() {
		_, _, err := c.FailOver(redisstore.SlotOf(lane0), "TAKEOVER")
		must(t, err)
	})
	told.check(t, entries, false)
}

// TestSentinelFailOverUnderLoad: a master is killed, and one of its replicas takes over.
func TestSentinelFailOverUnderLoad(t *testing.T) {
	s := testservers.RedisSentinels(t, 2*time.Second)
	behind := behindSentinels(s)
	behind.DialTimeout, behind.ReadTimeout = time.Second, time.Second
	told, entries := movedUnderLoad(t, connect(t, behind), func() {
		master, err := s.Master()
		must(t, err)
		must(t, master.Kill())
		_, err = s.AwaitMoved(master)
		must(t, err)
	})
	told.check(t, entries, false)
}

// TestSentinelHandOverUnderLoad: the old master lives on as a replica, and is not used.
func TestSentinelHandOverUnderLoad(t *testing.T) {
	s := testservers.RedisSentinels(t, never)
	told, entries := movedUnderLoad(t, connect(t, behindSentinels(s)), func() {
		_, _, err := s.FailOver()
		must(t, err)
	})
	told.check(t, entries, false)
}

// TestSentinelsDown: without any sentinel, the Redis that is known serves on; one that is not known cannot
// be found.
func TestSentinelsDown(t *testing.T) {
	s := testservers.RedisSentinels(t, never)
	store := connect(t, behindSentinels(s))
	who := activateLane(t, store, lane0, 1)
	fill(t, store, ref1, 100)
	for _, sentinel := range s.Sentinels {
		must(t, sentinel.Kill())
	}
	time.Sleep(redisstore.AtlasAge)
	if got, err := store.Identity(t.Context(), lane0); err != nil || got != who {
		t.Errorf("identity %s, %v, before %s", got, err, who)
	}
	_, err := deduct(t.Context(), store)
	must(t, err)
	wantUnits(t, store, 99)
	young := connect(t, behindSentinels(s))
	_, err = young.Identity(t.Context(), lane0)
	wantCodes(t, map[string]error{"identity": err, "activate": young.Activate(t.Context(), lane0, who, 1)},
		budget.Unavailable)
	_, err = young.Condition(t.Context(), lane0)
	wantCodes(t, map[string]error{"condition": err}, budget.Unavailable)
}

// TestClusterSettings: the settings are those of the master that serves the lane, and say which it is.
func TestClusterSettings(t *testing.T) {
	c := testservers.RedisCluster(t, never, testservers.AppendOnly("always"),
		testservers.RedisArgs("--cluster-require-full-coverage", "no"))
	store := connect(t, onCluster(c))
	master, err := c.MasterOf(redisstore.SlotOf(lane0))
	must(t, err)
	other := bucket.Lane{Instance: instance, Index: 1}
	check := func(at bucket.Lane, refused, findings int, want string) {
		t.Helper()
		got, err := store.Condition(t.Context(), at)
		must(t, err)
		if len(got.Findings) != findings || len(got.Refused()) != refused || !got.Persistent {
			t.Errorf("lane %s: %+v, want %d, of which %d refused", at, got, findings, refused)
		} else if findings > 0 && !strings.Contains(got.Findings[0].Problem, "instance r1 ("+master.Addr()+"): "+want) {
			t.Errorf("lane %s: %+v, want %q", at, got, want)
		}
	}
	check(lane0, 0, 0, "")
	_, err = master.Command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	must(t, err)
	check(lane0, 1, 1, "maxmemory-policy")
	check(other, 0, 0, "")
	_, err = master.Command("CONFIG", "SET", "maxmemory-policy", "noeviction", "cluster-require-full-coverage", "yes")
	must(t, err)
	check(lane0, 0, 1, "cluster-require-full-coverage")
}

// TestSentinelUser: the rules for sentinels that operators are told are enough.
func TestSentinelUser(t *testing.T) {
	text, err := os.ReadFile("../../docs/OPERATIONS.md")
	must(t, err)
	_, rules, found := strings.Cut(string(text), "A sentinel's user needs `")
	rules, _, closed := strings.Cut(rules, "`")
	if !found || !closed {
		t.Fatal("docs/OPERATIONS.md does not say what a sentinel's user needs")
	}
	s := testservers.RedisSentinels(t, never)
	behind := behindSentinels(s)
	behind.Sentinels.Username, behind.Sentinels.Password = "budgetd", "PASSWORD"
	_, err = connect(t, behind).Identity(t.Context(), lane0)
	wantCodes(t, map[string]error{"nobody knows the user": err}, budget.Unavailable)
	setUser := append([]string{"ACL", "SETUSER", "budgetd", "on", ">PASSWORD", "-@all"}, strings.Fields(rules)...)
	for _, sentinel := range s.Sentinels {
		must(t, s.Command(sentinel, setUser...))
	}
	activateLane(t, connect(t, behind), lane0, 1)
}
