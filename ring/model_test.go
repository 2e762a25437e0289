package ring_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"unicode/utf16"
)

// The model reimplements the ring slowly and by other means: whole numbers reduced modulo 2^32
// instead of int32, the standard library's UTF-16, labels as strings, a linear search.

// modelHash is Hash.
func modelHash(s string) uint32 {
	const word = 1 << 32
	unsigned := func(x int64) int64 { return ((x % word) + word) % word }
	signed := func(x int64) int64 {
		if x = unsigned(x); x >= word/2 {
			x -= word
		}
		return x
	}
	xor := func(x, y int64) int64 { return signed(unsigned(x) ^ unsigned(y)) }
	half := func(x int64, times int) int64 {
		return int64(math.Floor(float64(x) / math.Pow(2, float64(times))))
	}
	h := signed(2166136261)
	for _, unit := range utf16.Encode([]rune(s)) {
		h = signed(xor(h, int64(unit)) * 16777619)
	}
	h = signed(h + h*8192)
	h = xor(h, half(h, 7))
	h = signed(h + h*8)
	h = xor(h, half(h, 17))
	h = signed(h + h*32)
	switch {
	case h == math.MinInt32:
		return 0
	case h < 0:
		return uint32(-h)
	}
	return uint32(h)
}

type modelPoint struct {
	hash uint32
	i    int
	node string
}

// model is a ring: its points in ring order.
type model []modelPoint

func newModel(nodes []string, pointsPerNode int) model {
	var m model
	for _, node := range nodes {
		for i := range pointsPerNode {
			m = append(m, modelPoint{modelHash(fmt.Sprintf("%s&&VN%d", node, i)), i, node})
		}
	}
	slices.SortFunc(m, func(a, b modelPoint) int {
		byName := cmp.Compare(a.node, b.node)
		if a.i%2 == 1 {
			byName = -byName
		}
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.i, b.i), byName)
	})
	return m
}

// locate is Locate; "" on a ring without points.
func (m model) locate(key string) string {
	if len(m) == 0 {
		return ""
	}
	hash := modelHash(key)
	for _, p := range m {
		if p.hash >= hash {
			return p.node
		}
	}
	return m[0].node
}

// without returns a ring of the other nodes.
func (m model) without(skip func(node string) bool) model {
	return slices.DeleteFunc(slices.Clone(m), func(p modelPoint) bool { return skip(p.node) })
}

// walk returns all nodes clockwise from key, each found in a ring without those before.
func (m model) walk(key string) []string {
	var nodes []string
	for len(m) > 0 {
		next := m.locate(key)
		nodes = append(nodes, next)
		m = m.without(func(node string) bool { return node == next })
	}
	return nodes
}
