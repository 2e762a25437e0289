package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

var (
	histories = flag.Int("linearize.histories", 4, "number of histories for each kind of fault")
	which     = flag.String("linearize.kinds", "main", "kinds of faults: main, all, or the name of one; in store "+
		"mode only those that lose nothing that a Redis has answered")
)

// least is the least number of operations in a history.
const least = 100

// sideBySide is the number of budgets that are used concurrently under a fault. inWorld is the
// number of budgets in one world. They stay, and every audit of the world checks them.
const sideBySide, inWorld = 20, 200

// mainKinds are faults each of which would break a different guarantee of a simpler design.
var mainKinds = []string{"none", "node: kill -9", "node: SIGSTOP", "redis: kill -9, empty",
	"redis: replies cut",
	"redis: SIGSTOP", "redis: FLUSHALL", "mariadb: kill -9", "mariadb: replies cut"}

// mainInStore are those for store mode.
var mainInStore = []string{"redis: kill -9, with its data", "node: kill -9"}

// result is the result for one kind of fault.
type result struct {
	kind                                 string
	made                                 int // histories, including those that the fault missed
	histories, operations, unknown, open int
	shortest                             int // operations of one history
	longest                              time.Duration
}

// TestLinearizable checks that under any fault, concurrent callers of a budget get answers that
// sequential callers could get. In store mode it injects only faults that lose nothing.
func TestLinearizable(t *testing.T) {
	t.Logf("repeat: go test -race -timeout 0 ./internal/proof/chaos -run '^TestLinearizable$' -v "+
		"-linearize.histories %d -linearize.kinds '%s' -chaos.durability %s -chaos.seed %d", *histories,
		*which, *durability, seeded())
	ran := 0
	for _, d := range []budget.Durability{budget.Ledger, budget.Store} {
		if *durability != "both" && *durability != string(d) {
			continue
		}
		var results []result
		for kinds := range slices.Chunk(kindsOf(*which, d), max(1, inWorld / *histories)) {
			if ran++; !t.Failed() {
				t.Run(string(d)+"/"+kinds[0], func(t *testing.T) { results = append(results, linearizable(t, d, kinds)...) })
			}
		}
		t.Logf("seed %d, durability %s\n%s", seeded(), d, table(results))
	}
	if ran == 0 {
		t.Errorf("durability %q is unknown, or %q selects no fault for it", *durability, *which)
	}
}

// linearizable starts a world and checks histories of budgets with one durability under each kind
// of fault.
func linearizable(t *testing.T, d budget.Durability, kinds []string) (results []result) {
	t.Helper()
	fsync := "everysec"
	if d == budget.Store {
		fsync = "always" // a killed Redis keeps what it has answered
	}
	// Disable recycles: the budgets of earlier histories stay, with few units left, and would be
	// recycled over and over.
	w := New(t, 2, fsync, "recycle:", "  stranded_share: 0", "")
	rnd := rand.New(rand.NewPCG(seeded(), 0))
	for k, kind := range kinds {
		r := result{kind: kind, shortest: math.MaxInt}
		for r.histories < *histories && r.made < 3**histories && !t.Failed() {
			window(t, w, rnd, d, k, min(sideBySide, *histories-r.histories), &r)
		}
		if r.histories < *histories && !t.Failed() {
			t.Errorf("%s: only %d of %d histories were disturbed", kind, r.histories, *histories)
		}
		results = append(results, r)
	}
	return results
}

// kindsOf returns the kinds of faults that the flag selects, in store mode without those that may
// lose something. In store mode kills of nodes come last: if a Redis restarts within 30 s of the
// death of a node, the other nodes still wait for that node, and the units of the Redis are
// quarantined.
func kindsOf(which string, d budget.Durability) []string {
	kinds := []string{which}
	switch {
	case which == "main" && d == budget.Store:
		return mainInStore
	case which == "main":
		return mainKinds
	case which == "all":
		kinds = []string{"none"}
		for _, f := range Faults {
			kinds = append(kinds, f.Name)
		}
	}
	if d != budget.Store {
		return kinds
	}
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind != "none" && Named(kind).Forgets })
	const kill = "node: kill -9"
	if i := slices.Index(kinds, kill); i >= 0 {
		kinds = append(slices.Delete(kinds, i, i+1), kill)
	}
	return kinds
}

func table(results []result) string {
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "fault\thistories\toperations\tshortest\tunknown outcomes\tundecided\tlongest check\t")
	for _, r := range results {
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t\n", r.kind, r.histories, r.operations, r.shortest,
			r.unknown, r.open, r.longest.Round(time.Millisecond))
	}
	_ = out.Flush()
	return text.String()
}

// window uses n new budgets under one fault, and checks their histories.
func window(t *testing.T, w *World, rnd *rand.Rand, d budget.Durability, kind, n int, r *result) {
	t.Helper()
	began := time.Now()
	defer func() { t.Logf("%s: %d histories in %s", r.kind, n, time.Since(began).Round(time.Second/10)) }()
	recorders := make([]*recorder, n)
	for i := range recorders {
		recorders[i] = create(t, w, d, fmt.Sprintf("k%d-h%d", kind, r.made+i))
	}
	r.made += n
	var callersDone sync.WaitGroup
	for i, rec := range recorders {
		rec.begun = time.Now()
		for caller := range callers {
			own := rand.New(rand.NewPCG(rnd.Uint64(), uint64(i*callers+caller)))
			callersDone.Go(func() { rec.work(caller, own) })
		}
	}
	struck := strike(w, rnd, r.kind)
	if struck != nil && !errors.Is(struck, ErrMissed) {
		t.Errorf("%s: %v", r.kind, struck)
	}
	callersDone.Wait()
	if err := errors.Join(w.Restore(), w.AwaitQuiet()); err != nil {
		t.Errorf("%s: %v", r.kind, err)
		return
	}
	report, err := observe(w, recorders)
	if err != nil {
		t.Errorf("%s: %v", r.kind, err)
		return
	}
	for _, wrong := range report.Wrong {
		t.Errorf("%s: audit: %s", r.kind, wrong)
	}
	for _, rec := range recorders {
		judge(t, w, rec, r)
	}
	if struck == nil {
		r.histories += n
	}
}

func create(t *testing.T, w *World, d budget.Durability, name string) *recorder {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		_, err := w.Clients[0].Create(context.Background(), client.CreateRequest{Name: name, Unit: budget.Count,
			Type: budget.Promo, TotalQuantity: units, BucketQuantity: 3, Durability: d})
		if err == nil {
			return &recorder{w: w, name: name, durability: d}
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// strike runs a fault while callers work.
func strike(w *World, rnd *rand.Rand, kind string) error {
	if kind == "none" {
		return nil
	}
	time.Sleep(time.Duration(rnd.Int64N(int64(400 * time.Millisecond))))
	return w.Strike(rnd, Named(kind))
}

// judge checks the history of one budget.
func judge(t *testing.T, w *World, rec *recorder, r *result) {
	t.Helper()
	m := model(units, lateness{behind: rec.durability == budget.Store,
		away: rec.durability == budget.Store && strings.HasPrefix(r.kind, "mariadb")})
	history, out := prune(rec.history, rec.end)
	if rec.durability == budget.Store {
		early(history)
	}
	r.operations += len(history)
	r.shortest = min(r.shortest, len(history))
	if len(history) < least {
		t.Errorf("%s, %s: only %d operations", r.kind, rec.name, len(history))
	}
	began := time.Now()
	verdict := check(m, history)
	r.longest = max(r.longest, time.Since(began))
	for _, op := range rec.history {
		if op.Output.(output).unknown() {
			r.unknown++
		}
	}
	switch verdict {
	case porcupine.Ok:
	case porcupine.Unknown:
		r.open++
		t.Errorf("%s, %s: not decided within %s", r.kind, rec.name, checkLimit)
	default:
		t.Errorf("%s, %s: no order of its operations is valid; see %s", r.kind, rec.name,
			keep(t, filepath.Join(w.Dir, rec.name), m, history, out))
	}
}
