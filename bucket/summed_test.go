package bucket

import (
	"slices"
	"testing"
)

// TestSummed checks that the sums count each budget once, and that entries of one budget with
// different versions are noticed: one of them is old, whatever the sums are.
func TestSummed(t *testing.T) {
	entry := func(id, definition, list int64) *cached {
		e := &cached{id: id}
		b := &Budget{ListVersion: list}
		b.ID, b.Version = id, definition
		e.value.Store(b)
		return e
	}
	a, b := entry(1, 2, 3), entry(2, 5, 7)
	ids, sum, sound := summed([]*cached{b, a, b, a})
	if want := []int64{1, 2}; !slices.Equal(ids, want) || sum != (Version{2 + 5, 3 + 7}) || !sound {
		t.Errorf("ids %v, sum %+v, sound %t", ids, sum, sound)
	}
	for _, other := range []*cached{entry(2, 4, 7), entry(2, 5, 8)} {
		if _, _, sound := summed([]*cached{b, a, other}); sound {
			t.Errorf("budget 2 with two versions: %+v", other.value.Load())
		}
	}
}
