package bucket

import (
	"cmp"
	"maps"
	"slices"
)

// Turns makes the order in which goroutines of a service go on a matter of choice. Wherever one
// goroutine of the service starts or wakes others, they take places and go on when their turns come;
// a simulation lets one go on at a time, so that the same seed gives the same schedule on any
// machine. Safe for concurrent use.
type Turns interface {
	// Take returns a place that nobody else has. It is called by the goroutine that starts another
	// one, or is about to wait for one: while goroutines go on one at a time, so always in the same
	// order.
	Take() int64
	// Wait returns when it is the turn of the place.
	Wait(place int64)
}

// turns are the Turns of a service; without any, which is the rule, everybody goes on at once and it
// costs a comparison.
type turns struct{ Turns }

func (t turns) take() int64 {
	if t.Turns == nil {
		return 0
	}
	return t.Take()
}

func (t turns) wait(place int64) {
	if t.Turns != nil {
		t.Wait(place)
	}
}

// inOrder returns the keys of a map by lane in one order: calls made one after the other in the order
// of a map would differ from run to run.
func inOrder[V any](m map[Lane]V) []Lane { return slices.SortedFunc(maps.Keys(m), compareLanes) }

// refsInOrder is inOrder for a map by epoch.
func refsInOrder[V any](m map[Ref]V) []Ref { return slices.SortedFunc(maps.Keys(m), compareRefs) }

func compareRefs(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(a.Epoch, b.Epoch))
}
