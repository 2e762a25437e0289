package linearize

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/chaos"
)

var (
	histories = flag.Int("linearize.histories", 4, "of each kind of fault")
	which     = flag.String("linearize.kinds", "main", "of faults: main, all, or the name of one")
	seed      = flag.Uint64("linearize.seed", 0, "of calls and faults; 0: of the clock")
)

// atOnce is how many budgets are used side by side while a fault strikes.
const atOnce = 20

// mainKinds are the faults that each break another promise of a simpler design.
var mainKinds = []string{"none", "node: kill -9", "node: SIGSTOP", "redis: kill -9, empty",
	"redis: replies cut",
	"redis: SIGSTOP", "redis: FLUSHALL", "mariadb: kill -9", "mariadb: replies cut"}

// result is what was found of one kind of fault.
type result struct {
	kind                                 string
	made                                 int // histories, those that the fault missed included
	histories, operations, unknown, open int
	longest                              time.Duration
}

// TestLinearizable: with any fault, many callers on a budget see what one after the other could see.
func TestLinearizable(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano() % 1_000_000)
	}
	t.Logf("again: go test -race -timeout 0 ./internal/linearize -run '^TestLinearizable$' -v "+
		"-linearize.histories %d -linearize.kinds '%s' -linearize.seed %d", *histories, *which, *seed)
	kinds := kindsOf(*which)
	// The budgets of the histories before stay, with little left in them: their recycles would go on and on.
	w := chaos.New(t, 2, "recycle:", "  stranded_share: 0", "")
	rnd := rand.New(rand.NewPCG(*seed, 0))
	var results []result
	for k, kind := range kinds {
		r := result{kind: kind}
		for r.histories < *histories && r.made < 3**histories && !t.Failed() {
			window(t, w, rnd, k, min(atOnce, *histories-r.histories), &r)
		}
		if r.histories < *histories && !t.Failed() {
			t.Errorf("%s: %d of %d histories: it disturbed nothing", kind, r.histories, *histories)
		}
		results = append(results, r)
	}
	t.Logf("seed %d\n%s", *seed, table(results))
}

// kindsOf returns the kinds of faults that the flag selects.
func kindsOf(which string) []string {
	switch which {
	case "main":
		return mainKinds
	case "all":
		kinds := []string{"none"}
		for _, f := range chaos.Faults {
			kinds = append(kinds, f.Name)
		}
		return kinds
	}
	return []string{which}
}

func table(results []result) string {
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "fault\thistories\toperations\tunknown outcomes\tundecided\tlongest check\t")
	for _, r := range results {
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\t%s\t\n", r.kind, r.histories, r.operations, r.unknown, r.open,
			r.longest.Round(time.Millisecond))
	}
	_ = out.Flush()
	return text.String()
}

// window uses n new budgets while one fault strikes, and checks their histories.
func window(t *testing.T, w *chaos.World, rnd *rand.Rand, kind, n int, r *result) {
	t.Helper()
	began := time.Now()
	defer func() { t.Logf("%s: %d histories in %s", r.kind, n, time.Since(began).Round(time.Second/10)) }()
	recorders := make([]*recorder, n)
	for i := range recorders {
		recorders[i] = create(t, w, fmt.Sprintf("k%d-h%d", kind, r.made+i))
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
	if struck != nil && !errors.Is(struck, chaos.ErrMissed) {
		t.Errorf("%s: %v", r.kind, struck)
	}
	callersDone.Wait()
	if err := errors.Join(w.Restore(), w.AwaitQuiet()); err != nil {
		t.Errorf("%s: %v", r.kind, err)
		return
	}
	for _, rec := range recorders {
		judge(t, w, rec, r)
	}
	if struck == nil {
		r.histories += n
	}
}

func create(t *testing.T, w *chaos.World, name string) *recorder {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		_, err := w.Clients[0].Create(context.Background(), client.CreateRequest{Name: name, Unit: budget.Count,
			Type: budget.Promo, TotalQuantity: units, BucketQuantity: 3})
		if err == nil {
			return &recorder{w: w, name: name}
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// strike lets a fault strike while callers work.
func strike(w *chaos.World, rnd *rand.Rand, kind string) error {
	if kind == "none" {
		return nil
	}
	time.Sleep(time.Duration(rnd.Int64N(int64(400 * time.Millisecond))))
	return w.Strike(rnd, chaos.Named(kind))
}

// judge checks the history of one budget.
func judge(t *testing.T, w *chaos.World, rec *recorder, r *result) {
	t.Helper()
	rows, err := rec.observe()
	if err != nil {
		t.Error(err)
		return
	}
	began := time.Now()
	verdict := check(rec.history, units, rows)
	r.longest = max(r.longest, time.Since(began))
	r.operations += len(rec.history)
	for _, op := range rec.history {
		if op.Output.(output).unknown() {
			r.unknown++
		}
	}
	if len(rec.history) < 100 {
		t.Errorf("%s: only %d operations", rec.name, len(rec.history))
	}
	switch verdict {
	case porcupine.Ok:
	case porcupine.Unknown:
		r.open++
		t.Errorf("%s, %s: not decided within %s", r.kind, rec.name, checkLimit)
	default:
		t.Errorf("%s, %s: no order of its operations is right; see %s", r.kind, rec.name,
			keep(t, filepath.Join(w.Dir, rec.name), rec.history, rows))
	}
}
