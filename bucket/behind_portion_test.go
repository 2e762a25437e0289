package bucket

import (
	"testing"
	"time"
)

// TestPortion: whatever a transaction can take, and whichever epoch can never be drained, every other one is drained
// again and again while all go on.
func TestPortion(t *testing.T) {
	for _, test := range []struct{ epochs, takes, poison int64 }{
		{3, 1, 0}, {6, 2, 0}, {9, 2, 0}, {9, 4, 0}, {12, 1, 0}, {500, 7, 0}, {1, 1, 0},
		{8, 8, 3}, {9, 2, 9}, {3, 1, 1}, {500, 500, 250},
	} {
		trails, drained := map[Ref]*trail{}, map[int64]int{}
		for i := range test.epochs {
			trails[Ref{Bucket: i + 1, Epoch: 1, Activation: 1}] = newTrail(time.Second, 0)
		}
		var p portion
		for range min(40*test.epochs, 3000) {
			refs := p.of(trails)
			if len(refs) == 0 {
				t.Fatalf("%+v: a pass of nothing", test)
			}
			fits := int64(len(refs)) <= test.takes
			for _, ref := range refs {
				fits = fits && ref.Bucket != test.poison
			}
			for _, ref := range refs {
				if fits {
					drained[ref.Bucket]++
				}
			}
			p.passed(refs, !fits)
		}
		for i := range test.epochs {
			if n := drained[i+1]; n < 2 && i+1 != test.poison {
				t.Errorf("%+v: epoch %d was drained %d times", test, i+1, n)
			}
		}
	}
	p := portion{}
	refs := []Ref{{Bucket: 1}, {Bucket: 2}}
	for range 100 {
		p.passed(refs, true)
	}
	if readTotal>>p.halved > readTotal/1000 {
		t.Errorf("halved %d times after 100 passes that failed", p.halved)
	}
	for range 100 {
		p.passed(refs, false)
	}
	if p.halved != 0 || len(p.of(map[Ref]*trail{refs[0]: nil, refs[1]: nil})) != 2 {
		t.Errorf("%+v after 100 passes that did not", p)
	}
}
