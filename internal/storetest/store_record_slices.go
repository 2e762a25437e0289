package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// RecordsUnderTest is a store that keeps records, with a hand on what makes it forget them. Empty,
// and not activated.
type RecordsUnderTest struct {
	StoreUnderTest
	// Window is the store's record window; Now reads the lane's clock.
	Window time.Duration
	Now    func() time.Time
	// Pass returns when the lane's clock has come to that time, which is not long from now.
	Pass func(until time.Time)
	// Restart stops the lane's server and starts it with the data that it had.
	Restart func()
}

// RunRecords tests for how long a store that keeps records keeps them.
func RunRecords(t *testing.T, fresh func(t *testing.T) RecordsUnderTest) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *slicer)
	}{
		{"both slices are looked up", testBothSlices},
		{"one slice after the other", testSlices},
		{"a slice without a record", testIdleSlice},
		{"slices without a record", testIdleSlices},
		{"one hash is refilled", testRefilled},
		{"voids", testVoidSlices},
		{"slices are an epoch's own", testSlicesPerEpoch},
		{"a restart with data", testRecordsRestart},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			under := fresh(t)
			s := &slicer{bench: newBench(t, under.StoreUnderTest), under: under}
			s.activate(t, 1)
			test.run(t, s)
		})
	}
}

// slicer does operations in chosen slices of the lane's clock.
type slicer struct {
	*bench
	under RecordsUnderTest
	first int64
	// late: an operation was done in another slice than was asked for.
	late bool
}

func (s *slicer) slice() int64 {
	return s.under.Now().UnixMilli() / s.under.Window.Milliseconds()
}

// attempts bounds how often a story is told anew because the machine was too slow for it.
const attempts = 20

// story tells a story that needs its operations in certain slices, on new buckets, until all of them
// were done in time. It returns what was answered, which says nothing if one was late.
func (s *slicer) story(t *testing.T, tell func() []bucket.Verdict, want ...bucket.Verdict) {
	t.Helper()
	for range attempts {
		s.first, s.late = s.slice()+1, false
		got := tell()
		if s.late {
			continue
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the verdicts are %v, want %v", got, want)
		}
		return
	}
	t.Fatalf("no story was told in time in %d attempts", attempts)
}

// at does an operation in the n-th slice of the story.
func (s *slicer) at(t *testing.T, n int64, do func() ([]bucket.Reply, error)) bucket.Verdict {
	t.Helper()
	at := s.first + n
	s.under.Pass(time.UnixMilli(at * s.under.Window.Milliseconds()))
	before := s.slice()
	got, err := do()
	if before != at || s.slice() != at {
		s.late = true
	}
	return only(t, "operation", got, err).Verdict
}

func (s *slicer) deductAt(t *testing.T, n int64, ref bucket.Ref, id string) bucket.Verdict {
	t.Helper()
	return s.at(t, n, func() ([]bucket.Reply, error) {
		return s.Store.Deduct(t.Context(), s.Lane, []bucket.Operation{Recorded(ref, 1, id)})
	})
}

func (s *slicer) voidAt(t *testing.T, n int64, ref bucket.Ref, id string) bucket.Verdict {
	t.Helper()
	return s.at(t, n, func() ([]bucket.Reply, error) {
		return s.Store.(bucket.Records).Void(t.Context(), s.Lane,
			[]bucket.VoidOrder{{Ref: ref, RequestID: id}})
	})
}

// testBothSlices: a record is found in its own slice and in the next, also when that has records of
// its own, and not in the one after that.
func testBothSlices(t *testing.T, s *slicer) {
	s.story(t, func() []bucket.Verdict {
		ref := s.filled(t, 100)
		return []bucket.Verdict{
			s.deductAt(t, 0, ref, "a"), s.deductAt(t, 0, ref, "a"),
			s.deductAt(t, 1, ref, "a"), s.deductAt(t, 1, ref, "b"), s.deductAt(t, 1, ref, "a"),
			s.deductAt(t, 2, ref, "b"), s.deductAt(t, 2, ref, "a"), s.deductAt(t, 2, ref, "a"),
		}
	}, bucket.OK, bucket.Recorded,
		bucket.Recorded, bucket.OK, bucket.Recorded,
		bucket.Recorded, bucket.OK, bucket.Recorded)
}

// testSlices: both hashes are used again and again. The id of each slice is known in the next one
// and free in the one after.
func testSlices(t *testing.T, s *slicer) {
	s.story(t, func() (got []bucket.Verdict) {
		ref := s.filled(t, 100)
		for n := range int64(5) {
			got = append(got, s.deductAt(t, n, ref, fmt.Sprint(n)))
			if n > 0 {
				got = append(got, s.deductAt(t, n, ref, fmt.Sprint(n-1)))
			}
			for i := 0; n > 1 && i < 2; i++ { // free, and then not
				got = append(got, s.deductAt(t, n, ref, fmt.Sprint(n-2)))
			}
		}
		return got
	}, bucket.OK,
		bucket.OK, bucket.Recorded,
		bucket.OK, bucket.Recorded, bucket.OK, bucket.Recorded,
		bucket.OK, bucket.Recorded, bucket.OK, bucket.Recorded,
		bucket.OK, bucket.Recorded, bucket.OK, bucket.Recorded)
}

// testIdleSlice: when nothing was recorded for a slice, what is older is gone all the same, by the
// look-up and by the first record after it.
func testIdleSlice(t *testing.T, s *slicer) {
	s.story(t, func() []bucket.Verdict {
		ref := s.filled(t, 100)
		return []bucket.Verdict{s.deductAt(t, 0, ref, "a"), s.deductAt(t, 0, ref, "b"),
			s.deductAt(t, 2, ref, "a"), s.deductAt(t, 2, ref, "b"), s.deductAt(t, 2, ref, "a"),
			s.deductAt(t, 3, ref, "b")}
	}, bucket.OK, bucket.OK, bucket.OK, bucket.OK, bucket.Recorded, bucket.Recorded)
}

// testIdleSlices: the same when both hashes have something that is too old, by one slice and by two.
func testIdleSlices(t *testing.T, s *slicer) {
	for _, n := range []int64{3, 4} {
		s.story(t, func() []bucket.Verdict {
			ref := s.filled(t, 100)
			return []bucket.Verdict{s.deductAt(t, 0, ref, "a"), s.deductAt(t, 1, ref, "b"),
				s.deductAt(t, n, ref, "c"), s.deductAt(t, n, ref, "a"), s.deductAt(t, n, ref, "b"),
				s.deductAt(t, n+1, ref, "a")}
		}, bucket.OK, bucket.OK, bucket.OK, bucket.OK, bucket.OK, bucket.Recorded)
	}
}

// testRefilled: entering a slice takes what is two slices old, and not what is one.
func testRefilled(t *testing.T, s *slicer) {
	s.story(t, func() []bucket.Verdict {
		ref := s.filled(t, 100)
		return []bucket.Verdict{s.deductAt(t, 0, ref, "a"), s.deductAt(t, 1, ref, "b"),
			s.deductAt(t, 2, ref, "c"), s.deductAt(t, 2, ref, "b"), s.deductAt(t, 2, ref, "a")}
	}, bucket.OK, bucket.OK, bucket.OK, bucket.Recorded, bucket.OK)
}

// testVoidSlices: a void record stays for as long as the epoch, however many slices pass, and those of
// deductions do not.
func testVoidSlices(t *testing.T, s *slicer) {
	s.story(t, func() []bucket.Verdict {
		ref := s.filled(t, 100)
		return []bucket.Verdict{
			s.voidAt(t, 0, ref, "a"), s.deductAt(t, 0, ref, "b"),
			s.deductAt(t, 1, ref, "a"), s.voidAt(t, 1, ref, "b"), s.voidAt(t, 1, ref, "c"),
			s.voidAt(t, 2, ref, "a"), s.voidAt(t, 2, ref, "b"), s.deductAt(t, 2, ref, "b"),
			s.deductAt(t, 2, ref, "c"), s.deductAt(t, 2, ref, "a"), s.deductAt(t, 2, ref, "e"),
			s.deductAt(t, 5, ref, "e"), s.deductAt(t, 5, ref, "a"), s.deductAt(t, 5, ref, "b"),
			s.voidAt(t, 5, ref, "c"),
		}
	}, bucket.OK, bucket.OK,
		bucket.Recorded, bucket.Recorded, bucket.OK,
		bucket.Recorded, bucket.OK, bucket.Recorded,
		bucket.Recorded, bucket.Recorded, bucket.OK,
		bucket.OK, bucket.Recorded, bucket.Recorded,
		bucket.Recorded)
}

// testSlicesPerEpoch: what one epoch records moves no other one on.
func testSlicesPerEpoch(t *testing.T, s *slicer) {
	s.story(t, func() []bucket.Verdict {
		ref, other := s.filled(t, 100), s.filled(t, 100)
		return []bucket.Verdict{
			s.deductAt(t, 0, ref, "a"),
			s.deductAt(t, 1, other, "a"), s.deductAt(t, 1, ref, "a"),
			s.deductAt(t, 2, other, "a"), s.deductAt(t, 2, other, "b"), s.deductAt(t, 2, ref, "a"),
		}
	}, bucket.OK, bucket.OK, bucket.Recorded, bucket.Recorded, bucket.OK, bucket.OK)
}

// testRecordsRestart: a lane that restarted with its data is not who it was, but it has the records,
// and says so whatever the activation.
func testRecordsRestart(t *testing.T, s *slicer) {
	s.story(t, func() []bucket.Verdict {
		s.activate(t, s.activation)
		ref := s.filled(t, 100)
		got := []bucket.Verdict{s.deductAt(t, 0, ref, "a"), s.voidAt(t, 0, ref, "v")}
		s.under.Restart()
		s.wantLost(t, s.Store, ref)
		s.activate(t, s.activation+1)
		return append(got, s.deductAt(t, 1, ref, "a"), s.deductAt(t, 1, ref, "v"),
			s.voidAt(t, 1, ref, "a"), s.deductAt(t, 1, ref, "b"))
	}, bucket.OK, bucket.OK,
		bucket.Recorded, bucket.Recorded, bucket.Recorded, bucket.WrongActivation)
}
