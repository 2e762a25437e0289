package crashpoints

import (
	"context"
	"fmt"

	"github.com/budgetd/budgetd/bucket"
)

// instances are operations in which buckets come, go and move.
var instances = []operation{
	{name: "drain an instance", shapes: []shape{wide}, total: 90, final: 90, base: 5,
		prepare: func(w *world) {
			w.must(deducting("y", 5, w.onServer("m0")))
			w.follow()
		}, calls: []call{draining}, until: (*world).quiet, proof: left("m0")},
	{name: "deduct from a bucket that is to move", shapes: []shape{wide}, total: 90, final: 90, base: 5,
		prepare: func(w *world) {
			w.must(deducting("y", 5, w.onServer("m0")))
			w.follow()
		}, calls: []call{draining, deducting("x", 10, 0), deducting("x2", 10, 1), deducting("x3", 10, 2)},
		until: (*world).quiet, proof: left("m0")},
	{name: "drain and undrain", shapes: []shape{wide}, total: 90, final: 90,
		calls: []call{draining, {what: "undrain m0", do: func(ctx context.Context, w *world) (bool, error) {
			_, err := w.node.Undrain(ctx, "m0")
			return false, err
		}}}, until: (*world).quiet},
	{name: "recover an instance", shapes: []shape{wide, single, inRows}, total: 90, final: 90, base: 5, loses: true,
		prepare: func(w *world) {
			w.must(deducting("y", 5, w.onServer("m0")))
			w.follow()
		}, calls: []call{recovering, onLostLane}, until: (*world).quiet, proof: quarantines(0)},
	{name: "recover an instance beside deductions", shapes: []shape{wide}, total: 90, final: 90, base: 5, loses: true,
		prepare: func(w *world) {
			w.must(deducting("y", 5, w.onServer("m0")))
			w.follow()
		}, together: true, calls: []call{onLane("x", 10), recovering, onLane("x2", 10), deducting("x3", 5, 1)},
		until: (*world).quiet, proof: quarantines(0)},
	{name: "more buckets", shapes: []shape{wide, narrow, inRows}, total: 90, final: 90, base: 5,
		prepare: func(w *world) {
			w.must(deducting("y", 5, 0))
			w.follow()
		}, calls: []call{resizing(5)}, until: (*world).quiet, proof: resized(5), reopen: becomes(5)},
	{name: "fewer buckets", shapes: []shape{wide, narrow, inRows}, total: 90, final: 90, base: 15,
		prepare: func(w *world) {
			for i := range 3 {
				w.must(deducting(fmt.Sprint("y", i), 5, i))
			}
			w.follow()
		}, calls: []call{resizing(1)}, until: (*world).quiet, proof: resized(1), reopen: becomes(1)},
}

// draining is an operator's drain of an instance. Repeating it is harmless.
var draining = call{what: "drain m0", do: func(ctx context.Context, w *world) (bool, error) {
	_, err := w.node.Drain(ctx, "m0")
	return false, err
}}

// recovering is an operator's recovery of an instance. Each makes another activation of its lane.
var recovering = call{what: "recover m0", do: func(ctx context.Context, w *world) (bool, error) {
	lane := bucket.Lane{Instance: "m0"}
	was := w.model.Tables().Lanes[lane].Activation
	views, err := w.node.Recover(ctx, lane.Instance)
	if is := w.model.Tables().Lanes[lane].Activation; err == nil && (is <= was || len(views) != 1) {
		w.fault("m0 was recovered: activation %d, before %d, %d lanes", is, was, len(views))
	}
	return false, err
}}

// left says which bucket is on an instance still.
func left(instance string) func(*world) string {
	return func(w *world) string {
		for _, b := range w.row().Buckets {
			if b.Bucket.Lane.Instance == instance {
				return b.Bucket.Key + " is on " + instance
			}
		}
		return ""
	}
}

func resizing(buckets int) call {
	return changing(fmt.Sprint(buckets, " buckets"), bucket.Change{BucketQuantity: &buckets}, nil)
}

// ring counts the buckets that keys are spread over, and those of them that serve.
func (w *world) ring() (buckets, online int) {
	for _, b := range w.row().Buckets {
		if b.Bucket.OfflineBy == bucket.ByResize {
			continue
		}
		buckets++
		if b.Bucket.Online {
			online++
		}
	}
	return buckets, online
}

// resized says that the budget has not as many buckets, or none that serves.
func resized(buckets int) func(*world) string {
	return func(w *world) string {
		if n, online := w.ring(); n != buckets || online == 0 {
			return fmt.Sprintf("%d buckets, %d of them online, want %d", n, online, buckets)
		}
		return ""
	}
}

// becomes: a change that was begun is finished, at the latest when it was repeated.
func becomes(buckets int) func(*world) {
	return func(w *world) {
		if why := resized(buckets)(w); why != "" {
			w.fault("%s", why)
		}
	}
}
