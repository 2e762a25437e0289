package storetest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// SQLOpener opens an empty database whose Now follows the clock.
type SQLOpener func(t *testing.T, clock func() time.Time) bucket.SQL

// DifferentialSQL performs one random sequence of operations on several databases and fails where
// an answer or a state of one differs from the reference's. All verbs occur with all their results;
// the logs are built with ledger.Line and ledger.Chain as an honest store would, and forged. A
// deduction in a log counts as one operation, and so does every call.
//
// The sequence is made while the reference performs it, so that its answers steer what comes next;
// the others follow, each on its own goroutine and with its own clock. At least a third of the
// deductions must be accepted and each result must occur operations/1200 times; a fifth more
// operations are added where that is not yet so.
func DifferentialSQL(t *testing.T, seed uint64, operations int, reference SQLOpener,
	others map[string]SQLOpener) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	start := diffStart
	followers := map[string]chan diffStep{}
	var following sync.WaitGroup
	for _, name := range slices.Sorted(maps.Keys(others)) {
		store, steps := newDiffStore(t, ctx, start, others[name]), make(chan diffStep, 1_000)
		followers[name] = steps
		following.Go(func() { follow(t, seed, name, store, steps) })
	}
	g := newDiffRun(newDiffStore(t, ctx, start, reference), seed, operations/1200)
	for g.operations < operations || !g.seenAll() && g.operations < operations*6/5 {
		g.turn()
		for _, step := range g.steps {
			for _, steps := range followers {
				steps <- step
			}
		}
		g.steps = g.steps[:0]
		if t.Failed() {
			break
		}
	}
	g.finish()
	for _, steps := range followers {
		for _, step := range g.steps {
			steps <- step
		}
		close(steps)
	}
	following.Wait()
	g.judge(t)
}

// diffStep is an operation beside the reference's answer to it.
type diffStep struct {
	number int
	diffOp
	want string
}

// diffOp is one operation, in words that mean the same to every database.
type diffOp struct {
	what string
	run  func(s *diffStore) diffAnswer
}

// diffAnswer is an answer in those words, and the results that it counts as.
type diffAnswer struct {
	text string
	met  []string
}

// follow performs the steps on one database until one differs.
func follow(t *testing.T, seed uint64, name string, s *diffStore, steps <-chan diffStep) {
	var recent []string
	failed := false
	for step := range steps {
		if failed {
			continue // the channel must be emptied
		}
		recent = append(recent, fmt.Sprintf("%d %s -> %s", step.number, step.what, step.want))
		recent = recent[max(0, len(recent)-15):]
		if got := step.run(s).text; got != step.want {
			failed = true
			t.Errorf("%s differs, seed %d, step %d: %s\n got  %s\n want %s\n after\n%s", name, seed,
				step.number, step.what, got, step.want, lines(recent))
		}
	}
}

func lines(texts []string) (out string) {
	for _, text := range texts {
		out += "  " + text + "\n"
	}
	return out
}

// diffRun makes the sequence.
type diffRun struct {
	ref        *diffStore
	random     *rand.Rand
	steps      []diffStep
	number     int
	operations int
	// met counts the results, accepted and deducted the deductions.
	met      map[string]int
	tried    map[string]int
	deducted int
	// least is how often every result must occur.
	least int
	// active are the budgets that operations are about; names counts all names ever used.
	active []*diffBudget
	all    []*diffBudget
	names  int
}

// diffBudget is what the sequence knows of a budget.
type diffBudget struct {
	index int
	made  diffDefinition
	// ids were admitted by a store, voids cancelled without having been deducted; rollbacks and
	// adjustments were answered.
	ids, voids  []string
	rollbacks   []bucket.RollbackOrder
	adjustments []diffAdjustment
	runs        int64
	requests    int
	limited     bool // it has or had limits
}

const (
	activeBudgets = 8
	// deductionsPercent is the share of the operations that are deductions in logs.
	deductionsPercent = 51
)

func newDiffRun(ref *diffStore, seed uint64, least int) *diffRun {
	g := &diffRun{
		ref: ref, random: rand.New(rand.NewPCG(seed, 1)), least: least, met: map[string]int{},
		tried: map[string]int{},
	}
	for i := range diffLanes {
		g.do(diffLane(laneOf(i)))
	}
	for range activeBudgets {
		g.do(g.create())
	}
	return g
}

// do performs an operation on the reference.
func (g *diffRun) do(op diffOp) diffAnswer {
	answer := op.run(g.ref)
	g.number++
	g.operations++
	g.steps = append(g.steps, diffStep{number: g.number, diffOp: op, want: answer.text})
	for _, result := range answer.met {
		g.met[result]++
	}
	return answer
}

// turn performs deductions and a commit, or tries for the result that has occurred least, or for
// any.
func (g *diffRun) turn() {
	if g.deducted < g.operations*deductionsPercent/100 && g.chance(2) {
		g.deduct(g.between(10, 40))
		g.do(g.commit())
		return
	}
	goal := g.rarest()
	if g.chance(12) {
		goal = diffGoals[g.random.IntN(len(diffGoals))].result
	}
	for _, candidate := range diffGoals {
		if candidate.result == goal {
			g.tried[goal]++
			op, possible := candidate.try(g)
			if !possible {
				return
			}
			if opened := g.do(op); slices.ContainsFunc(opened.met, opens) && !g.chance(3) {
				g.open()
			}
			return
		}
	}
}

// opens reports whether a result leaves epochs to be opened.
func opens(result string) bool {
	return result == "create: created" || result == "hand out: opened" || result == "reopen: opened"
}

// open opens an epoch that waits for it.
func (g *diffRun) open() {
	at, found := g.place(func(_ *diffBudget, shard bucket.Bucket) bool {
		return shard.Epoch.Status == ledger.Opening
	})
	if found {
		g.do(g.markOpen(at))
	}
}

// rarest is the result with the fewest occurrences. Tries count a little, so that one that is not
// possible now does not keep the others from their turns.
func (g *diffRun) rarest() (result string) {
	fewest := 1 << 60
	for _, goal := range diffGoals {
		n := g.met[goal.result] + g.tried[goal.result]/128
		if g.met[goal.result] >= g.least {
			n += 1 << 30 // often enough
		}
		if n < fewest {
			fewest, result = n, goal.result
		}
	}
	return result
}

// finish compares everything that was not compared when its budget was done with.
func (g *diffRun) finish() {
	for _, b := range g.active {
		g.do(diffAccounts(b.index))
		g.do(diffRead(b.index))
	}
	g.do(diffUnfinished(1_000_000))
}

// seenAll reports whether every result occurred often enough.
func (g *diffRun) seenAll() bool {
	return !slices.ContainsFunc(diffGoals, func(goal diffGoal) bool {
		return g.met[goal.result] < g.least
	})
}

// judge fails the test unless every result occurred often enough.
func (g *diffRun) judge(t *testing.T) {
	t.Helper()
	for _, goal := range diffGoals {
		if g.met[goal.result] < g.least {
			t.Errorf("%s: %d times, want %d", goal.result, g.met[goal.result], g.least)
		}
	}
	if accepted := g.met["commit: accepted"]; 3*accepted < g.deducted {
		t.Errorf("%d of %d deductions accepted", accepted, g.deducted)
	}
	for _, result := range slices.Sorted(maps.Keys(g.met)) {
		t.Logf("%6d %s", g.met[result], result)
	}
	t.Logf("%d operations, %d steps, %d deductions, %d budgets", g.operations, g.number, g.deducted,
		len(g.all))
}

// chance is true once in n times.
func (g *diffRun) chance(n int) bool { return g.random.IntN(n) == 0 }

func (g *diffRun) between(low, high int) int { return low + g.random.IntN(high-low+1) }

// any returns one of the budgets that operations are about.
func (g *diffRun) any() *diffBudget { return g.active[g.random.IntN(len(g.active))] }

// pick returns one of a list.
func pick[T any](g *diffRun, list []T) T { return list[g.random.IntN(len(list))] }

// place finds a newest epoch that is wanted, of any active budget.
func (g *diffRun) place(wanted func(b *diffBudget, shard bucket.Bucket) bool) (diffPlace, bool) {
	for _, i := range g.random.Perm(len(g.active)) {
		if at, found := g.placeOf(g.active[i], wanted); found {
			return at, true
		}
	}
	return diffPlace{}, false
}

// placeOf finds a newest epoch of a budget that is wanted.
func (g *diffRun) placeOf(b *diffBudget, wanted func(b *diffBudget, shard bucket.Bucket) bool) (
	diffPlace, bool) {
	shards := g.ref.read(b.index).Buckets
	for _, i := range g.random.Perm(len(shards)) {
		if wanted(b, shards[i]) {
			return diffPlace{b.index, i, shards[i].Epoch.Number}, true
		}
	}
	return diffPlace{}, false
}
