package sqlstore

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/testservers"
	"github.com/budgetd/budgetd/ledger"
)

// scenario calls every method and notes what it answered.
type scenario struct {
	*testing.T
	db    *DB
	rows  *Rows
	ahead atomic.Int64            // of this machine's clock, ns
	logs  map[bucket.Ref]*testLog // of open
	topic string
	notes []string
	// each, when set, is called after every method.
	each func()
}

// newScenario opens an empty database for a scenario that begins at a certain noon, by SQL's clock.
func newScenario(t *testing.T, config Config) *scenario {
	t.Helper()
	s := &scenario{T: t, logs: map[bucket.Ref]*testLog{}}
	config.Clock = func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }
	config.ClockTolerance = 100 * 365 * day
	s.db = mustOpen(t, config)
	s.rows = s.db.Rows("sql", 1)
	s.later(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC).Sub(s.db.Now()))
	return s
}

// later lets time pass.
func (s *scenario) later(d time.Duration) { s.ahead.Add(int64(d)) }

const day = 24 * time.Hour

// topics are the parts of a scenario, each with budgets of its own.
var topics = []struct {
	name string
	run  func(*scenario)
}{
	{"a life", (*scenario).life},
	{"holds", (*scenario).holds},
	{"limits", (*scenario).limits},
	{"counted ahead", (*scenario).countedAhead},
	{"periods", (*scenario).periods},
	{"resize and move", (*scenario).resizeAndMove},
	{"store mode", (*scenario).storeMode},
	{"lane down", (*scenario).laneDown},
	{"feed and archive", (*scenario).feedAndArchive},
	{"samples", (*scenario).samples},
	{"audit", (*scenario).audit},
	{"rows", (*scenario).rowsOnly},
}

// run goes through all topics, in one database.
func (s *scenario) run() []string {
	for _, topic := range topics {
		s.topic = topic.name
		topic.run(s)
	}
	return s.notes
}

var (
	instants = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? \+0000 UTC`)
	pointers = regexp.MustCompile(`0x[0-9a-f]+`) // within an answer
)

// note keeps an answer; err must be nil.
func (s *scenario) note(what string, answer any, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s, %s: %v", s.topic, what, err)
	}
	text := fmt.Sprintf("%s, %s: %+v", s.topic, what, answer)
	if list, ok := answer.([]any); ok {
		text = s.topic + ", " + what + ":"
		for _, a := range list {
			if v := reflect.ValueOf(a); v.Kind() == reflect.Pointer && !v.IsNil() {
				a = v.Elem().Interface()
			}
			text += fmt.Sprintf(" %+v", a)
		}
	}
	text = pointers.ReplaceAllString(instants.ReplaceAllString(text, "T"), "P")
	s.notes = append(s.notes, text)
	if s.each != nil {
		s.each()
	}
}

// ok is note for a method whose answer may lack what an attempt of unknown outcome did.
func (s *scenario) ok(what string, err error) {
	s.Helper()
	s.note(what, nil, err)
}

// life goes through the life of a budget in ledger mode.
func (s *scenario) life() {
	ctx := s.Context()
	lane := bucket.Lane{Instance: "sql", Index: 0}
	row, err := s.db.Lane(ctx, lane, "one")
	s.note("lane", row, err)
	v := openBudget(s, s.db, "b", 1000, 4)
	s.note("create", v, nil)
	refs := make([]bucket.Ref, len(v.Buckets))
	for i := range refs {
		refs[i] = v.Buckets[i].Ref()
	}
	logs := s.commits(ctx, v, refs)
	s.returns(ctx, v)
	s.moves(ctx, v, refs, logs)
	s.direct(ctx, lane, v)
	b, err := s.db.Budget(ctx, bucket.BudgetRef{ID: v.ID})
	s.note("budget", b, err)
	u, err := s.db.Unfinished(ctx, 100)
	s.note("unfinished", u, err)
	s.note("accounts", s.accounts(v.ID), nil)
}

func (s *scenario) commits(ctx context.Context, v bucket.Budget, refs []bucket.Ref) []*testLog {
	var logs []*testLog
	var call []ledger.Log
	for i, ref := range refs {
		l := newLog(ref)
		l.grant(v.Buckets[i].Epoch.Outstanding, 1)
		l.deduct(10, fmt.Sprint("order ", i/2)) // two of them are duplicates
		l.deduct(5, fmt.Sprint("another ", i))
		logs, call = append(logs, l), append(call, l.log(0))
	}
	_, err := s.db.Commit(ctx, call)
	s.ok("commit", err)
	for _, l := range logs {
		at, err := s.db.At(ctx, []ledger.Position{l.at(2), l.at(3)})
		s.note("at", []any{at[l.at(2)].Deduction, at[l.at(2)].Duplicate, at[l.at(3)].Deduction}, err)
	}
	return logs
}

func (s *scenario) returns(ctx context.Context, v bucket.Budget) {
	for _, order := range []bucket.RollbackOrder{
		{Budget: v.ID, RequestID: "order 0", RollbackID: "part", Amount: 3},
		{Budget: v.ID, RequestID: "order 0"},
		{Budget: v.ID, RequestID: "order 0"},
	} {
		d, replayed, err := s.db.Rollback(ctx, order)
		s.note("rollback", []any{d, replayed}, err)
	}
	for _, id := range []string{"order 1", "order 1", "never was", "never was"} {
		d, err := s.db.Cancel(ctx, v.ID, id)
		s.note("cancel", d, err)
	}
	_, err := s.db.Sweep(ctx, v.ID)
	s.ok("sweep", err)
	for _, a := range []bucket.Adjustment{
		{Budget: v.ID, RequestID: "append", Nonce: "nonce-01", Quantity: 100},
		{Budget: v.ID, RequestID: "append", Nonce: "nonce-02", Quantity: 100},
		{Budget: v.ID, RequestID: "shrink", Nonce: "nonce-03", Quantity: -50},
		{Budget: v.ID, RequestID: "wait", Nonce: "nonce-04", Quantity: -300},
	} {
		state, replayed, err := s.db.Adjust(ctx, a)
		s.note("adjust", []any{state, replayed}, err)
	}
	_, _, err = s.db.Adjust(ctx, bucket.Adjustment{Budget: v.ID, RequestID: "too much",
		Quantity: -745})
	if !budget.Is(err, budget.AmountExceedsRemaining) {
		s.Errorf("shrink by too much: %v", err)
	}
	version, paused := int64(0), true
	b, err := s.db.Budget(ctx, bucket.BudgetRef{ID: v.ID})
	s.note("version", b.Version, err)
	version = b.Version
	d, err := s.db.Change(ctx, v.ID, bucket.Change{IfVersion: version, Paused: &paused})
	s.note("change", d, err)
}

func (s *scenario) moves(ctx context.Context, v bucket.Budget, refs []bucket.Ref, logs []*testLog) {
	_, _, err := s.db.Adjust(ctx, bucket.Adjustment{Budget: v.ID, RequestID: "more", Quantity: 400})
	s.ok("append", err)
	order, err := s.db.Apply(ctx, v.ID, bucket.Want{Ref: refs[3], Need: 5, Units: 20})
	s.note("apply", []any{order}, err)
	ending, err := s.db.Ending(ctx, v.ID, refs[0], bucket.ByService, false)
	s.note("ending", ending, err)
	left := logs[0].left(250)
	logs[0].add(ledger.Line(ledger.KindClose, left, "1"))
	order, err = s.db.CloseEpoch(ctx, v.ID, refs[0], logs[0].entries[len(logs[0].entries)-1], &bucket.Target{Ref: refs[3], AtMost: 100})
	s.note("close into another", []any{order}, err)
	ending, err = s.db.Ending(ctx, v.ID, refs[1], bucket.ByOperator, false)
	s.note("ending", ending, err)
	logs[1].add(ledger.Line(ledger.KindClose, logs[1].left(250), "1"))
	order, err = s.db.CloseEpoch(ctx, v.ID, refs[1], logs[1].entries[len(logs[1].entries)-1], nil)
	s.note("close", order, err)
	s.ok("fence", s.db.Fence(ctx, refs[2], "a test"))
	lost, err := s.db.Lose(ctx, refs[2])
	s.note("lose", lost, err)
	renewed, err := s.db.Renew(ctx, bucket.Renewal{Budget: v.ID, Ref: refs[2], Units: 7})
	s.note("renew", []any{len(renewed.Opened), renewed.Opened[0].Ref(), renewed.Grants[0].Order}, err)
	lane, err := s.db.NextActivation(ctx, v.Buckets[0].Lane, 1, "two")
	s.note("next activation", lane, err)
	h, err := s.db.Reopen(ctx, v.ID, refs[1].Bucket)
	s.note("reopen", h, err)
	_, err = s.db.HandOut(ctx, v.ID)
	s.ok("hand out", err)
	run, err := s.db.BeginRun(ctx, bucket.Run{Budget: v.ID, Target: refs[3], Units: 7})
	s.note("begin run", run, err)
	s.ok("end run", s.db.EndRun(ctx, v.ID, run.Number, 7))
	s.recycle(ctx, v, refs)
}

func (s *scenario) recycle(ctx context.Context, v bucket.Budget, refs []bucket.Ref) {
	run, err := s.db.BeginRecycle(ctx, bucket.RecycleOrder{Budget: v.ID, Cause: bucket.OnDemand, Holder: "one",
		Plan: []bucket.Planned{{Bucket: refs[2].Bucket, Epoch: 1}}})
	s.note("begin recycle", []any{run.Number, run.Holder, run.Plan}, err)
	ok, collecting, err := s.db.AdvanceRecycle(ctx, bucket.RecycleStep{Budget: v.ID, Number: run.Number, Holder: "one",
		Done: 1, Moved: 7})
	s.note("advance", []any{ok, collecting}, err)
	list, err := s.db.RecycleHistory(ctx, v.ID, 0, 1)
	s.note("moved once", list[0].Moved, err)
	taken, err := s.db.TakeRecycle(ctx, v.ID, run.Number, list[0].TouchedAt, "two")
	s.note("taken", taken != nil && taken.Holder == "two", err)
	ended, err := s.db.EndRecycle(ctx, v.ID, run.Number, "two", bucket.Spread{Units: 9})
	s.note("ended", ended, err)
}

// direct uses the rows of the database as a store.
func (s *scenario) direct(ctx context.Context, lane bucket.Lane, v bucket.Budget) {
	s.ok("activate", s.rows.Activate(ctx, lane, "sql:"+s.db.installation, 2))
	b, err := s.db.Budget(ctx, bucket.BudgetRef{ID: v.ID})
	s.ok("budget", err)
	ref := b.Buckets[1].Ref()
	if _, err := s.rows.Open(ctx, lane, []bucket.Ref{ref}); err != nil {
		s.Fatal(err)
	}
	s.ok("mark open", s.db.MarkOpen(ctx, []bucket.Ref{ref}))
	_, _, err = s.db.Adjust(ctx, bucket.Adjustment{Budget: v.ID, RequestID: "some more", Quantity: 9})
	s.ok("append", err)
	order, err := s.db.Apply(ctx, v.ID, bucket.Want{Ref: ref, Need: 1, Units: 9})
	s.note("apply", []any{order}, err)
	if _, err := s.rows.Grant(ctx, lane, []bucket.GrantOrder{*order}); err != nil {
		s.Fatal(err)
	}
	op := func(id string) bucket.Operation {
		return bucket.Operation{Ref: ref, Amount: 1, Request: request(1, id)}
	}
	replies, outcomes, err := s.rows.DeductAndCommit(ctx, lane, []bucket.Operation{op("x"), op("y"),
		op("x")})
	s.note("deduct and commit", replies, err)
	for _, o := range outcomes {
		s.note("outcome", []any{o.Position, o.Deduction, o.Duplicate}, nil)
	}
	replies, err = s.rows.Deduct(ctx, lane, []bucket.Operation{op("z")})
	s.note("deduct", replies, err)
	replies, _, err = s.rows.DeductAndCommit(ctx, lane, []bucket.Operation{op("z")})
	s.note("deduct and commit", replies, err)
	replies, err = s.rows.Close(ctx, lane, []bucket.Ref{ref})
	s.note("closed", replies[0].Seq, err)
	s.ok("trim", s.rows.Trim(ctx, lane, []bucket.Cursor{{Ref: ref, From: 4}}))
	balances, err := s.rows.Balances(ctx, lane, []bucket.Ref{ref})
	s.note("balances", balances, err)
	s.ok("forget", s.rows.Forget(ctx, lane, []bucket.Ref{ref}))
}

// TestConnectionLostAtCommit: whether the server heard of the COMMIT or not, every transaction
// happens once and answers as if nothing had been lost.
func TestConnectionLostAtCommit(t *testing.T) {
	run := func(t *testing.T, decide func(string) cut) []string {
		p, dsn := newProxy(t, testservers.SharedMariaDB(t).NewDatabase(t))
		s := newScenario(t, Config{Driver: "mysql", DSN: dsn})
		p.set(decide)
		return s.run()
	}
	want := run(t, nil)
	for _, test := range []struct {
		name   string
		decide func(string) cut
	}{
		{"before the server hears", drop.everyOther("COMMIT")},
		{"after the server hears", deafen.everyOther("COMMIT")},
		{"before any query", drop.sometimes(1)},
		{"after any query", deafen.sometimes(3)},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := run(t, test.decide)
			for i := range max(len(got), len(want)) {
				if i >= len(got) || i >= len(want) || got[i] != want[i] {
					t.Fatalf("answer %d:\n%s\nwant\n%s", i, strings.Join(got[i:min(i+1, len(got))], ""),
						strings.Join(want[i:min(i+1, len(want))], ""))
				}
			}
		})
	}
}

// TestScenarioOnSQLite runs the same scenario where nothing can be lost.
func TestScenarioOnSQLite(t *testing.T) {
	newScenario(t, Config{Driver: "sqlite", DSN: filepath.Join(t.TempDir(), "budgetd.db")}).run()
}
