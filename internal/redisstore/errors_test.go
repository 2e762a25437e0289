package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/storetest"
)

var ref1 = bucket.Ref{Bucket: 1, Epoch: 1, Activation: 1}

// writes are the calls that change something, reads those that do not.
func writes(ctx context.Context, s bucket.Store) map[string]error {
	refs := []bucket.Ref{ref1}
	errs := make(map[string]error)
	_, errs["open"] = s.Open(ctx, lane0, refs)
	_, errs["grant"] = s.Grant(ctx, lane0, []bucket.GrantOrder{{Ref: ref1, Number: 1, Amount: 1}})
	_, errs["deduct"] = s.Deduct(ctx, lane0, []bucket.Operation{storetest.Deduction(ref1, 1, "x")})
	_, errs["close"] = s.Close(ctx, lane0, refs)
	errs["trim"] = s.Trim(ctx, lane0, []bucket.Cursor{{Ref: ref1}})
	errs["forget"] = s.Forget(ctx, lane0, refs)
	return errs
}

func reads(ctx context.Context, s bucket.Store) map[string]error {
	errs := make(map[string]error)
	_, errs["read"] = s.Read(ctx, lane0, []bucket.Cursor{{Ref: ref1}, {Ref: ref1}}, 1)
	_, errs["balances"] = s.Balances(ctx, lane0, []bucket.Ref{ref1, ref1})
	return errs
}

// lost stands for ErrMemoryLost in tables of codes.
const lost = budget.Code("memory lost")

func wantCodes(t *testing.T, errs map[string]error, want budget.Code) {
	t.Helper()
	for verb, err := range errs {
		if errors.Is(err, bucket.ErrMemoryLost) {
			if want != lost {
				t.Errorf("%s: memory lost, want %s", verb, want)
			}
		} else if got := budget.CodeOf(err); got != want {
			t.Errorf("%s: code %q, want %q: %v", verb, got, want, err)
		}
	}
}

func fakeStore(t *testing.T, f *fakeRedis) *redisstore.Store { return waitingStore(t, f, time.Minute) }

// silent is how long a store waits where no answer comes.
const silent = 500 * time.Millisecond

// waitingStore waits so long for an answer; where it has to come, also on a busy machine, as long as it takes.
func waitingStore(t *testing.T, f *fakeRedis, patience time.Duration) *redisstore.Store {
	t.Helper()
	store := connect(t, redisstore.Config{Name: instance, Addr: f.addr(), Lanes: 1,
		InstallationID: "test", ReadTimeout: patience})
	activate(t, store, 1)
	return store
}

// TestErrorReplies: which replies say for certain that nothing was done.
func TestErrorReplies(t *testing.T) {
	tests := []struct {
		answer      string
		write, read budget.Code
	}{
		{"-LOADING Redis is loading the dataset in memory\r\n", budget.Unavailable, budget.Unavailable},
		{"-BUSY Redis is busy running a script.\r\n", budget.Unavailable, budget.Unavailable},
		{"-OOM command not allowed\r\n", budget.Unavailable, budget.Unavailable},
		{"-MISCONF Redis is configured to save\r\n", budget.Unavailable, budget.Unavailable},
		{"-READONLY You can't write\r\n", budget.Unavailable, budget.Unavailable},
		{"-NOAUTH Authentication required.\r\n", budget.Unavailable, budget.Unavailable},
		{"-NOPERM this user has no permissions\r\n", budget.Unavailable, budget.Unavailable},
		{"-MASTERDOWN Link with MASTER is down\r\n", budget.Unavailable, budget.Unavailable},
		{"-CLUSTERDOWN The cluster is down\r\n", budget.Unavailable, budget.Unavailable},
		{"-MOVED 1 127.0.0.1:1\r\n", budget.Unavailable, budget.Unavailable},
		{"-ASK 1 127.0.0.1:1\r\n", budget.Unavailable, budget.Unavailable},
		{"-TRYAGAIN Multiple keys\r\n", budget.Unavailable, budget.Unavailable},
		{"-CROSSSLOT Keys in request\r\n", budget.Unavailable, budget.Unavailable},
		{"-NOREPLICAS Not enough good replicas\r\n", budget.Unavailable, budget.Unavailable},
		{"-NOTDONE OOM command not allowed\r\n", budget.Unavailable, budget.Unavailable},
		{"-NOTDONE READONLY You can't write\r\n", budget.Unavailable, budget.Unavailable},
		{"-NOTDONE SOMETHING else\r\n", budget.Unavailable, budget.Unavailable},
		{"-NOTDONE\r\n", budget.Unavailable, budget.Unavailable},
		{"-NOSCRIPT No matching script.\r\n", lost, lost},
		{"-HALFDONE NOPERM this user\r\n", budget.OutcomeUnknown, budget.Unavailable},
		{"-ERR Error running script\r\n", budget.OutcomeUnknown, budget.Unavailable},
		{"-ERR unknown command\r\n", budget.OutcomeUnknown, budget.Unavailable},
		{"-LOADINGX no word we know\r\n", budget.OutcomeUnknown, budget.Unavailable},
		{"-\r\n", budget.OutcomeUnknown, budget.Unavailable},
		{"", budget.OutcomeUnknown, budget.Unavailable}, // closed
		{"-silence", budget.OutcomeUnknown, budget.Unavailable},
		{"!nonsense\r\n", budget.OutcomeUnknown, budget.Unavailable},
	}
	for _, test := range tests {
		t.Run(test.answer, func(t *testing.T) {
			f := newFakeRedis(t)
			f.set(func(f *fakeRedis) { f.answer = test.answer })
			patience := time.Minute
			if test.answer == "-silence" {
				patience = silent
			}
			wantCodes(t, writes(t.Context(), waitingStore(t, f, patience)), test.write)
			wantCodes(t, reads(t.Context(), waitingStore(t, f, patience)), test.read)
			if f.calls() == 0 {
				t.Error("nothing was ever sent")
			}
		})
	}
}

// TestStrangeReplies: a script ran, but what it says is not what our scripts say.
func TestStrangeReplies(t *testing.T) {
	for _, answer := range []string{"+OK\r\n", ":1\r\n", "*0\r\n", "*-1\r\n", "*1\r\n:1\r\n",
		"*3\r\n:1\r\n:1\r\n$1\r\n1\r\n", "*3\r\n:0\r\n:1\r\n:1\r\n", "*3\r\n:10\r\n:1\r\n:1\r\n",
		"*3\r\n:9\r\n:1\r\n:1\r\n", "*3\r\n:1\r\n$1\r\nx\r\n:1\r\n", "*3\r\n:257\r\n:1\r\n:1\r\n",
		"*6\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n"} {
		f := newFakeRedis(t)
		f.set(func(f *fakeRedis) { f.answer = answer })
		store := fakeStore(t, f)
		_, err := store.Grant(t.Context(), lane0, []bucket.GrantOrder{{Ref: ref1, Number: 1, Amount: 1}})
		if !budget.Is(err, budget.OutcomeUnknown) {
			t.Errorf("answer %q: error %v, want %s", answer, err, budget.OutcomeUnknown)
		}
	}
}

// TestStrangeDeductReplies: what deduct.lua can answer of one operation without a record, with one, and that counts,
// and what it cannot.
func TestStrangeDeductReplies(t *testing.T) {
	const none, cut = ^uint64(0), "*1\r\n$32\r\n" // -1; a text without a verdict
	and := func(answer, element string) string { return "*2" + answer[2:] + element }
	plain, record, count := storetest.Deduction(ref1, 1, "x"), storetest.Recorded(ref1, 1, "x"),
		storetest.Limited(ref1, "x", 0, aCount)
	hit := aCount
	hit.Window = bucket.CountWindow{Kind: budget.WindowFirstHit, Length: 5}
	hits := storetest.Limited(ref1, "x", 0, hit)
	all := []bucket.Operation{plain, record, count, hits}
	f := newFakeRedis(t)
	store := fakeStore(t, f)
	for _, test := range []struct {
		answer string
		fine   []bucket.Operation // the others find it strange
	}{
		{"+OK\r\n", nil},
		{":1\r\n", nil},
		{"*0\r\n", nil},
		{"*-1\r\n", nil},
		{"*1\r\n:1\r\n", nil},
		{"*3\r\n:1\r\n:1\r\n:1\r\n", nil},
		{cut + strings.Repeat("x", 32) + "\r\n", nil},
		{epochText(0), nil},
		{epochText(bucket.OK), all[:2]},
		{epochText(bucket.OK, 1), all[2:3]},
		{epochText(bucket.OK, 1, 5), all[3:]},
		{epochText(bucket.OK, 1, 5, 5), nil},
		{epochText(bucket.Insufficient), all},
		{epochText(bucket.EpochGone), all},
		{epochText(bucket.Broken), nil},
		{and(epochText(bucket.Broken), "$1\r\nx\r\n"), all},
		{and(epochText(bucket.Broken), ":1\r\n"), nil},
		{and(epochText(bucket.OK), "$1\r\nx\r\n"), nil},
		{epochText(bucket.Recorded), nil},
		{and(epochText(bucket.Recorded), "$1\r\n1\r\n"), all[1:]},
		{and(epochText(bucket.Recorded), "$0\r\n\r\n"), all[1:]}, // broken
		{and(epochText(bucket.Recorded), ":1\r\n"), nil},
		{epochText(bucket.Behind), all[1:]},
		{epochText(bucket.PeriodOver), all[1:]},
		{epochText(bucket.Outdated), all[1:]},
		{epochText(bucket.Unloaded), nil},
		{epochText(bucket.Unloaded, none), all[2:]},
		{epochText(bucket.OverLimit, 0, 1), all[2:3]},
		{epochText(bucket.OverLimit, 0, 1, 5), all[3:]},
		{epochText(bucket.OverLimit, 1, 1), nil},
		{epochText(bucket.OverLimit, none, 1), nil},
		{epochText(bucket.OverLimit + 1), nil},
	} {
		for i, o := range all {
			f.set(func(f *fakeRedis) { f.answer = test.answer })
			_, err := store.Deduct(t.Context(), lane0, []bucket.Operation{o})
			fine := slices.ContainsFunc(test.fine, func(p bucket.Operation) bool {
				return p.Record == o.Record && p.Counting == o.Counting
			})
			if fine != (err == nil) || err != nil && !budget.Is(err, budget.OutcomeUnknown) {
				t.Errorf("answer %q of operation %d: error %v", test.answer, i, err)
			}
		}
	}
}

// TestNeverSent: an error before the first byte of a command is certain.
func TestNeverSent(t *testing.T) {
	start := func(t *testing.T, patience time.Duration) (*fakeRedis, *redisstore.Store) {
		f := newFakeRedis(t)
		store := waitingStore(t, f, patience)
		f.set(func(f *fakeRedis) { f.answer = "+OK\r\n" })
		return f, store
	}
	everything := func(t *testing.T, f *fakeRedis, s *redisstore.Store, ctx context.Context) {
		t.Helper()
		wantCodes(t, writes(ctx, s), budget.Unavailable)
		wantCodes(t, reads(ctx, s), budget.Unavailable)
		if f.calls() != 0 {
			t.Errorf("%d commands arrived", f.calls())
		}
	}
	t.Run("refused", func(t *testing.T) {
		f, s := start(t, time.Minute)
		_ = f.listener.Close()
		f.cut()
		everything(t, f, s, t.Context())
	})
	t.Run("closed at once", func(t *testing.T) {
		f, s := start(t, time.Minute)
		f.set(func(f *fakeRedis) { f.refuse = true })
		f.cut()
		everything(t, f, s, t.Context())
	})
	for name, hello := range map[string]string{
		"wrong password":   "-WRONGPASS invalid username-password pair\r\n",
		"no password":      "-NOAUTH Authentication required.\r\n",
		"too many clients": "-ERR max number of clients reached\r\n",
		"silent":           "-silence",
		"nonsense":         "!\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			patience := time.Minute
			if hello == "-silence" {
				patience = silent
			}
			f, s := start(t, patience)
			f.set(func(f *fakeRedis) { f.hello = hello })
			f.cut()
			everything(t, f, s, t.Context())
		})
	}
	t.Run("replica", func(t *testing.T) {
		f, s := start(t, time.Minute)
		f.set(func(f *fakeRedis) { f.role = "slave" })
		f.cut()
		everything(t, f, s, t.Context())
		_, err := s.Identity(t.Context(), lane0)
		wantCodes(t, map[string]error{"identity": err, "activate": s.Activate(t.Context(), lane0,
			"run1 r slave", 2)}, budget.Unavailable)
	})
	t.Run("INFO without a run id", func(t *testing.T) {
		f, s := start(t, time.Minute)
		f.set(func(f *fakeRedis) { f.runID = "" })
		f.cut()
		everything(t, f, s, t.Context())
	})
	t.Run("cancelled", func(t *testing.T) {
		f, s := start(t, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		everything(t, f, s, ctx)
	})
	t.Run("disconnected", func(t *testing.T) {
		f, s := start(t, time.Minute)
		for range 2 {
			if err := s.Disconnect(); err != nil {
				t.Error(err)
			}
		}
		everything(t, f, s, t.Context())
		_, err := s.Identity(t.Context(), lane0)
		wantCodes(t, map[string]error{"identity": err,
			"activate": s.Activate(t.Context(), lane0, "run1 r master", 2)}, budget.Unavailable)
	})
}

// TestPoolExhausted: a call that waits in vain for a connection was never sent.
func TestPoolExhausted(t *testing.T) {
	f := newFakeRedis(t)
	f.set(func(f *fakeRedis) { f.answer = "-silence" })
	store := connect(t, redisstore.Config{Name: instance, Addr: f.addr(), Lanes: 1, PoolSize: 1,
		InstallationID: "test", ReadTimeout: 2 * time.Second, PoolTimeout: 50 * time.Millisecond})
	activate(t, store, 1)
	first := make(chan error)
	go func() {
		_, err := store.Open(t.Context(), lane0, []bucket.Ref{ref1})
		first <- err
	}()
	for f.calls() == 0 {
		time.Sleep(time.Millisecond)
	}
	wantCodes(t, writes(t.Context(), store), budget.Unavailable)
	if f.calls() != 1 {
		t.Errorf("%d commands arrived, want 1", f.calls())
	}
	wantCodes(t, map[string]error{"the first": <-first}, budget.OutcomeUnknown)
}

// TestDeadline: a deadline that passes while a call is out leaves its outcome unknown.
func TestDeadline(t *testing.T) {
	f := newFakeRedis(t)
	f.set(func(f *fakeRedis) { f.answer = "-silence" })
	store := connect(t, redisstore.Config{Name: instance, Addr: f.addr(), Lanes: 1,
		InstallationID: "test", ReadTimeout: time.Minute})
	activate(t, store, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err := store.Open(ctx, lane0, []bucket.Ref{ref1})
	wantCodes(t, map[string]error{"open": err}, budget.OutcomeUnknown)
	if f.calls() != 1 {
		t.Errorf("%d commands arrived, want 1: retries are off", f.calls())
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("the deadline of 100 ms held after %s", took)
	}
}

// TestOtherIdentity: what a lane was is met again by every new connection, or the lane is lost
// until it is activated.
func TestOtherIdentity(t *testing.T) {
	f := newFakeRedis(t)
	store := fakeStore(t, f)
	f.set(func(f *fakeRedis) { f.answer, f.runID = "*3\r\n:1\r\n:0\r\n:0\r\n", "run2" })
	f.cut() // the scripts are still known, as if another node had loaded them
	wantCodes(t, writes(t.Context(), store), lost)
	f.set(func(f *fakeRedis) { f.runID = "run1" }) // back, but who knows what happened
	wantCodes(t, writes(t.Context(), store), lost)
	wantCodes(t, reads(t.Context(), store), lost)
	if f.calls() != 0 {
		t.Errorf("%d commands arrived", f.calls())
	}
	activate(t, store, 2)
	_, err := store.Open(t.Context(), lane0, []bucket.Ref{ref1})
	wantCodes(t, map[string]error{"open": err}, "")
}

// TestActivateForAnother: scripts are not loaded for a server that is not the one meant, and one
// that changes meanwhile does not count as activated.
func TestActivateForAnother(t *testing.T) {
	f := newFakeRedis(t)
	store := fakeStore(t, f)
	loaded := f.loaded
	err := store.Activate(t.Context(), lane0, "run0 r master", 2)
	wantCodes(t, map[string]error{"activate": err}, lost)
	if f.loaded != loaded {
		t.Error("scripts were loaded for another server")
	}
	f.set(func(f *fakeRedis) { f.becomes = "run2" })
	err = store.Activate(t.Context(), lane0, "run1 r master", 2)
	wantCodes(t, map[string]error{"activate": err}, lost)
}

// TestMovedConnections: after READONLY, MOVED and the like every connection is made anew, so that
// one that leads to another server by now is noticed.
func TestMovedConnections(t *testing.T) {
	for _, answer := range []string{"-READONLY replica\r\n", "-MOVED 1 127.0.0.1:1\r\n",
		"-NOTDONE READONLY replica\r\n", "-MASTERDOWN replica\r\n"} {
		for name, calls := range map[string]func(context.Context, bucket.Store) map[string]error{
			"writes": writes, "reads": reads} {
			f := newFakeRedis(t)
			store := fakeStore(t, f)
			f.set(func(f *fakeRedis) { f.answer = answer })
			// Two connections in the pool, of which one gets the answer.
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() { _, _ = store.Open(t.Context(), lane0, []bucket.Ref{ref1}) })
			}
			both.Wait()
			wantCodes(t, calls(t.Context(), store), budget.Unavailable)
			f.set(func(f *fakeRedis) { f.runID = "run2" })
			sent := f.calls()
			wantCodes(t, calls(t.Context(), store), lost)
			if f.calls() != sent {
				t.Errorf("%q, %s: a connection from before was used", answer, name)
			}
		}
	}
}

// TestConfig: every fault at once, by field.
func TestConfig(t *testing.T) {
	_, err := redisstore.New(redisstore.Config{Name: "A}", DB: -1, PoolSize: -1,
		InstallationID: "a:b", ReadTimeout: -1, RecordWindow: time.Millisecond})
	var e *budget.Error
	if !errors.As(err, &e) || e.Code != budget.Invalid {
		t.Fatalf("error %v", err)
	}
	fields := make(map[string]bool)
	for _, f := range e.Fields {
		fields[f.Field] = true
	}
	for _, field := range []string{"name", "addr", "db", "pool_size", "lanes", "installation_id",
		"read_timeout", "record_window"} {
		if !fields[field] {
			t.Errorf("%s is not reported: %v", field, e.Fields)
		}
	}
	for _, id := range []string{"", "a b", "{", "}", "\x00", "0123456789012345678901234567890123"} {
		_, err := redisstore.New(redisstore.Config{Name: "a", Addr: "x:1", Lanes: 1, InstallationID: id})
		if !budget.Is(err, budget.Invalid) {
			t.Errorf("installation id %q: %v", id, err)
		}
	}
}
