package row_test

import (
	"context"
	"testing"
)

// TestLooksTwice checks that units that return between the two reads of the sum are given out (I3).
func TestLooksTwice(t *testing.T) {
	b := newBooks()
	a := b.add("returns", 100, 1, 100)
	s := node(t, b, nil)
	if _, err := s.Deduct(context.Background(), request(a, "o1", 100)); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	b.before = func(call string) error {
		if call == "covers" { // the first read has ended
			a.epochs[a.Buckets[0].ID].Outstanding = 5
		}
		return nil
	}
	b.mu.Unlock()
	if got, err := s.Deduct(context.Background(), request(a, "o2", 1)); err != nil || got.BucketRemaining != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}
