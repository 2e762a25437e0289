package ring_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/budgetd/budgetd/ring"
	"pgregory.net/rapid"
)

func mustNew(t rapid.TB, nodes []string, pointsPerNode int) *ring.Ring {
	t.Helper()
	r, err := ring.New(nodes, pointsPerNode)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// named returns n nodes, named after their ordinals.
func named(format string, n int) []string {
	nodes := make([]string, n)
	for i := range nodes {
		nodes[i] = fmt.Sprintf(format, i)
	}
	return nodes
}

func ordinals(n int) []string { return named("%d", n) }

func TestNewRefuses(t *testing.T) {
	many := ordinals(ring.MaxPoints/1_000 + 1)
	for _, c := range []struct {
		name          string
		nodes         []string
		pointsPerNode int
		want          error
	}{
		{"nil", nil, 10, ring.ErrNoNodes},
		{"no nodes, before the points", []string{}, 0, ring.ErrNoNodes},
		{"no points, before the names", []string{""}, 0, ring.ErrPoints},
		{"negative points", []string{"a"}, -1, ring.ErrPoints},
		{"too many points for a node", []string{"a"}, ring.MaxPointsPerNode + 1, ring.ErrPoints},
		{"largest int", []string{"a", "b"}, math.MaxInt, ring.ErrPoints},
		{"too many points in all", many, 1_000, ring.ErrPoints},
		{"empty name, before a duplicate", []string{"a", "a", ""}, 10, ring.ErrNodeName},
		{"not UTF-8", []string{"a", "b\xff"}, 10, ring.ErrNodeName},
		{"duplicate", []string{"b", "a", "c", "b"}, 10, ring.ErrDuplicateNode},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := ring.New(c.nodes, c.pointsPerNode)
			if !errors.Is(err, c.want) || r != nil {
				t.Errorf("New = %v, %v, want nil, %v", r, err, c.want)
			}
		})
	}
}

func TestNewAtTheBounds(t *testing.T) {
	for _, c := range []struct{ nodes, pointsPerNode int }{
		{1, 1},
		{1, ring.MaxPointsPerNode},
		{3, 1},
	} {
		nodes := ordinals(c.nodes)
		r := mustNew(t, nodes, c.pointsPerNode)
		m := newModel(nodes, c.pointsPerNode)
		for _, key := range ordinals(20) {
			if got, want := r.Locate(key), m.locate(key); got != want {
				t.Errorf("%d × %d: Locate(%q) = %q, want %q",
					c.nodes, c.pointsPerNode, key, got, want)
			}
		}
	}
}

func TestLookupVectors(t *testing.T) {
	r := mustNew(t, named("192.168.0.%d:111", 5), ring.DefaultPointsPerNode)
	rows := vectors(t, "lookup.tsv")
	if len(rows) != 740 {
		t.Fatalf("%d vectors, want 740", len(rows))
	}
	for _, row := range rows {
		if got := r.Locate(row[0]); got != row[1] {
			t.Errorf("Locate(%q) = %q, want %q", row[0], got, row[1])
		}
	}
}

// TestOwnLabel looks up the labels themselves: a key belongs to the first point at or after its
// hash.
func TestOwnLabel(t *testing.T) {
	nodes := ordinals(10)
	r := mustNew(t, nodes, 100)
	for _, node := range nodes {
		for i := range 100 {
			key := fmt.Sprintf("%s&&VN%d", node, i)
			if got := r.Locate(key); got != node {
				t.Errorf("Locate(%q) = %q, want %q", key, got, node)
			}
		}
	}
}

// TestWrap looks up a key before all points of a ring, one between them and one after them.
func TestWrap(t *testing.T) {
	nodes := []string{"a", "b", "c"}
	slices.SortFunc(nodes, func(x, y string) int {
		return int(ring.Hash(x+"&&VN0")) - int(ring.Hash(y+"&&VN0"))
	})
	lowest, highest := ring.Hash(nodes[0]+"&&VN0"), ring.Hash(nodes[2]+"&&VN0")
	r := mustNew(t, []string{"a", "b", "c"}, 1)
	seen := map[string]bool{}
	for _, key := range ordinals(10_000) {
		at, want := "between", nodes[1]
		switch hash := ring.Hash(key); {
		case hash <= lowest:
			at, want = "before", nodes[0]
		case hash > highest:
			at, want = "after", nodes[0]
		case hash > ring.Hash(nodes[1]+"&&VN0"):
			want = nodes[2]
		}
		seen[at] = true
		if got := r.Locate(key); got != want {
			t.Errorf("Locate(%q) = %q, want %q (%s)", key, got, want, at)
		}
	}
	if len(seen) != 3 {
		t.Errorf("keys only %v the points", seen)
	}
}

// TestBalance looks up 1,000,000 keys in 100 nodes of 1,000 points.
func TestBalance(t *testing.T) {
	const n, keys, worst = 100, 1_000_000, 1.15
	for _, format := range []string{"%d", "192.168.0.%d:111", "redis-%d:6379"} {
		t.Run(fmt.Sprintf(format, 0), func(t *testing.T) {
			r := mustNew(t, named(format, n), ring.DefaultPointsPerNode)
			var count [n]int
			for i := range keys {
				count[r.LocateIndex("order-"+strconv.Itoa(i), nil)]++
			}
			busiest := float64(slices.Max(count[:])) * n / keys
			idlest := float64(slices.Min(count[:])) * n / keys
			t.Logf("busiest ÷ mean %.3f, idlest ÷ mean %.3f", busiest, idlest)
			if busiest > worst {
				t.Errorf("busiest ÷ mean is %.3f, want %.2f at most", busiest, worst)
			}
			if idlest < 2-worst {
				t.Errorf("idlest ÷ mean is %.3f, want %.2f at least", idlest, 2-worst)
			}
		})
	}
}

// TestRemoval checks that removing a node moves only its own keys, to where LocateWithout says.
func TestRemoval(t *testing.T) {
	nodes := named("redis-%d:6379", 10)
	r := mustNew(t, nodes, 200)
	for x, gone := range nodes {
		rest := mustNew(t, slices.Delete(slices.Clone(nodes), x, x+1), 200)
		moved := 0
		for i := range 2_000 {
			key := strconv.Itoa(i)
			before, after := r.Locate(key), rest.Locate(key)
			if before != gone && after != before {
				t.Errorf("without %s, key %q moved from %s to %s", gone, key, before, after)
			}
			if before == gone {
				moved++
			}
			said, ok := r.LocateWithout(key, func(node string) bool { return node == gone })
			if said != after || !ok {
				t.Errorf("LocateWithout(%q) = %q, %v, want %q", key, said, ok, after)
			}
		}
		if moved == 0 {
			t.Errorf("no key belonged to %s", gone)
		}
	}
}

func TestNodesAreCopied(t *testing.T) {
	given := []string{"b", "a", "c"}
	r := mustNew(t, given, 10)
	given[0] = "x"
	r.Nodes()[1] = "y"
	if got, want := r.Nodes(), []string{"b", "a", "c"}; !slices.Equal(got, want) {
		t.Errorf("Nodes() = %q, want %q", got, want)
	}
}

func TestNoAllocation(t *testing.T) {
	nodes := ordinals(100)
	r := mustNew(t, nodes, 100)
	key := "order-用户-😀-" + strings.Repeat("long", 20) // beyond what a conversion has on the stack
	first := r.LocateIndex(key, nil)
	for _, c := range []struct {
		name string
		call func()
	}{
		{"Hash", func() { _ = ring.Hash(key) }},
		{"Locate", func() { r.Locate(key) }},
		{"LocateIndex", func() { r.LocateIndex(key, nil) }},
		{"LocateIndex with skip", func() {
			r.LocateIndex(key, func(i int) bool { return i == first })
		}},
		{"LocateIndex, all skipped", func() {
			r.LocateIndex(key, func(i int) bool { return i < len(nodes) })
		}},
		{"LocateWithout", func() {
			r.LocateWithout(key, func(node string) bool { return node == nodes[first] })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := testing.AllocsPerRun(100, c.call); got != 0 {
				t.Errorf("%v allocations, want none", got)
			}
		})
	}
}

// TestConcurrentUse lets the race detector see concurrent lookups.
func TestConcurrentUse(t *testing.T) {
	r := mustNew(t, ordinals(20), 50)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 500 {
				key := strconv.Itoa(i)
				want := r.Locate(key)
				for got := range r.Walk(key) {
					if got != want {
						t.Errorf("Walk(%q) begins with %q, want %q", key, got, want)
					}
					break
				}
				if got, ok := r.LocateWithout(key, nil); got != want || !ok {
					t.Errorf("LocateWithout(%q, nil) = %q, %v, want %q", key, got, ok, want)
				}
			}
			r.Nodes()[0] = "mine"
		})
	}
	wg.Wait()
}
