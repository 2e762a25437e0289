package chaos

import (
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var (
	duration = flag.Duration("chaos.duration", 0,
		"how long to inject faults; 0 runs the short schedule, with every kind once; -1s runs every kind "+
			"20 times alone and once with every other kind")
	durability = flag.String("chaos.durability", "ledger", "durability of the budgets: ledger or store; TestLinearizable also takes both")
	seed       = flag.Uint64("chaos.seed", 0, "seed of faults and calls; 0 takes one from the clock")
	kills      = flag.Int("chaos.kills", 5, "how often TestKills kills a budgetd")
	nodes      = flag.Int("chaos.nodes", 2, "number of budgetd processes")
	other      = flag.String("chaos.other", "", "path of a budgetd of another version: every second node begins with it, "+
		"and each start of a node changes its version")
)

func seeded() uint64 {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano() % 1_000_000)
	}
	return *seed
}

func begin(t *testing.T, flags string) *run {
	t.Helper()
	t.Logf("repeat: go test -race -timeout 0 ./internal/proof/chaos -run '^%s$' -v %s "+
		"-chaos.durability %s -chaos.nodes %d -chaos.seed %d",
		t.Name(), flags, *durability, *nodes, seeded())
	return newRun(t, New(t, *nodes, "everysec"), seeded(), *durability)
}

// TestChaos checks I1-I7 under every fault, alone and combined: the answers, the ledger and the
// used units agree to the unit, and every unit can be sold.
func TestChaos(t *testing.T) {
	r := begin(t, "-chaos.duration "+duration.String())
	rnd := rand.New(rand.NewPCG(seeded(), 2))
	const alone = 20
	switch {
	case *duration == 0:
		r.strikes(short(rnd), 5, time.Time{})
	case *duration < 0:
		r.strikes(long(rnd, alone), 12, time.Time{})
	default:
		// Every kind comes first, then as much of the whole schedule as time allows.
		r.strikes(append(short(rnd), long(rnd, alone)...), 12, time.Now().Add(*duration))
	}
	r.finish()
	if t.Failed() {
		return
	}
	for k, f := range Faults {
		wantAlone, wantAny := 0, 1
		if *duration < 0 {
			wantAlone, wantAny = alone, alone+len(Faults)-1
		}
		if n := r.counts.alone[k] + r.counts.paired[k]; n < wantAny || r.counts.alone[k] < wantAlone {
			t.Errorf("%s took place %d times, %d of them alone", f.Name, n, r.counts.alone[k])
		}
	}
	if n := len(Faults); *duration < 0 && len(r.counts.pairs) < n*(n-1)/2 {
		t.Errorf("%d pairs of kinds took place", len(r.counts.pairs))
	}
	for _, op := range []string{"deduct done", "deduct replayed", "rollback done", "cancel done",
		"adjust done", "offline done", "deduct limit_exceeded"} {
		if r.tally.codes[op] == 0 {
			t.Errorf("no answer %q", op)
		}
	}
}

// TestKills repeatedly kills one budgetd after the other under load. No accepted deduction may be
// lost or take effect twice (I4, I7).
func TestKills(t *testing.T) {
	r := begin(t, "-chaos.kills "+strings.TrimSpace(flag.Lookup("chaos.kills").Value.String()))
	strike := Strike{}
	for k, f := range Faults {
		if f.Name == "node: kill -9" {
			strike.Kinds = []int{k}
		}
	}
	var schedule []Strike
	for range *kills {
		schedule = append(schedule, strike)
	}
	r.strikes(schedule, 10, time.Time{})
	r.finish()
	if n := r.counts.alone[strike.Kinds[0]]; n != *kills && !t.Failed() {
		t.Errorf("%d kills, want %d", n, *kills)
	}
	if r.tally.codes["deduct done"] < *kills {
		t.Errorf("only %d deductions", r.tally.codes["deduct done"])
	}
}
