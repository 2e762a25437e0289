package crashpoints

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// archiving is the first step of a look at what is to be archived.
const archiving = "sql ArchiveBounds"

// archives are about entries of epochs that have ended: they leave the feed for the archive.
var archives = []operation{
	{name: "archive", shapes: []shape{narrow, wide, inRows}, total: 90, final: 90, base: 11, archives: true,
		from: archiving, prepare: endEpochs, until: (*world).quiet, proof: keeps(5, 2), reopen: idsReplay},
	{name: "archive, another node's segment", shapes: []shape{narrow, inRows}, total: 90, final: 90, base: 11,
		archives: true, from: archiving,
		prepare: func(w *world) {
			endEpochs(w)
			const first = 2 // entries: the others come in a segment of their own
			if _, err := w.model.BeginArchive(w.life, w.ref(0).Bucket, 0, first); err != nil {
				w.fault("prepare: %v", err)
			}
		}, until: (*world).quiet, proof: keeps(5, 3), reopen: idsReplay},
	{name: "archived ids", shapes: []shape{narrow, wide, inRows}, total: 90, final: 90, base: 11, archives: true,
		prepare: func(w *world) {
			endEpochs(w)
			w.settle()
		},
		calls: []call{referring("z", 7, 1).again(), rollingBack("y", "r", 2, 2).again(), rollingBack("y", "", 0, 3),
			referring("z", 8, 1).answered(budget.RequestConflict)},
		reopen: idsReplay},
}

// endEpochs leaves five entries of two ended epochs behind; of 16 units 11 are used.
func endEpochs(w *world) {
	w.must(referring("y", 5, 0))
	w.must(rollingBack("y", "r", 2, 2))
	w.must(holding("h", "", 4, 0, ages))
	w.must(confirming("h", 1, 1))
	w.must(referring("z", 7, 1))
	w.follow()
	for ordinal := range 2 {
		w.must(handling("offline", ordinal, nil))
		w.must(handling("online", ordinal, nil))
	}
}

// referring is a deduction with a reference, which an archived row has no longer.
func referring(id string, amount int64, ordinal int) call {
	c := deducting(id, amount, ordinal)
	c.do = func(ctx context.Context, w *world) (bool, error) {
		answer, err := w.node.Deduct(ctx, bucket.DeductRequest{Budget: w.budget, RequestID: id, Amount: amount,
			Key: w.key(ordinal), Reference: "of " + id})
		return answer.Replayed, err
	}
	return c
}

// idsReplay repeats what was archived, the last time.
func idsReplay(w *world) {
	for _, c := range []call{referring("z", 7, 1), rollingBack("y", "r", 2, 2), holding("h", "", 4, 0, ages),
		confirming("h", 1, 1)} {
		if replayed, err := w.try(&c); err != nil || !replayed {
			w.fault("%s of what is archived: replayed %v, %v", c.what, replayed, err)
		}
	}
	if open := w.shelf.unkept(w.row()); len(open) > 0 {
		w.fault("%v", open)
	}
}
