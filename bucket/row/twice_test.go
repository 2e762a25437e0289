package row_test

import (
	"context"
	"testing"
)

// TestLooksTwice: units that come back between the two looks at the sum are given out (I3).
func TestLooksTwice(t *testing.T) {
	b := newBooks()
	a := b.add("returns", 100, 1, 100, none)
	s := node(t, b, nil)
	if _, err := s.Deduct(context.Background(), request(a, "o1", 100)); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	b.before = func(call string) error {
		if call == "covers" { // the first look has ended
			a.epochs[a.Buckets[0].ID].Outstanding = 5
		}
		return nil
	}
	b.mu.Unlock()
	if got, err := s.Deduct(context.Background(), request(a, "o2", 1)); err != nil || got.Remaining != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}
