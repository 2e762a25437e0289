package redisstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/storetest"
)

// A script's answer for one operation, and those of the commands that are not scripts.
const (
	fineScript = "*3\r\n:1\r\n:0\r\n:0\r\n"
	fineCount  = ":1\r\n"
	fineRange  = "*0\r\n"
)

var fineHash = "*8\r\n" + strings.Repeat("$-1\r\n", 8)

// verb is a call of a store with its command, and what the fake answers when nothing is wrong. The name is
// that of the method, and after a comma what is special.
type verb struct {
	name, command, fine string
	write               bool
	// commands is how many of it a call sends.
	commands int
	call     func(context.Context, bucket.Store) error
	// others are answered well: the commands of a call that has several.
	others map[string]string
	// lenient: an error reply of a word that is unknown is an answer.
	lenient bool
}

// counters1 is the key of counters of the first bucket.
const counters1 = "budgetd:test:{" + instance + "/0}:1:1:l:1"

// fineScan is the answer that the counters of the first bucket are all there is.
var fineScan = fmt.Sprintf("*2\r\n$1\r\n0\r\n*1\r\n$%d\r\n%s\r\n", len(counters1), counters1)

// fineEpoch is what deduct.lua answers of one operation that was admitted, and tells of its limits.
func fineEpoch(told ...uint64) string { return epochText(bucket.OK, told...) }

// epochText is what deduct.lua answers of one operation, without a text that it refers to.
func epochText(verdict bucket.Verdict, told ...uint64) string {
	text := append(make([]byte, 32), byte(verdict))
	for _, n := range told {
		text = binary.BigEndian.AppendUint64(text, n)
	}
	return fmt.Sprintf("*1\r\n$%d\r\n%s\r\n", len(text), text)
}

// aCount is a count of one for a value, for as long as the budget lives.
var aCount = bucket.Count{Limit: "per-user", Changed: 1, Value: "u", Add: 1, Max: 5, New: true,
	Window: bucket.CountWindow{Kind: budget.WindowLifetime}}

func leave(ctx context.Context, s bucket.Store) error {
	return s.Leave(ctx, lane0, []bucket.Ref{ref1})
}

func condition(ctx context.Context, s bucket.Store) error {
	_, err := s.(bucket.Inspected).Condition(ctx, lane0)
	return err
}

var verbs = []verb{
	{name: "open", command: "EVALSHA", fine: fineScript, write: true, commands: 1, call: func(ctx context.Context, s bucket.Store) error {
		_, err := s.Open(ctx, lane0, []bucket.Ref{ref1})
		return err
	}},
	{name: "grant", command: "EVALSHA", fine: fineScript, write: true, commands: 1, call: func(ctx context.Context, s bucket.Store) error {
		_, err := s.Grant(ctx, lane0, []bucket.GrantOrder{{Ref: ref1, Number: 1, Amount: 1}})
		return err
	}},
	{name: "deduct", command: "EVALSHA", fine: fineEpoch(), write: true, commands: 1, call: func(ctx context.Context, s bucket.Store) error {
		_, err := s.Deduct(ctx, lane0, []bucket.Operation{storetest.Deduction(ref1, 1, "x")})
		return err
	}},
	{name: "deduct, recorded", command: "EVALSHA", fine: fineEpoch(), write: true, commands: 1,
		call: func(ctx context.Context, s bucket.Store) error {
			_, err := s.Deduct(ctx, lane0, []bucket.Operation{storetest.Recorded(ref1, 1, "x")})
			return err
		}},
	{name: "deduct, limited", command: "EVALSHA", write: true, commands: 1,
		fine: fineEpoch(1),
		call: func(ctx context.Context, s bucket.Store) error {
			_, err := s.Deduct(ctx, lane0, []bucket.Operation{storetest.Limited(ref1, "x", 0, aCount)})
			return err
		}},
	{name: "unload", command: "EVALSHA", fine: fineCount, write: true, commands: 1,
		call: func(ctx context.Context, s bucket.Store) error {
			return s.(bucket.Counters).Unload(ctx, lane0, []bucket.Unloading{{Ref: ref1,
				Counting: bucket.Counting{From: 1, Counts: []bucket.Count{aCount}}}})
		}},
	{name: "leave", command: "EVALSHA", fine: fineCount, write: true, commands: 1, call: leave,
		others: map[string]string{"SCAN": fineScan, "UNLINK": fineCount}},
	{name: "leave, looking for counters", command: "SCAN", fine: fineScan, write: true, commands: 1, call: leave,
		others: map[string]string{"EVALSHA": fineCount, "UNLINK": fineCount}},
	{name: "leave, with counters", command: "UNLINK", fine: fineCount, write: true, commands: 1, call: leave,
		others: map[string]string{"EVALSHA": fineCount, "SCAN": fineScan}},
	{name: "time", command: "TIME", fine: "*2\r\n$1\r\n1\r\n$1\r\n0\r\n", commands: 1,
		call: func(ctx context.Context, s bucket.Store) error {
			_, err := s.(bucket.Memory).Time(ctx, lane0)
			return err
		}},
	{name: "condition", command: "INFO", fine: "$0\r\n\r\n", commands: 1, call: condition,
		others: map[string]string{"CONFIG": fineRange}},
	{name: "condition, a setting", command: "CONFIG", fine: fineRange, commands: 4, call: condition, lenient: true,
		others: map[string]string{"INFO": "$0\r\n\r\n"}},
	{name: "close", command: "EVALSHA", fine: fineScript, write: true, commands: 1, call: func(ctx context.Context, s bucket.Store) error {
		_, err := s.Close(ctx, lane0, []bucket.Ref{ref1})
		return err
	}},
	{name: "trim", command: "EVALSHA", fine: fineCount, write: true, commands: 1, call: func(ctx context.Context, s bucket.Store) error {
		return s.Trim(ctx, lane0, []bucket.Cursor{{Ref: ref1}})
	}},
	{name: "forget", command: "UNLINK", fine: fineCount, write: true, commands: 1, call: func(ctx context.Context, s bucket.Store) error {
		return s.Forget(ctx, lane0, []bucket.Ref{ref1})
	}},
	{name: "void", command: "EVALSHA", fine: "*4\r\n:1\r\n:0\r\n:0\r\n:0\r\n", write: true, commands: 1, call: func(ctx context.Context, s bucket.Store) error {
		_, err := s.(bucket.Records).Void(ctx, lane0, []bucket.VoidOrder{{Ref: ref1, RequestID: "x"}})
		return err
	}},
	{name: "discard", command: "EVALSHA", fine: "*1\r\n:1\r\n", write: true, commands: 1, call: func(ctx context.Context, s bucket.Store) error {
		_, err := s.Discard(ctx, lane0, []bucket.LogEnd{{Ref: ref1, Last: "1-1"}})
		return err
	}},
	{name: "read", command: "XRANGE", fine: fineRange, commands: 6, call: func(ctx context.Context, s bucket.Store) error {
		_, err := s.Read(ctx, lane0, []bucket.Cursor{{Ref: ref1}, {Ref: ref1}, {Ref: ref1}}, 1)
		return err
	}},
	{name: "balances", command: "HMGET", fine: fineHash, commands: 3, call: func(ctx context.Context, s bucket.Store) error {
		_, err := s.Balances(ctx, lane0, []bucket.Ref{ref1, ref1, ref1})
		return err
	}},
}

// failing are the classes of errors: what a write is answered; a read is unavailable instead of
// unknown.
var failing = []struct {
	answer string
	code   budget.Code
}{
	{"-NOSCRIPT No matching script.\r\n", lost},
	{"-OOM command not allowed\r\n", budget.Unavailable},
	{"-LOADING Redis is loading\r\n", budget.Unavailable},
	{"-MISCONF Redis is configured to save\r\n", budget.Unavailable},
	{"-BUSY Redis is busy running a script.\r\n", budget.Unavailable},
	{"-READONLY You can't write\r\n", budget.Unavailable},
	{"-NOTDONE OOM command not allowed\r\n", budget.Unavailable},
	{"-HALFDONE OOM command not allowed\r\n", budget.OutcomeUnknown},
	{"-ERR something\r\n", budget.OutcomeUnknown},
	{hangUp, budget.OutcomeUnknown},
	{"-silence", budget.OutcomeUnknown},
	{"*3\r\n:1\r\n:0\r\n-half an answer", budget.OutcomeUnknown}, // and then nothing
}

// unknownWords begin error replies that a Redis has not of itself, or for anything.
var unknownWords = []string{"-NOTDONE", "-HALFDONE", "-ERR"}

// failAt answers well until the nth command of the verb, and with the error that once.
func failAt(v verb, n int, answer string) func([]string) string {
	count := 0
	return func(command []string) string {
		if !strings.EqualFold(command[0], v.command) {
			return v.others[strings.ToUpper(command[0])]
		}
		if count++; count == n {
			return answer
		}
		return v.fine
	}
}

// TestNthCommandFails lets the nth command of every verb fail in every way: as the first one on a
// connection, after calls that went well, and within a round trip of several. That call is of the
// right class, those before it went well, and those after it do, unless the memory is lost.
func TestNthCommandFails(t *testing.T) {
	var cases atomic.Int64
	t.Run("verbs", func(t *testing.T) {
		for _, v := range verbs {
			for _, f := range failing {
				if f.code == lost && !v.write {
					continue // only scripts can be unknown
				}
				t.Run(fmt.Sprintf("%s %q", v.name, f.answer), func(t *testing.T) {
					t.Parallel()
					cases.Add(v.failEach(t, f.answer, f.code))
				})
			}
		}
	})
	t.Logf("%d cases", cases.Load())
	const least = 880
	if cases.Load() < least {
		t.Errorf("%d cases, at least %d are expected", cases.Load(), least)
	}
}

// TestEveryVerbIsListed: every method of a store is among the verbs, or has a test of its own here.
func TestEveryVerbIsListed(t *testing.T) {
	elsewhere := map[string]string{"Identity": "TestNthCommandOfActivateFails",
		"Activate": "TestNthCommandOfActivateFails", "Disconnect": "sends nothing"}
	listed := map[string]bool{}
	for _, v := range verbs {
		method, _, _ := strings.Cut(v.name, ",")
		listed[strings.ToUpper(method[:1])+method[1:]] = true
	}
	store := reflect.TypeFor[*redisstore.Store]()
	methods := map[string]bool{}
	for _, of := range []reflect.Type{store, reflect.TypeFor[bucket.Store](), reflect.TypeFor[bucket.Memory](),
		reflect.TypeFor[bucket.Records](), reflect.TypeFor[bucket.Counters](), reflect.TypeFor[bucket.Inspected]()} {
		for i := range of.NumMethod() {
			name := of.Method(i).Name
			methods[name] = true
			if !listed[name] && elsewhere[name] == "" {
				t.Errorf("%s is a method of %s and not among the verbs", name, of)
			}
		}
	}
	for name := range listed {
		if !methods[name] || elsewhere[name] != "" {
			t.Errorf("%s is no method, or listed twice", name)
		}
	}
}

// failEach lets each command of a few calls fail.
func (v verb) failEach(t *testing.T, answer string, want budget.Code) (cases int64) {
	const calls = 3
	if want == budget.OutcomeUnknown && !v.write {
		want = budget.Unavailable
	}
	if word, _, _ := strings.Cut(answer, " "); v.lenient && slices.Contains(unknownWords, word) {
		want = ""
	}
	afterwards := budget.Code("")
	if want == lost {
		afterwards = lost
	}
	for n := 1; n <= v.commands*calls; n++ {
		fake := newFakeRedis(t)
		store := patientStore(t, fake, answer)
		fake.set(func(x *fakeRedis) { x.next = failAt(v, n, answer) })
		cases++
		hit := (n - 1) / v.commands
		for i := range calls + 1 {
			err := v.call(t.Context(), store)
			switch {
			case i < hit:
				wantCodes(t, map[string]error{fmt.Sprint("before command ", n): err}, "")
			case i == hit:
				wantCodes(t, map[string]error{fmt.Sprint("command ", n): err}, want)
			default:
				wantCodes(t, map[string]error{fmt.Sprint("after command ", n): err}, afterwards)
			}
		}
	}
	return cases
}

// patientStore waits long for an answer, unless there will be none.
func patientStore(t *testing.T, fake *fakeRedis, answer string) *redisstore.Store {
	t.Helper()
	patience := time.Minute
	if !strings.HasSuffix(answer, "\r\n") && answer != hangUp {
		patience = 500 * time.Millisecond
	}
	store := connect(t, redisstore.Config{Name: instance, Addr: fake.addr(), Lanes: 1,
		InstallationID: "test", ReadTimeout: patience, DialTimeout: time.Minute})
	activate(t, store, 1)
	return store
}

// TestNthCommandOfActivateFails: whatever command of Identity and Activate gets an error, nothing is
// taken for verified: the calls fail, and the lane stays as it was and serves.
func TestNthCommandOfActivateFails(t *testing.T) {
	cases := 0
	for _, f := range failing {
		t.Run(fmt.Sprintf("%q", f.answer), func(t *testing.T) {
			for n := 1; ; n++ {
				fake := newFakeRedis(t)
				store := patientStore(t, fake, f.answer)
				count, hit, setUp := 0, false, false
				fake.set(func(x *fakeRedis) {
					x.answer = fineEpoch()
					x.next = func(command []string) string {
						switch name := strings.ToUpper(command[0]); name {
						case "INFO", "SCRIPT", "HELLO", "CLIENT":
							if count++; count == n {
								hit, setUp = true, name == "HELLO" || name == "CLIENT"
								return f.answer
							}
						}
						return ""
					}
				})
				who, err := store.Identity(t.Context(), lane0)
				if err == nil {
					err = store.Activate(t.Context(), lane0, who, 2)
				}
				fake.set(func(x *fakeRedis) { x.next = nil })
				if !hit {
					if err != nil {
						t.Errorf("undisturbed: %v", err)
					}
					break
				}
				cases++
				// The set-up of a connection (HELLO, CLIENT) may be refused without harm.
				if err != nil && !errors.Is(err, bucket.ErrMemoryLost) && !budget.Is(err, budget.Unavailable) {
					t.Errorf("command %d: %v", n, err)
				}
				activated := err == nil
				if activated && !setUp {
					t.Errorf("command %d failed, and the lane was activated", n)
				}
				_, err = store.Deduct(t.Context(), lane0, []bucket.Operation{storetest.Deduction(ref1, 1, "x")})
				if err != nil {
					t.Errorf("command %d, activated %v: the lane does not serve: %v", n, activated, err)
				}
			}
		})
	}
	t.Logf("%d cases", cases)
	const least = 80
	if cases < least {
		t.Errorf("%d cases, at least %d are expected", cases, least)
	}
}
