package storetest

import (
	"fmt"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var judgeTests = []sqlTest{
	{"judge/recorded ids", judgeRecorded},
	{"judge/units wherever they are", judgeCover},
	{"judge/pending shrinks are not subtracted", judgeShrink},
	{"judge/undistributed units that nobody may apply for", judgeNobodyMayApply},
}

func (w *sqlWorld) judge(id int64, ids ...string) bucket.Judgement {
	w.Helper()
	j := must(w.db.Judge(w.ctx, id, ids))(w)
	covers := must(w.db.Covers(w.ctx, []int64{id, id, 1 << 40}))(w)
	equal(w, "covers", len(covers), 1)
	equal(w, "cover by list", covers[id], j.Cover)
	return j
}

func judgeRecorded(w *sqlWorld) {
	b, other := w.create("b", 100, 2), w.create("other", 50, 1)
	w.use(b.Buckets[0].Ref(), "a", 3)
	w.use(b.Buckets[1].Ref(), "A", 4)
	w.use(other.Buckets[0].Ref(), "there", 5)
	must(w.db.Cancel(w.ctx, b.ID, "void"))(w)
	j := w.judge(b.ID, "a", "A", "a ", "void", "there", "none")
	equal(w, "found", len(j.Recorded), 3)
	for _, id := range []string{"a", "A", "void"} {
		want, _ := w.recorded(b.ID, id)
		equal(w, id, inUTC(j.Recorded[id]), inUTC(want))
	}
	equal(w, "cover", j.Cover, bucket.Cover{Outstanding: 93})
	none := w.judge(b.ID)
	equal(w, "found without ids", len(none.Recorded), 0)
	equal(w, "cover without ids", none.Cover, j.Cover)
	var many []string
	for i := range 1_000 {
		many = append(many, fmt.Sprint("id-", i))
	}
	equal(w, "found of many", len(w.judge(b.ID, append(many, "a")...).Recorded), 1)
}

func judgeCover(w *sqlWorld) {
	b := w.create("b", 600, 6)
	refs := make([]bucket.Ref, 6)
	for i := range refs {
		refs[i] = b.Buckets[i].Ref()
	}
	w.use(refs[0], "used", 10)
	_, _, err := w.db.Rollback(w.ctx, bucket.RollbackOrder{Budget: b.ID, RequestID: "used", Amount: 4})
	w.ok(err)
	w.use(refs[1], "rolled back after its bucket was closed", 7)
	w.offline(b.ID, refs[1], bucket.ByOperator, false, nil)
	must(w.db.Cancel(w.ctx, b.ID, "rolled back after its bucket was closed"))(w)
	must(w.db.Ending(w.ctx, b.ID, refs[2], bucket.ByService, false))(w)
	w.ok(w.db.Fence(w.ctx, refs[3], "broken"))
	must(w.db.Lose(w.ctx, refs[4]))(w)
	must(w.db.Reopen(w.ctx, b.ID, refs[4].Bucket))(w)
	// O: 90 + 100 closing + 100 fenced + 100; R: 4 + 7; U: 93 closed + 100 lost
	equal(w, "cover", w.judge(b.ID).Cover,
		bucket.Cover{Undistributed: 193, Outstanding: 390, Returning: 11})
	must(w.db.Sweep(w.ctx, b.ID))(w)
	equal(w, "cover after a sweep", w.judge(b.ID).Cover,
		bucket.Cover{Undistributed: 204, Outstanding: 390})
	equal(w, "sum", w.judge(b.ID).Cover.Sum(), 594)
}

func judgeShrink(w *sqlWorld) {
	b := w.create("b", 100, 1)
	must(w.append(b.ID, "more", 10))(w)
	state := must(w.append(b.ID, "less", -60))(w)
	equal(w, "state", state, bucket.AdjustmentPending)
	equal(w, "cover", w.judge(b.ID).Cover, bucket.Cover{Undistributed: 10, Outstanding: 100})
}

func judgeNobodyMayApply(w *sqlWorld) {
	b := w.create("b", 100, 2, func(d *budget.Definition) { d.AdjustCnt = 2 })
	refs := []bucket.Ref{b.Buckets[0].Ref(), b.Buckets[1].Ref()}
	must(w.append(b.ID, "more", 30))(w)
	undistributed := func(when string, want int64) {
		w.Helper()
		equal(w, "undistributed "+when, w.judge(b.ID).Cover.Undistributed, want)
	}
	undistributed("while both may apply once more", 30)
	for i, ref := range refs {
		must(w.db.Apply(w.ctx, b.ID, bucket.Want{Ref: ref, Need: 1, Units: 1}))(w)
		undistributed(fmt.Sprintf("after %d applied", i+1), []int64{29, 0}[i])
	}
	zero := 0
	must(w.db.Change(w.ctx, b.ID, bucket.Change{AdjustCnt: &zero}))(w)
	undistributed("without a bound", 28)
	paused := true
	must(w.db.Change(w.ctx, b.ID, bucket.Change{Paused: &paused}))(w)
	for _, ref := range refs {
		equal(w, "ending", must(w.db.Ending(w.ctx, b.ID, ref, bucket.ByOperator, false))(w), true)
	}
	equal(w, "outstanding", w.judge(b.ID).Cover.Outstanding, 102)
	equal(w, "status of the epochs", w.epoch(refs[0]).Status, ledger.Closing)
	undistributed("with every bucket taken offline by an operator", 28)
	one := 1
	must(w.db.Change(w.ctx, b.ID, bucket.Change{AdjustCnt: &one}))(w)
	undistributed("with every bucket taken offline by an operator, and none that might apply again", 28)
}
