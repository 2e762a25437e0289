package redisstore_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/redisstore"
)

// prefix is the prefix of the keys of partition 0 of a store made by config.
const prefix = "budgetd:test:{r1/0}:"

// TestHostileEntry checks that a bucket with unreadable figures is broken, and that the others of
// the partition continue.
func TestHostileEntry(t *testing.T) {
	server := testservers.Redis(t)
	store, tamper := connect(t, config(server)), raw(t, server)
	s := sells(t, store, partition0)
	ctx, ref := t.Context(), bucket.Ref{Bucket: 2, Epoch: 1}
	for _, column := range []string{"balance", "taken", "epoch"} {
		for _, bad := range []string{"abc", "-1", "-0", "1.5", "nan", "inf", "9007199254740992", "1e3", ""} {
			ref.Epoch++
			_, err := store.Open(ctx, s.m, []bucket.Opening{{Ref: ref}})
			must(t, err)
			must(t, tamper.HSet(ctx, prefix+column, "2", bad).Err())
			d := bucket.StoreDeduction{RecordID: bucket.RecordID{Bucket: 2, ID: "a"}, Epoch: ref.Epoch, Amount: 1,
				NotAfterMS: 1 << 52, Terms: &bucket.Terms{}}
			out, err := store.Deduct(ctx, s.m, []bucket.StoreDeduction{d})
			if err != nil || out.Outcomes[0].Verdict != bucket.Broken {
				t.Errorf("%s %q: %+v, %v", column, bad, out.Outcomes, err)
			}
			granted, err := store.Grant(ctx, s.m, []bucket.StoreGrant{{Ref: ref, Number: 1, Amount: 1}})
			if want := map[bool]bucket.Verdict{true: bucket.Lost, false: bucket.Broken}[column == "epoch"]; err != nil ||
				granted[0].Verdict != want {
				t.Errorf("%s %q: grant %+v, %v", column, bad, granted, err)
			}
			must(t, s.sell())
		}
	}
}

// TestHostileKeys checks that a key of another type fails the calls of its partition, without any
// effect.
func TestHostileKeys(t *testing.T) {
	server := testservers.Redis(t)
	store, tamper := connect(t, config(server)), raw(t, server)
	s := sells(t, store, partition0)
	ctx := t.Context()
	must(t, s.sell())
	for _, key := range []string{"epoch", "balance", "taken", "changed", "limits"} {
		must(t, tamper.Rename(ctx, prefix+key, "kept").Err())
		must(t, tamper.RPush(ctx, prefix+key, "x").Err())
		before := tamper.HGetAll(ctx, prefix+"balance").Val()
		if err := s.sell(); !budget.Is(err, budget.Unavailable) {
			t.Errorf("%s is a list: %v", key, err)
		}
		if after := tamper.HGetAll(ctx, prefix+"balance").Val(); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%s is a list: the balances were %v and are %v", key, before, after)
		}
		must(t, tamper.Rename(ctx, "kept", prefix+key).Err())
		must(t, s.sell())
	}
	for field, bad := range map[string]string{"incarnation": "x", "slice": "abc", "since": "-1", "installation": "other"} {
		good := tamper.HGet(ctx, prefix+"marker", field).Val()
		must(t, tamper.HSet(ctx, prefix+"marker", field, bad).Err())
		if err := s.sell(); !errors.Is(err, bucket.ErrOtherMemory) {
			t.Errorf("marker %s %q: %v", field, bad, err)
		}
		must(t, tamper.HSet(ctx, prefix+"marker", field, good).Err())
		must(t, s.sell())
	}
	must(t, tamper.Del(ctx, prefix+"marker").Err())
	if err := s.sell(); !errors.Is(err, bucket.ErrOtherMemory) {
		t.Errorf("without a marker: %v", err)
	}
}

// TestHostileCounter checks that an unreadable counter breaks the deductions that count in it, and
// no others.
func TestHostileCounter(t *testing.T) {
	server := testservers.Redis(t)
	store, tamper := connect(t, config(server)), raw(t, server)
	s := sells(t, store, partition0)
	terms := &bucket.Terms{LimitsVersion: 1, Limits: []bucket.LimitTerms{{Name: "l", Changed: 1,
		Kind: budget.WindowLifetime, Max: 10, Measure: budget.MeasureCount}}}
	deduct := func(id, value string) bucket.Verdict {
		out, err := store.Deduct(t.Context(), s.m, []bucket.StoreDeduction{{RecordID: bucket.RecordID{Bucket: 1, ID: id},
			Epoch: 1, Amount: 1, NotAfterMS: 1 << 52, Terms: terms, Value: value}})
		must(t, err)
		return out.Outcomes[0].Verdict
	}
	if got := deduct("a", "u"); got != bucket.Accepted {
		t.Fatal(got)
	}
	key := fmt.Sprint(prefix, "counters:", redisstore.PageOf(1))
	good := tamper.HGet(t.Context(), key, "1:u").Val()
	nan := good[:20] + "\x00\x00\x00\x00\x00\x00\xf8\x7f"
	for i, bad := range []string{nan, good[:20] + "\x00\x00\x00\x00\x00\x00\xf0\xbf", good[:13], good + "x"} {
		must(t, tamper.HSet(t.Context(), key, "1:u", bad).Err())
		if got := deduct(fmt.Sprint("b", i), "u"); got != bucket.Broken {
			t.Errorf("counter %q: verdict %d", bad, got)
		}
		if got := deduct(fmt.Sprint("c", i), "v"); got != bucket.Accepted {
			t.Errorf("another value: verdict %d", got)
		}
	}
}

// TestScriptsByHand checks that the examples in the scripts' headers work with redis-cli, and that
// a Redis keeps one script per verb, whatever values were sent.
func TestScriptsByHand(t *testing.T) {
	cli, err := exec.LookPath("redis-cli")
	must(t, err)
	server := testservers.Redis(t)
	store := connect(t, config(server))
	s := sells(t, store, partition0)
	before := scripts(t, server)
	for range 30 {
		s.m.Incarnation++
		must(t, store.Mark(t.Context(), s.m, s.m.Incarnation))
		_ = s.sell()
	}
	if after := scripts(t, server); after != before {
		t.Errorf("%s scripts became %s", before, after)
	}
	who := strings.Fields(s.m.Identity)[1]
	host, port, _ := strings.Cut(server.Addr(), ":")
	file := filepath.Join(t.TempDir(), "script.lua")
	eval := func(text string, args ...string) string {
		t.Helper()
		must(t, os.WriteFile(file, []byte(text), 0o600))
		out, err := exec.CommandContext(t.Context(), cli,
			append([]string{"-h", host, "-p", port, "--eval", file}, args...)...).CombinedOutput()
		must(t, err)
		return strings.TrimSpace(string(out))
	}
	if got := eval(redisstore.Text("mark"), prefix+"marker", ",", "test", "99", who, "99"); got != "1" {
		t.Errorf("mark: %s", got)
	}
	if got := eval(redisstore.Text("marker"), prefix+"marker"); !strings.Contains(got, "99") {
		t.Errorf("marker: %s", got)
	}
	if got := eval(redisstore.Text("mark"), prefix+"marker", ",", "test", "98", who, "98"); !strings.Contains(got, "OTHERMEMORY") {
		t.Errorf("mark of a smaller one: %s", got)
	}
	if got := eval(redisstore.Text("mark"), prefix+"marker", ",", "test"); !strings.Contains(got, "ARGUMENTS") {
		t.Errorf("too few arguments: %s", got)
	}
}

// scripts returns how many scripts a server keeps.
func scripts(t *testing.T, server *testservers.RedisServer) string {
	info, err := server.Command("INFO", "memory")
	must(t, err)
	for line := range strings.Lines(info) {
		if n, found := strings.CutPrefix(line, "number_of_cached_scripts:"); found {
			return strings.TrimSpace(n)
		}
	}
	t.Fatal("no number of scripts")
	return ""
}
