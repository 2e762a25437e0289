package overrides

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// table of rows in memory, as the database has them.
type rows struct {
	mu      sync.Mutex
	set     map[string]Row
	at      map[string]int64
	removed map[string]int64
	version int64
	err     error
	gate    chan struct{} // if it is set, a read waits for it
	alls    int           // pages read
}

func newRows() *rows {
	return &rows{set: map[string]Row{}, at: map[string]int64{}, removed: map[string]int64{}}
}

func (r *rows) put(key string, most int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version++
	if most < 0 {
		delete(r.set, key)
		delete(r.at, key)
		r.removed[key] = r.version
		return
	}
	r.set[key] = Row{Series: 7, Key: key, Bound: limit.Bound{Max: most}}
	r.at[key] = r.version
}

func (r *rows) limits() *budget.Limits {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &budget.Limits{OverridesVersion: r.version, List: []budget.Limit{{Name: "l", Dimension: "user", Max: 2,
		Measure: budget.MeasureCount, Window: budget.LimitWindow{Kind: budget.WindowLifetime}, OverrideSeries: 7,
		OverrideCount: int64(len(r.set))}}}
}

func (r *rows) OverridesOf(_ context.Context, _, series int64, after string, most int) (out []Row, err error) {
	if r.gate != nil {
		<-r.gate
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alls++
	for key, row := range r.set {
		if key > after && row.Series == series {
			out = append(out, row)
		}
	}
	slices.SortFunc(out, func(a, b Row) int { return cmp.Compare(a.Key, b.Key) })
	return out[:min(most, len(out))], r.err
}

func (r *rows) OverridesSince(_ context.Context, _, version, until int64) (out []Row, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, at := range r.removed {
		if at > version && at <= until {
			out = append(out, Row{Series: 7, Key: key, Removed: true})
		}
	}
	for key, at := range r.at {
		if at > version && at <= until {
			out = append(out, r.set[key])
		}
	}
	return out, r.err
}

func compiled(t testing.TB, limits *budget.Limits) *limit.Limit {
	set, err := limit.Compile(limits)
	if err != nil {
		t.Fatal(err)
	}
	return set.List[0]
}

// TestCopyFollows checks that a copy agrees with the rows after each of many random changes, however
// far behind it was, and that not everything is read again for a few.
func TestCopyFollows(t *testing.T) {
	r := newRows()
	copies := New(r, func(err error) { t.Error(err) })
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		for range random.IntN(60) {
			r.put(fmt.Sprint("u", random.IntN(40)), int64(random.IntN(9)-2))
		}
		if round == 100 {
			for range farBehind + 5 {
				r.put("often", int64(random.IntN(9)))
			}
		}
		limits := r.limits()
		if limits.OverridesVersion == 0 {
			continue
		}
		c, l := copies.Follow(1, limits), compiled(t, limits)
		for i := range 41 {
			key := fmt.Sprint("u", i)
			want := limit.Bound{Max: 2}
			if row, ok := r.set[key]; ok {
				want = row.Bound
			}
			if got, err := c.Bound(limits, l, key); err != nil || got != want {
				t.Fatalf("round %d, %s: %+v, %v, want %+v", round, key, got, err, want)
			}
		}
	}
	if r.alls != 2 {
		t.Errorf("%d pages were read, want the first one and one from far behind", r.alls)
	}
}

// TestNothingIsJudgedWithoutTheCopy checks that a value is unavailable while its override is not
// known: while the copy is read, after a read that failed, and after it was dropped.
func TestNothingIsJudgedWithoutTheCopy(t *testing.T) {
	r := newRows()
	r.put("vip", 9)
	r.gate = make(chan struct{})
	copies := New(r, func(error) {})
	limits := r.limits()
	l := compiled(t, limits)
	c := copies.Follow(1, limits)
	unavailable := func(when string) {
		t.Helper()
		if _, err := c.Bound(limits, l, "vip"); !budget.Is(err, budget.Unavailable) {
			t.Fatalf("%s: %v", when, err)
		}
	}
	unavailable("while it is read")
	r.err = errors.New("no answer")
	close(r.gate)
	<-wait(c)
	unavailable("after a read that failed")
	r.mu.Lock()
	r.err = nil
	r.mu.Unlock()
	copies.Follow(1, limits)
	if got, err := c.Bound(limits, l, "vip"); err != nil || got.Max != 9 {
		t.Fatalf("%+v, %v", got, err)
	}
	r.put("vip", 8)
	limits = r.limits()
	unavailable("after a change that it has not read")
	<-wait(c)
	copies.Forget(1)
	unavailable("after it was dropped")
	if _, err := (*Copy)(nil).Bound(limits, l, "vip"); !budget.Is(err, budget.Unavailable) {
		t.Errorf("no copy: %v", err)
	}
}

// wait returns the channel of the reading, or a closed one.
func wait(c *Copy) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading != nil {
		return c.reading
	}
	done := make(chan struct{})
	close(done)
	return done
}

// TestCopiesAreBounded checks that the copies that were not used for longest are dropped, and read
// again when they are used.
func TestCopiesAreBounded(t *testing.T) {
	r := newRows()
	for i := range 10 {
		r.put(fmt.Sprint("u", i), 5)
	}
	copies, limits := New(r, func(err error) { t.Error(err) }), r.limits()
	copies.most = 35
	l := compiled(t, limits)
	for id := range int64(20) {
		c := copies.Follow(id, limits)
		if got, err := c.Bound(limits, l, "u3"); err != nil || got.Max != 5 {
			t.Fatalf("%d: %+v, %v", id, got, err)
		}
		c.used.Store(id + 1)
		<-wait(c)
		if n := copies.Len(); n > copies.most {
			t.Fatalf("%d overrides are kept", n)
		}
	}
	if c := copies.Follow(0, limits); c.len() != 10 {
		t.Errorf("a copy that was dropped has %d", c.len())
	}
}

// million are rows in the order of their keys.
type million struct{ keys []string }

func (m *million) OverridesOf(_ context.Context, _, _ int64, after string, most int) (out []Row, err error) {
	at, found := slices.BinarySearch(m.keys, after)
	if found {
		at++
	}
	for _, key := range m.keys[at:min(at+most, len(m.keys))] {
		out = append(out, Row{Series: 7, Key: key, Bound: limit.Bound{Max: 5}})
	}
	return out, nil
}

func (m *million) OverridesSince(context.Context, int64, int64, int64) ([]Row, error) {
	return nil, nil
}

// TestMemoryOfAMillion checks how much memory the copy of the largest budget takes.
func TestMemoryOfAMillion(t *testing.T) {
	m := &million{}
	for i := range limit.MaxOverrides {
		m.keys = append(m.keys, fmt.Sprintf("%s%07d", strings.Repeat("u", 24), i))
	}
	copies := New(m, func(err error) { t.Error(err) })
	limits := &budget.Limits{OverridesVersion: 3, List: []budget.Limit{{Name: "l", Dimension: "user", Max: 2,
		Measure: budget.MeasureCount, Window: budget.LimitWindow{Kind: budget.WindowLifetime}, OverrideSeries: 7,
		OverrideCount: limit.MaxOverrides}}}
	before, began := heap(), time.Now()
	c := copies.Follow(1, limits)
	<-wait(c)
	took, used := time.Since(began), heap()-before
	if copies.Len() != limit.MaxOverrides {
		t.Fatalf("%d overrides", copies.Len())
	}
	t.Logf("%d overrides: %d MiB, filled in %s", limit.MaxOverrides, used>>20, took)
	if used > 80<<20 {
		t.Errorf("the copy takes %d MiB", used>>20)
	}
	l := compiled(t, limits)
	if got, err := c.Bound(limits, l, m.keys[777_777]); err != nil || got.Max != 5 {
		t.Errorf("%+v, %v", got, err)
	}
	runtime.KeepAlive(m)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // far below
}

// BenchmarkBound measures a look at the copy of a million overrides.
func BenchmarkBound(b *testing.B) {
	m := &million{}
	for i := range limit.MaxOverrides {
		m.keys = append(m.keys, fmt.Sprintf("user-%07d", i))
	}
	limits := &budget.Limits{OverridesVersion: 3, List: []budget.Limit{{Name: "l", Dimension: "user", Max: 2,
		Measure: budget.MeasureCount, Window: budget.LimitWindow{Kind: budget.WindowLifetime}, OverrideSeries: 7,
		OverrideCount: limit.MaxOverrides}}}
	c := New(m, func(err error) { b.Error(err) }).Follow(1, limits)
	<-wait(c)
	l := compiled(b, limits)
	for i := 0; b.Loop(); i++ {
		if _, err := c.Bound(limits, l, m.keys[i*7919%len(m.keys)]); err != nil {
			b.Fatal(err)
		}
	}
}
