package bucket

import (
	"strconv"
	"testing"
)

// TestRecentIDs: what was added last is remembered, most of what was added lately too, and nothing that was not added.
func TestRecentIDs(t *testing.T) {
	const n = 1000
	r := newRecentIDs(n)
	id := func(i int) ID { return ID{Budget: int64(i % 3), RequestID: strconv.Itoa(i)} }
	for i := range 20 * n {
		if r.has(id(i)) {
			t.Fatalf("id %d is known before it was added", i)
		}
		r.add(id(i))
		if !r.has(id(i)) {
			t.Fatalf("id %d is not known after it was added", i)
		}
		if other := id(i); r.has(ID{Budget: other.Budget + 1, RequestID: other.RequestID}) {
			t.Fatalf("id %d is taken for one of another budget", i)
		}
	}
	known := func(from, to int) (share float64) {
		for i := from; i < to; i++ {
			if r.has(id(i)) {
				share += 1 / float64(to-from)
			}
		}
		return share
	}
	if all, few, old := known(19*n, 20*n), known(20*n-n/10, 20*n), known(0, 10*n); all < 0.7 || few < 0.9 || old > 0.1 {
		t.Errorf("remembered of the last %d: %.2f, of the last %d: %.2f, of the first half of %d: %.2f", n, all, n/10, few,
			20*n, old)
	}
	if newRecentIDs(0).has(id(1)) {
		t.Error("an empty memory knows an id")
	}
}
