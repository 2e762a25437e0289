package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/storetest"
	"github.com/budgetd/budgetd/internal/testservers"
)

const (
	balanceKey1 = "budgetd:test:{r1/0}:1:1:balance:1"
	r0, r1      = "budgetd:test:{r1/0}:1:1:r0:1", "budgetd:test:{r1/0}:1:1:r1:1"
	voids       = "budgetd:test:{r1/0}:1:1:v:1"
)

func TestRecordSlices(t *testing.T) {
	storetest.RunRecords(t, func(t *testing.T) storetest.RecordsUnderTest {
		server := testservers.Redis(t, testservers.AppendOnly("always"))
		c, raw := config(server), client(t, server)
		c.RecordWindow = time.Second
		now := func() time.Time {
			at, err := raw.Time(t.Context()).Result()
			must(t, err)
			return at
		}
		return storetest.RecordsUnderTest{
			StoreUnderTest: storetest.StoreUnderTest{Store: connect(t, c), Lane: lane0},
			Window:         c.RecordWindow,
			Now:            now,
			Pass: func(until time.Time) {
				for at := now(); at.Before(until); at = now() {
					time.Sleep(until.Sub(at))
				}
			},
			Restart: func() { must(t, errors.Join(server.Kill(), server.Restart())) },
		}
	})
}

// recorded takes 1 unit from the first bucket for an id, in store mode.
func recorded(ctx context.Context, store *redisstore.Store, id string) (bucket.Reply, error) {
	got, err := store.Deduct(ctx, lane0, []bucket.Operation{storetest.Recorded(ref1, 1, id)})
	if err != nil {
		return bucket.Reply{}, err
	}
	return got[0], nil
}

func voided(ctx context.Context, store *redisstore.Store, id string) (bucket.Reply, error) {
	got, err := store.Void(ctx, lane0, []bucket.VoidOrder{{Ref: ref1, RequestID: id}})
	if err != nil {
		return bucket.Reply{}, err
	}
	return got[0], nil
}

func wantVerdict(t *testing.T, what string, got bucket.Reply, err error, want bucket.Verdict) {
	t.Helper()
	if err != nil || got.Verdict != want {
		t.Errorf("%s: %+v, %v; want verdict %d", what, got, err, want)
	}
}

// sliceKey returns the hash of a slice.
func sliceKey(slice int64) string {
	if slice%2 == 0 {
		return r0
	}
	return r1
}

// storedSlice reads the field slice of the first bucket.
func storedSlice(t *testing.T, raw *redis.Client) (slice int64, window string) {
	t.Helper()
	text := raw.HGet(t.Context(), balanceKey1, "slice").Val()
	number, window, _ := strings.Cut(text, "/")
	slice, err := strconv.ParseInt(number, 10, 64)
	must(t, err)
	return slice, window
}

// TestRecordKeys: what is in the keys, and that Forget leaves none. A record is what DESIGN 4 counts
// with: its figure of 106 bytes is for ids of 36 bytes.
func TestRecordKeys(t *testing.T) {
	_, store, raw := serving(t)
	ctx := t.Context()
	got, err := recorded(ctx, store, "a")
	wantVerdict(t, "deduct", got, err, bucket.OK)
	got, err = voided(ctx, store, "v")
	wantVerdict(t, "void", got, err, bucket.OK)
	slice, window := storedSlice(t, raw)
	now := raw.Time(ctx).Val().UnixMilli() / 600_000
	if slice > now || slice < now-1 || window != "600000" {
		t.Errorf("slice %d/%s, and by the clock %d", slice, window, now)
	}
	key := sliceKey(slice)
	all := raw.HGetAll(ctx, r0).Val()
	for id, record := range raw.HGetAll(ctx, r1).Val() {
		all[id] = record
	}
	o := storetest.Recorded(ref1, 1, "a")
	if want := "1" + o.Request.Nonce + o.Request.Fingerprint + "\x00\x00\x00\x00\x02"; len(all) != 1 ||
		all["a"] != want {
		t.Errorf("the records are %q", all)
	}
	if void := raw.HGetAll(ctx, voids).Val(); len(void) != 1 || void["v"] != "1" {
		t.Errorf("the void records are %q", void)
	}
	if ttl := raw.PTTL(ctx, key).Val(); ttl < 1100*time.Second || ttl > 1201*time.Second {
		t.Errorf("the records expire in %s, want 20 m and 1 s", ttl)
	}
	for _, forever := range []string{balanceKey1, voids, "budgetd:test:{r1/0}:1:log:1"} {
		if ttl := raw.PTTL(ctx, forever).Val(); ttl != -1 {
			t.Errorf("%s expires in %s", forever, ttl)
		}
	}
	must(t, raw.HSet(ctx, sliceKey(slice+1), "old", "1").Err())
	must(t, store.Forget(ctx, lane0, []bucket.Ref{ref1}))
	left := raw.Keys(ctx, "budgetd:test:*").Val()
	if len(left) != 1 || !strings.Contains(left[0], ":log:") {
		t.Errorf("after Forget there are %q", left)
	}
}

// TestLongSeq: positions up to the largest fit into a record.
func TestLongSeq(t *testing.T) {
	for _, seq := range []int64{1<<40 - 2, 1<<40 - 1, budget.MaxAmount - 1} {
		_, store, raw := serving(t)
		must(t, raw.HSet(t.Context(), balanceKey1, "seq", seq).Err())
		for range 2 {
			got, err := recorded(t.Context(), store, "a")
			must(t, err)
			if got.Seq != seq+1 || got.Record != nil && got.Record.Seq != seq+1 {
				t.Errorf("after %d: %+v, %+v", seq, got, got.Record)
			}
		}
	}
}

// TestRecordMemory measures what DESIGN 4 plans with.
func TestRecordMemory(t *testing.T) {
	const n = 10_000
	_, store, raw := serving(t)
	ref := bucket.Ref{Bucket: 7, Epoch: 1, Activation: 1}
	fill(t, store, ref, n)
	for from := 0; from < 2*n; from += 500 { // all twice: looking up finishes a rehash under way
		var operations []bucket.Operation
		for i := from; i < from+500; i++ {
			operations = append(operations, storetest.Recorded(ref, 1, fmt.Sprintf("%036d", i%n)))
		}
		_, err := store.Deduct(t.Context(), lane0, operations)
		must(t, err)
	}
	bytes := int64(0)
	for _, key := range []string{"r0", "r1"} {
		used, err := raw.MemoryUsage(t.Context(), "budgetd:test:{r1/0}:7:1:"+key+":1", 0).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		bytes += used
	}
	t.Logf("%d records of ids of 36 bytes take %.1f bytes each", n, float64(bytes)/n)
	if bytes < 60*n || bytes > 120*n {
		t.Errorf("%d records take %d bytes, want 60 to 120 each", n, bytes)
	}
}

// TestRecordsExpire: the records of an epoch that nobody writes to go by themselves, as a whole, and
// nothing else does.
func TestRecordsExpire(t *testing.T) {
	server, _, raw := serving(t)
	c := config(server)
	c.RecordWindow = time.Second
	store := connect(t, c)
	activate(t, store, 1)
	ctx, begin := t.Context(), time.Now()
	for i := range 50 {
		got, err := recorded(ctx, store, fmt.Sprint(i))
		wantVerdict(t, "deduct", got, err, bucket.OK)
	}
	if n := raw.Exists(ctx, r0, r1).Val(); n < 1 {
		t.Error("there are no records")
	}
	for raw.Exists(ctx, r0, r1).Val() > 0 {
		if time.Since(begin) > time.Minute {
			t.Fatal("the records are still there")
		}
		time.Sleep(20 * time.Millisecond)
	}
	if took := time.Since(begin); took < 2*time.Second {
		t.Errorf("the records went after %s, two windows are 2 s", took)
	}
	wantUnits(t, store, 50)
	got, err := recorded(ctx, store, "0")
	wantVerdict(t, "deduct again", got, err, bucket.OK)
	wantUnits(t, store, 49)
}

// TestClockWentBack: the balance was last written in a slice that is still to come.
func TestClockWentBack(t *testing.T) {
	for _, ahead := range []int64{1, 2, 3, 1000} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			_, store, raw := serving(t)
			ctx := t.Context()
			got, err := recorded(ctx, store, "a")
			wantVerdict(t, "deduct", got, err, bucket.OK)
			slice, window := storedSlice(t, raw)
			future := slice + ahead
			// As if everything so far had been done then.
			must(t, raw.HSet(ctx, balanceKey1, "slice", fmt.Sprintf("%d/%s", future, window)).Err())
			if sliceKey(future) != sliceKey(slice) {
				must(t, raw.Rename(ctx, sliceKey(slice), sliceKey(future)).Err())
			}
			must(t, raw.HSet(ctx, sliceKey(future-1), "b", "1").Err())
			for _, id := range []string{"a", "b"} {
				got, err = recorded(ctx, store, id)
				wantVerdict(t, "known "+id, got, err, bucket.Recorded)
			}
			got, err = recorded(ctx, store, "c")
			wantVerdict(t, "new", got, err, bucket.OK)
			got, err = voided(ctx, store, "d")
			wantVerdict(t, "new void", got, err, bucket.OK)
			if now, _ := storedSlice(t, raw); now != future {
				t.Errorf("the slice is %d, want %d as before", now, future)
			}
			here := raw.HKeys(ctx, sliceKey(future)).Val()
			there := raw.HKeys(ctx, sliceKey(future-1)).Val()
			void := raw.HKeys(ctx, voids).Val()
			if len(here) != 2 || len(there) != 1 || len(void) != 1 {
				t.Errorf("the slice has %q, the one before %q, void are %q", here, there, void)
			}
		})
	}
}

// TestWindowChanged: an epoch keeps the window of its first record.
func TestWindowChanged(t *testing.T) {
	server, store, raw := serving(t)
	got, err := recorded(t.Context(), store, "a")
	wantVerdict(t, "deduct", got, err, bucket.OK)
	before := raw.HGet(t.Context(), balanceKey1, "slice").Val()
	c := config(server)
	for _, window := range []time.Duration{time.Second, 24 * time.Hour} {
		c.RecordWindow = window
		other := connect(t, c)
		activate(t, other, 1)
		got, err = recorded(t.Context(), other, "a")
		wantVerdict(t, "known", got, err, bucket.Recorded)
		got, err = recorded(t.Context(), other, window.String())
		wantVerdict(t, "new", got, err, bucket.OK)
		got, err = recorded(t.Context(), store, window.String())
		wantVerdict(t, "known", got, err, bucket.Recorded)
	}
	number, length := storedSlice(t, raw)
	was, _, _ := strings.Cut(before, "/")
	first, err := strconv.ParseInt(was, 10, 64)
	must(t, err)
	if length != "600000" || number > first+1 {
		t.Errorf("the slice is %d/%s, before %s", number, length, before)
	}
}

// TestReplaced: the replication id changes under a connection that notices nothing. With a record
// the call finds out, for everything in it, and the lane is lost until it is activated.
func TestReplaced(t *testing.T) {
	for name, call := range map[string]func(context.Context, *redisstore.Store) error{
		"deduct": func(ctx context.Context, s *redisstore.Store) error {
			_, err := s.Deduct(ctx, lane0, []bucket.Operation{storetest.Deduction(ref1, 1, "x"),
				storetest.Recorded(ref1, 1, "y")})
			return err
		},
		"void": func(ctx context.Context, s *redisstore.Store) error {
			_, err := voided(ctx, s, "y")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, store, raw := serving(t)
			ctx := t.Context()
			must(t, call(ctx, store))
			before := raw.HGetAll(ctx, balanceKey1).Val()
			must(t, raw.Do(ctx, "REPLICAOF", "127.0.0.1", "1").Err())
			must(t, raw.Do(ctx, "REPLICAOF", "NO", "ONE").Err())
			wantCodes(t, map[string]error{name: call(ctx, store)}, lost)
			if after := raw.HGetAll(ctx, balanceKey1).Val(); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("the balance is %v, before %v", after, before)
			}
			wantCodes(t, writes(ctx, store), lost)
			wantCodes(t, reads(ctx, store), lost)
			activate(t, store, 2)
			got, err := recorded(ctx, store, "y")
			wantVerdict(t, "after the activation", got, err, bucket.Recorded)
		})
	}
}

// TestReplacedBeforeClose: the memory that is there by then may lack deductions, so nothing is closed in it.
func TestReplacedBeforeClose(t *testing.T) {
	_, store, raw := serving(t)
	ctx := t.Context()
	before := raw.HGetAll(ctx, balanceKey1).Val()
	must(t, raw.Do(ctx, "REPLICAOF", "127.0.0.1", "1").Err())
	must(t, raw.Do(ctx, "REPLICAOF", "NO", "ONE").Err())
	_, err := store.Close(ctx, lane0, []bucket.Ref{ref1})
	wantCodes(t, map[string]error{"close": err}, lost)
	if after := raw.HGetAll(ctx, balanceKey1).Val(); len(before) == 0 || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the balance is %v, before %v", after, before)
	}
}

// TestStaleHashes: the first record of a slice takes what is two slices old or older, whether or not
// it has expired, and nothing else.
func TestStaleHashes(t *testing.T) {
	_, store, raw := serving(t)
	ctx := t.Context()
	for behind := int64(1); behind <= 4; {
		slice := raw.Time(ctx).Val().UnixMilli() / 600_000
		must(t, raw.HSet(ctx, balanceKey1, "slice", fmt.Sprintf("%d/600000", slice-behind)).Err())
		must(t, raw.Del(ctx, r0, r1).Err())
		must(t, raw.HSet(ctx, sliceKey(slice), "own", "1").Err())
		must(t, raw.HSet(ctx, sliceKey(slice-1), "before", "1").Err())
		got, err := recorded(ctx, store, fmt.Sprint(behind, " ", slice))
		wantVerdict(t, "deduct", got, err, bucket.OK)
		if now, _ := storedSlice(t, raw); now != slice {
			continue // the clock came to the next slice meanwhile
		}
		own, before := raw.HKeys(ctx, sliceKey(slice)).Val(), raw.HKeys(ctx, sliceKey(slice-1)).Val()
		wantBefore := "[]"
		if behind == 1 {
			wantBefore = "[before]"
		}
		if len(own) != 1 || own[0] == "own" || fmt.Sprint(before) != wantBefore {
			t.Errorf("%d slices later: %q, and before %q", behind, own, before)
		}
		behind++
	}
}
