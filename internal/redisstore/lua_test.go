package redisstore

import (
	"embed"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/testservers"
	"github.com/budgetd/budgetd/ledger"
)

//go:embed lua
var luaFiles embed.FS

// TestVerdictNumbers: the scripts answer the numbers of bucket.Verdict.
func TestVerdictNumbers(t *testing.T) {
	want := map[string]bucket.Verdict{"OK": bucket.OK, "ALREADY": bucket.Already,
		"INSUFFICIENT": bucket.Insufficient, "EPOCH_CLOSED": bucket.EpochClosed,
		"EPOCH_GONE": bucket.EpochGone, "WRONG_ACTIVATION": bucket.WrongActivation,
		"WENT_BACK": bucket.WentBack, "GAP": bucket.Gap, "BROKEN": bucket.Broken,
		"RECORDED": bucket.Recorded, "BEHIND": bucket.Behind, "PERIOD_OVER": bucket.PeriodOver}
	for _, line := range strings.Split(sharedLua, "\n") {
		names, values, found := strings.Cut(strings.TrimPrefix(line, "local "), " = ")
		if !found || !strings.HasPrefix(line, "local ") || strings.Contains(line, "MAX_") {
			continue
		}
		value := strings.Split(values, ", ")
		for i, name := range strings.Split(names, ", ") {
			if v, known := want[name]; known {
				if fmt.Sprint(int(v)) != value[i] {
					t.Errorf("%s is %s in the scripts, %d in Go", name, value[i], v)
				}
				delete(want, name)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("shared.lua has no %v", want)
	}
}

// TestScriptConventions: headers say everything, keys come through KEYS only, nothing raises.
func TestScriptConventions(t *testing.T) {
	files, err := luaFiles.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	shared := map[string]bool{"shared.lua": true, "records.lua": true, "limits.lua": true,
		"counters.lua": true}
	if len(files) != int(verbs)-1+len(shared) { // deduct.lua is two: with limits and without
		t.Errorf("%d files, want %d", len(files), int(verbs)-1+len(shared))
	}
	code := regexp.MustCompile(`(?m)^\s*--.*$`)
	for _, file := range files {
		data, err := luaFiles.ReadFile("lua/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if !shared[file.Name()] {
			for _, word := range []string{"-- " + file.Name(), "-- KEYS", "-- ARGV", "-- Returns",
				"-- Atomic because", "dempotent", "Keeps"} {
				if !strings.Contains(text, word) {
					t.Errorf("%s: the header lacks %q", file.Name(), word)
				}
			}
		}
		body := code.ReplaceAllString(text, "")
		for _, word := range []string{"redis.call(", "budgetd:", "error(", "tostring("} {
			if strings.Contains(strings.ReplaceAll(body, "redis.error_reply(", ""), word) {
				t.Errorf("%s uses %s", file.Name(), word)
			}
		}
	}
}

// TestScriptsDiffer: no two activations, lanes, instances, installations, replication ids or verbs
// share a script.
func TestScriptsDiffer(t *testing.T) {
	seen := make(map[string]bool)
	n := 0
	for _, installation := range []string{"a", "b"} {
		for _, lane := range []bucket.Lane{{Instance: "r"}, {Instance: "r", Index: 1}, {Instance: "s"}} {
			for _, activation := range []int64{1, 2} {
				for _, replid := range []string{"a", "b"} {
					for _, s := range scriptsOf(keyPrefix(installation, lane.String()), activation, replid) {
						seen[s.sha] = true
						n++
						if !strings.HasPrefix(s.text, fmt.Sprintf("-- activation %d ", activation)) {
							t.Errorf("a script begins with %.40q", s.text)
						}
					}
				}
			}
		}
	}
	if len(seen) != n {
		t.Errorf("%d scripts have %d names", n, len(seen))
	}
}

// TestScriptArguments: a script that is given other arguments than its header says does nothing.
func TestScriptArguments(t *testing.T) {
	server := testservers.Redis(t, testservers.RedisArgs("--enable-debug-command", "yes"))
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), Protocol: 2})
	defer c.Close()
	ctx, scripts := t.Context(), scriptsOf(keyPrefix("a", "r/0"), 1, "r")
	two, five, open := []string{"b", "l"}, []string{"b", "l", "r0", "r1", "v"}, []any{"1", "1", "1o0|1/1/1"}
	six := append(five[:5:5], "root")
	epoch := func(mode int) string {
		count := bucket.Count{Limit: "a", Changed: 1, Value: "x", Window: bucket.CountWindow{Kind: budget.WindowLifetime}}
		operations := []bucket.Operation{{Amount: 5, Request: ledger.Request{ID: "id"},
			Counting: &bucket.Counting{From: 1, Counts: []bucket.Count{count}}}}
		ref := member{Ref: bucket.Ref{Bucket: 1, Epoch: 1, Activation: 1}, counting: mode == withLimits}
		var p packing
		p.addGroup(ref, mode, []int{0}, operations)
		return string(p.text)
	}
	without, with, limits := epoch(withoutRecords), epoch(withRecords), epoch(withLimits)
	unload := func() string {
		p := packing{text: append(limitTable(nil).append(append8(nil, 0)), 1)}
		p.addCounts(&bucket.Counting{Counts: make([]bucket.Count, 1)})
		p.endCounts()
		return string(p.text)
	}()
	const modeAt, operationsEnd = 4, 9 // after the texts of epoch and activation
	if err := c.Eval(ctx, scripts[verbOpen].text, two, open...).Err(); err != nil {
		t.Fatal(err)
	}
	digest := func() any {
		t.Helper()
		got, err := c.Do(ctx, "DEBUG", "DIGEST").Result()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	before := digest()
	for _, test := range []struct {
		verb verb
		keys []string
		argv []any
	}{
		{verbOpen, nil, nil},
		{verbOpen, []string{"b"}, open},
		{verbOpen, two, open[:2]},
		{verbOpen, []string{"b", "l", "c"}, append(open, open...)},
		{verbOpen, two, append(open, 1)},
		{verbClose, two, append(open, 1)},
		{verbClose, two, nil},
		{verbGrant, two, []any{1, 1, 1, 1, 5}},
		{verbGrant, two, []any{1, 1, 1, 1, 5, "1g5|1", 2, 5, "1g5|2"}},
		{verbGrant, two, []any{1, 1, "x", 1, 5, "1g5|1"}},
		{verbDeduct, nil, nil},
		{verbDeduct, nil, []any{0}},
		{verbDeduct, two, []any{0}},
		{verbDeduct, two, []any{0, ""}},
		{verbDeduct, two, []any{0, without[:len(without)-1]}},
		{verbDeduct, two, []any{0, without + "x"}},
		{verbDeduct, two, []any{0, without[:operationsEnd]}},
		{verbDeduct, two, []any{0, without[:operationsEnd-1] + "\x02" + without[operationsEnd:]}},
		{verbDeduct, two, []any{0, without[:operationsEnd-1] + "\x00"}},
		{verbDeduct, two, []any{0, without[:modeAt] + "\x03" + without[modeAt+1:]}},
		{verbDeduct, two, []any{0, without, without}},
		{verbDeduct, two, []any{0, without, ""}},
		{verbDeduct, two, []any{"x", without}},
		{verbDeduct, two, []any{"-1", without}},
		{verbDeduct, two[:1], []any{0, without}},
		{verbDeduct, five, []any{0, without}},
		{verbDeduct, append(two, two...), []any{0, without, without[:len(without)-1]}},
		{verbDeduct, two, []any{1000, with}},
		{verbDeduct, five, []any{0, with}},
		{verbDeduct, five, []any{"-1", with}},
		{verbDeduct, five, []any{1000, with[:len(with)-1]}},
		{verbDeduct, five, []any{1000, with + "x"}},
		{verbDeduct, five[:4], []any{1000, with}},
		{verbDeduct, six, []any{1000, limits}},
		{verbCount, five, []any{1000, limits}},
		{verbCount, six, []any{0, limits}},
		{verbCount, six, []any{1000, limits[:len(limits)-1]}},
		{verbCount, six, []any{1000, limits + "x"}},
		{verbUnload, nil, nil},
		{verbUnload, []string{"root"}, nil},
		{verbUnload, []string{"root"}, []any{"x"}},
		{verbUnload, []string{"root"}, []any{unload}}, // a limit that is not in the table
		{verbVoid, nil, nil},
		{verbVoid, nil, []any{1000, "1"}},
		{verbVoid, five[:3], []any{1000, "1", 1, 1, "id"}},
		{verbVoid, two, []any{1000, "1", 1, 1, "id"}},
		{verbVoid, five, []any{1000, "1", 1, 1, "id"}},
		{verbVoid, five[:4], []any{0, "1", 1, 1, "id"}},
		{verbVoid, five[:4], []any{1000, "1", 1, 0, "id"}},
		{verbVoid, five[:4], []any{1000, "1", 1, 2, "id"}},
		{verbVoid, five[:4], []any{1000, "1", 1, 1, "id", "id"}},
		{verbTrim, nil, nil},
		{verbTrim, []string{"l"}, []any{1}},
		{verbTrim, []string{"l", "m"}, []any{1, 1, 1}},
	} {
		err := c.Eval(ctx, scripts[test.verb].text, test.keys, test.argv...).Err()
		if err == nil || !strings.HasPrefix(err.Error(), "NOTDONE ARGUMENTS ") {
			t.Errorf("script %d with %q and %q: %v", test.verb, test.keys, test.argv, err)
		}
	}
	if after := digest(); after != before {
		t.Errorf("something was written: %v, before %v", after, before)
	}
}

// TestKeys: the grammar, as operators and ACLs see it. A change needs another format number.
func TestKeys(t *testing.T) {
	prefix := keyPrefix("inst-1", bucket.Lane{Instance: "r1", Index: 3}.String())
	ref := bucket.Ref{Bucket: 12, Epoch: 4, Activation: 9}
	even, odd, void := recordKeys(prefix, ref)
	for got, want := range map[string]string{
		balanceKey(prefix, ref):    "budgetd:inst-1:{r1/3}:12:4:balance:1",
		even:                       "budgetd:inst-1:{r1/3}:12:4:r0:1",
		odd:                        "budgetd:inst-1:{r1/3}:12:4:r1:1",
		void:                       "budgetd:inst-1:{r1/3}:12:4:v:1",
		logKey(prefix, ref.Bucket): "budgetd:inst-1:{r1/3}:12:log:1",
		entryID(4, 17):             "4-17",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestGroups: every operation once, each hash's in the order given.
func TestGroups(t *testing.T) {
	a, b, c := bucket.Ref{Bucket: 1}, bucket.Ref{Bucket: 2}, bucket.Ref{Bucket: 1, Activation: 1}
	refs := []bucket.Ref{b, a, b, c, a, a}
	g := groupBy(len(refs), func(i int) refMember { return refMember(refs[i]) })
	if got := fmt.Sprint(g.refs, g.counts, g.order); got !=
		fmt.Sprint([]bucket.Ref{b, a, c, a}, []int{2, 1, 1, 2}, []int{0, 2, 1, 3, 4, 5}) {
		t.Error(got)
	}
	g = groupBy(1, func(int) refMember { return refMember(a) })
	if got := fmt.Sprint(g.refs, g.counts, g.order); got !=
		fmt.Sprint([]bucket.Ref{a}, []int{1}, []int{0}) {
		t.Error(got)
	}
}
