package ring_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/ring"
	"pgregory.net/rapid"
)

// Names whose labels collide, found by trying names in order.
var (
	// twins have the same FNV-1a state: label i of one collides with label i of the other.
	twins = [2]string{"node-522789", "node-739192"}
	// nearTwins' states differ in the lowest bit: label i of one collides with label i^1.
	nearTwins = [2]string{"node-39114", "node-7291"}
	// strangers share one place: label 5 of the first and label 3 of the second.
	strangers = [2]string{"node-13615", "node-17834"}
	// ordinalTwins, named as buckets are, share half of their first 16 places.
	ordinalTwins = [2]string{"33963", "712"}
)

func label(node string, i int) string { return fmt.Sprintf("%s&&VN%d", node, i) }

func TestCollisions(t *testing.T) {
	for _, c := range []struct {
		name         string
		nodes        [2]string
		i, j         int // label i of the first and label j of the second node collide
		first, other string
	}{
		{"lower label number first", strangers, 5, 3, strangers[1], strangers[0]},
		{"even number: lower name first", twins, 4, 4, twins[0], twins[1]},
		{"odd number: higher name first", twins, 5, 5, twins[1], twins[0]},
		{"near twins, 0 and 1", nearTwins, 0, 1, nearTwins[0], nearTwins[1]},
		{"near twins, 1 and 0", nearTwins, 1, 0, nearTwins[1], nearTwins[0]},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := label(c.nodes[0], c.i)
			if ring.Hash(key) != ring.Hash(label(c.nodes[1], c.j)) {
				t.Fatal("the labels do not collide")
			}
			nodes := []string{c.nodes[0], "a", c.nodes[1]}
			for range 2 {
				r := mustNew(t, nodes, 8)
				got := slices.Collect(r.Walk(key))[:2]
				if want := []string{c.first, c.other}; !slices.Equal(got, want) {
					t.Errorf("nodes %q: Walk(%q) begins with %q, want %q", nodes, key, got, want)
				}
				slices.Reverse(nodes)
			}
		})
	}
}

// TestTwinsShare checks that nodes which collide everywhere split their range, so that neither
// starves.
func TestTwinsShare(t *testing.T) {
	for _, pair := range [][2]string{twins, nearTwins, ordinalTwins} {
		r := mustNew(t, append(named("other-%d", 8), pair[:]...), ring.DefaultPointsPerNode)
		count := map[string]int{}
		for _, key := range ordinals(20_000) {
			count[r.Locate(key)]++
		}
		both := count[pair[0]] + count[pair[1]]
		for _, node := range pair {
			if count[node] < both*2/5 {
				t.Errorf("%s has %d keys of the %d of %q, want about half",
					node, count[node], both, pair)
			}
		}
	}
}

// drawNodes draws distinct nodes in any order, including names that collide.
func drawNodes(t *rapid.T) []string {
	pool := slices.Concat(twins[:], nearTwins[:], strangers[:], ordinalTwins[:], ordinals(6),
		[]string{"é", "用户", "😀"})
	nodes := rapid.Permutation(pool).Draw(t, "nodes")
	return nodes[:rapid.IntRange(1, len(nodes)).Draw(t, "n")]
}

// drawKey draws any string or, half of the time, the label of a point.
func drawKey(t *rapid.T, nodes []string, pointsPerNode int) string {
	if rapid.Bool().Draw(t, "any") {
		return rapid.String().Draw(t, "key")
	}
	return label(rapid.SampledFrom(nodes).Draw(t, "node"),
		rapid.IntRange(0, pointsPerNode-1).Draw(t, "i"))
}

// TestSkipEqualsRingWithout checks that skipping nodes gives the answer of a ring that was built
// without them, in any order of nodes.
func TestSkipEqualsRingWithout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t)
		pointsPerNode := rapid.IntRange(1, 12).Draw(t, "points")
		r := mustNew(t, nodes, pointsPerNode)
		skipped := map[string]bool{}
		for _, node := range nodes {
			skipped[node] = rapid.Bool().Draw(t, "skip")
		}
		isSkipped := func(node string) bool { return skipped[node] }
		rest := slices.DeleteFunc(rapid.Permutation(nodes).Draw(t, "order"), isSkipped)
		for range 10 {
			key := drawKey(t, nodes, pointsPerNode)
			want := ""
			if len(rest) > 0 {
				want = mustNew(t, rest, pointsPerNode).Locate(key)
			}
			got, ok := r.LocateWithout(key, isSkipped)
			if got != want || ok != (len(rest) > 0) {
				t.Fatalf("LocateWithout(%q) = %q, %v, want %q", key, got, ok, want)
			}
			i := r.LocateIndex(key, func(i int) bool { return isSkipped(nodes[i]) })
			if i != slices.Index(nodes, want) {
				t.Fatalf("LocateIndex(%q) = %d, want the index of %q", key, i, want)
			}
		}
	})
}

// TestWalkSkipsNodesBefore checks that each step of a walk yields the node that the key belongs to
// without the nodes before it.
func TestWalkSkipsNodesBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t)
		pointsPerNode := rapid.IntRange(1, 12).Draw(t, "points")
		r := mustNew(t, nodes, pointsPerNode)
		key := drawKey(t, nodes, pointsPerNode)
		var before []string
		for node := range r.Walk(key) {
			want, ok := r.LocateWithout(key, func(x string) bool { return slices.Contains(before, x) })
			if node != want || !ok {
				t.Fatalf("after %q, Walk(%q) yields %q, want %q", before, key, node, want)
			}
			before = append(before, node)
		}
		if len(before) != len(nodes) {
			t.Fatalf("Walk(%q) yields %d of %d nodes", key, len(before), len(nodes))
		}
	})
}

func TestWalkCanStopAndRestart(t *testing.T) {
	walk := mustNew(t, ordinals(10), 20).Walk("k")
	var head []string
	for node := range walk {
		if head = append(head, node); len(head) == 3 {
			break
		}
	}
	all := slices.Collect(walk)
	if len(all) != 10 || !slices.Equal(all[:3], head) {
		t.Errorf("walked %q, then %q", head, all)
	}
}

// TestSkipIsBounded checks that finding all nodes skipped takes at most two calls per node, however
// many points there are.
func TestSkipIsBounded(t *testing.T) {
	const n = 50
	for _, pointsPerNode := range []int{1, 2, 1_000} {
		r := mustNew(t, ordinals(n), pointsPerNode)
		asked := map[int]int{}
		total := 0
		i := r.LocateIndex("k", func(i int) bool {
			asked[i]++
			total++
			return true
		})
		if i != -1 || total > 2*n || len(asked) != n {
			t.Errorf("%d points: %d after %d questions about %d nodes, want -1 after %d at most",
				pointsPerNode, i, total, len(asked), 2*n)
		}
	}
}

// TestOneLeft checks that the one node not skipped is found, wherever its points are.
func TestOneLeft(t *testing.T) {
	r := mustNew(t, ordinals(50), 3)
	for left := range 50 {
		if got := r.LocateIndex("k", func(i int) bool { return i != left }); got != left {
			t.Errorf("LocateIndex = %d, want %d", got, left)
		}
	}
}

func FuzzLocate(f *testing.F) {
	f.Add("a\nb\nc", 8, "key", 1)
	f.Add("a\nb\na", 8, "key", 0)
	f.Add("a\n\nb", 8, "key", 0)
	f.Add("\xff\n\xfe", 1, "\xff", 0)
	f.Add("a", 0, "", 0)
	f.Add(twins[0]+"\n"+twins[1]+"\n712\n33963", 16, "712&&VN3", 5)
	f.Fuzz(func(t *testing.T, list string, pointsPerNode int, key string, mask int) {
		nodes := strings.Split(list, "\n")
		if len(nodes) > 32 || pointsPerNode > 64 {
			return // the model would take too long
		}
		r, err := ring.New(nodes, pointsPerNode)
		bad := pointsPerNode < 1
		for i, node := range nodes {
			bad = bad || node == "" || strings.ToValidUTF8(node, "") != node ||
				slices.Contains(nodes[:i], node)
		}
		if bad != (err != nil) {
			t.Fatalf("New(%q, %d): %v", nodes, pointsPerNode, err)
		}
		if err != nil {
			return
		}
		m := newModel(nodes, pointsPerNode)
		if got, want := r.Locate(key), m.locate(key); got != want {
			t.Errorf("Locate(%q) = %q, want %q", key, got, want)
		}
		if got, want := slices.Collect(r.Walk(key)), m.walk(key); !slices.Equal(got, want) {
			t.Errorf("Walk(%q) = %q, want %q", key, got, want)
		}
		skip := func(node string) bool { return mask>>slices.Index(nodes, node)&1 == 1 }
		got, ok := r.LocateWithout(key, skip)
		if want := m.without(skip).locate(key); got != want || ok != (want != "") {
			t.Errorf("LocateWithout(%q, %b) = %q, %v, want %q", key, mask, got, ok, want)
		}
	})
}
