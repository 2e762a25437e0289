package storetest

import (
	"fmt"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var diffGrantGoals = []diffGoal{
	{"apply: granted", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(b *diffBudget, shard bucket.Bucket) bool {
			return mayGrow(shard) && g.releasable(b) > 0
		})
		if !found {
			at, found = g.place(func(b *diffBudget, shard bucket.Bucket) bool {
				return mayGrow(shard) && b.made.rule.Kind == "" // of a daily one F gets it
			})
			if !found {
				return g.create(), true
			}
			g.do(g.adjust(g.all[at.budget], int64(g.between(50, 150))))
		}
		return g.apply(at, g.between(1, 60), g.chance(2)), found
	}},
	{"apply: nothing", func(g *diffRun) (diffOp, bool) {
		much := g.chance(2)
		at, found := g.place(func(_ *diffBudget, shard bucket.Bucket) bool {
			return much || !mayGrow(shard)
		})
		if much {
			return g.apply(at, 10_000, true), found
		}
		return g.apply(at, 1, true), found
	}},
	{"hand out: granted", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(b *diffBudget, shard bucket.Bucket) bool {
			return mayGrow(shard) && g.releasable(b) > 0
		})
		return diffHandOut(at.budget, g.lanesOut()...), found
	}},
	{"hand out: opened", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(b *diffBudget, shard bucket.Bucket) bool {
			return shard.OfflineBy == bucket.ByService && !shard.Epoch.Status.Live() && g.releasable(b) > 0
		})
		if !found {
			return g.close(false)
		}
		return diffHandOut(at.budget, g.lanesOut()...), true
	}},
	{"hand out: nothing", always(func(g *diffRun) diffOp {
		b := g.any()
		g.do(diffHandOut(b.index))
		return diffHandOut(b.index)
	})},
	{"reopen: opened", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(_ *diffBudget, shard bucket.Bucket) bool {
			return !shard.Epoch.Status.Live()
		})
		return diffReopen(at), found
	}},
	{"reopen: nothing", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(_ *diffBudget, shard bucket.Bucket) bool {
			return shard.Epoch.Status.Live()
		})
		return diffReopen(at), found
	}},
	{"settle: opened", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(_ *diffBudget, shard bucket.Bucket) bool { return shard.Epoch.Status.Live() })
		if found {
			g.quiet(diffLoseMany([]diffPlace{at}))
		}
		return g.settle(at.budget), found
	}},
	{"settle: granted", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(_ *diffBudget, shard bucket.Bucket) bool { return shard.Epoch.Outstanding > 0 })
		if found {
			g.quiet(diffLoseMany([]diffPlace{at}))
		}
		return g.settle(at.budget), found
	}},
	{"settle: nothing", always(func(g *diffRun) diffOp {
		b := g.any()
		g.quiet(diffSettle([]int{b.index}, nil))
		return diffSettle([]int{b.index}, nil)
	})},
	{"mark open: opened", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(_ *diffBudget, shard bucket.Bucket) bool {
			return shard.Epoch.Status == ledger.Opening
		})
		return g.markOpen(at), found
	}},
	{"mark open: nothing", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(_ *diffBudget, shard bucket.Bucket) bool {
			return shard.Epoch.Status != ledger.Opening
		})
		return diffMarkOpen([]diffPlace{at}, "mark open: nothing"), found
	}},
}

func mayGrow(b bucket.Bucket) bool { return b.Epoch.Status == ledger.Open && b.Epoch.Fenced == "" }

// lanesOut are lanes that a call leaves out, mostly none.
func (g *diffRun) lanesOut() (lanes []bucket.Lane) {
	for g.chance(4) {
		lanes = append(lanes, laneOf(g.random.IntN(diffLanes)))
	}
	return lanes
}

// releasable is U less the pending shrinks that F does not cover.
func (g *diffRun) releasable(b *diffBudget) int64 {
	f, err := g.ref.db.Figures(g.ref.ctx, g.ref.id(b.index))
	if err != nil {
		panic(err)
	}
	if g.ref.read(b.index).Period.OverAt(g.ref.db.Now()) {
		return 0
	}
	return f.Undistributed - max(f.PendingShrink-f.Unfunded, 0)
}

func (g *diffRun) apply(at diffPlace, units int, unbounded bool) diffOp {
	need := int64(g.between(1, min(units, 3)))
	if units > 1_000 {
		need = int64(units)
	}
	return diffOp{fmt.Sprintf("apply %v %d %d unbounded %v", at, need, units, unbounded),
		func(s *diffStore) diffAnswer {
			order, err := s.db.Apply(s.ctx, s.id(at.budget), bucket.Want{
				Ref: s.ref(at), Need: need, Units: int64(units), Unbounded: unbounded})
			switch {
			case err != nil:
				return failure("apply", err)
			case order == nil:
				return answer("apply: nothing", "nothing")
			}
			return answer("apply: granted", "%s", s.order(order))
		}}
}

func (s *diffStore) handout(verb string, h bucket.Handout) diffAnswer {
	a := diffAnswer{text: "grants " + s.grants(h.Grants)}
	if len(h.Grants) > 0 {
		a.met = append(a.met, verb+": granted")
	}
	for i := range h.Opened {
		a.text += "\n   " + s.bucket(h.Opened[i])
	}
	if len(h.Opened) > 0 {
		a.met = append(a.met, verb+": opened")
	}
	if a.met == nil {
		a.met = []string{verb + ": nothing"}
	}
	return a
}

func diffHandOut(index int, without ...bucket.Lane) diffOp {
	return diffOp{fmt.Sprintf("hand out %d without %v", index, without), func(s *diffStore) diffAnswer {
		h, err := s.db.HandOut(s.ctx, s.id(index), without...)
		if err != nil {
			return failure("hand out", err)
		}
		return s.handout("hand out", h)
	}}
}

// settle settles a budget with others, mostly on all lanes.
func (g *diffRun) settle(index int) diffOp {
	indices := []int{index}
	for g.chance(2) {
		indices = append(indices, g.any().index)
	}
	return diffSettle(indices, g.lanesOut())
}

func diffSettle(indices []int, without []bucket.Lane) diffOp {
	return diffOp{fmt.Sprintf("settle %v without %v", indices, without), func(s *diffStore) diffAnswer {
		ids := make([]int64, len(indices))
		for i, index := range indices {
			ids[i] = s.id(index)
		}
		h, err := s.db.Settle(s.ctx, ids, without...)
		if err != nil {
			return failure("settle", err)
		}
		return s.handout("settle", h)
	}}
}

func diffReopen(at diffPlace) diffOp {
	return diffOp{fmt.Sprintf("reopen %v", at), func(s *diffStore) diffAnswer {
		h, err := s.db.Reopen(s.ctx, s.id(at.budget), s.bucketID(at))
		if err != nil {
			return failure("reopen", err)
		}
		return s.handout("reopen", h)
	}}
}

// markOpen lets the stores make the logs of a budget's opening epochs, and marks those open.
func (g *diffRun) markOpen(at diffPlace) diffOp {
	type life struct {
		at         diffPlace
		activation int64
	}
	var lives []life
	var places []diffPlace
	for i, shard := range g.ref.read(at.budget).Buckets {
		if shard.Epoch.Status == ledger.Opening && (i == at.ordinal || !g.chance(4)) {
			p := diffPlace{at.budget, i, shard.Epoch.Number}
			lives, places = append(lives, life{p, shard.Epoch.Activation}), append(places, p)
		}
	}
	g.quiet(diffOp{fmt.Sprintf("stores open %+v", lives), func(s *diffStore) diffAnswer {
		for _, l := range lives {
			s.books[l.at] = newSQLBook(bucket.Ref{
				Bucket: s.bucketID(l.at), Epoch: l.at.epoch, Activation: l.activation})
		}
		return diffAnswer{}
	}})
	return diffMarkOpen(places, "mark open: opened")
}

func diffMarkOpen(places []diffPlace, result string) diffOp {
	return diffOp{fmt.Sprintf("mark open %v", places), func(s *diffStore) diffAnswer {
		refs := make([]bucket.Ref, len(places))
		for i, p := range places {
			refs[i] = s.ref(p)
		}
		if err := s.db.MarkOpen(s.ctx, refs); err != nil {
			return failure("mark open", err)
		}
		return answer(result, "done")
	}}
}

var diffEndGoals = []diffGoal{
	{"ending: true", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(b *diffBudget, shard bucket.Bucket) bool {
			return shard.Epoch.Status == ledger.Open
		})
		return g.ending(at, g.chance(2)), found
	}},
	{"ending: false", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(_ *diffBudget, shard bucket.Bucket) bool {
			return shard.Epoch.Status != ledger.Open
		})
		return g.ending(at, false), found
	}},
	{"ending: last_bucket", (*diffRun).endLast},
	{"close: to the total", func(g *diffRun) (diffOp, bool) { return g.close(false) }},
	{"close: to a target", func(g *diffRun) (diffOp, bool) { return g.close(true) }},
	{"close: mismatch", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(b *diffBudget, shard bucket.Bucket) bool {
			s := shard.Epoch.Status
			book := g.ref.books[diffPlace{b.index, shard.Ordinal, shard.Epoch.Number}]
			return (s == ledger.Open || s == ledger.Closing) && shard.Epoch.Fenced == "" && book != nil
		})
		return diffClose(at, nil, 0, int64(g.between(1, 3))), found
	}},
	{"close: ended", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(b *diffBudget, shard bucket.Bucket) bool {
			return !shard.Epoch.Status.Live() &&
				g.ref.books[diffPlace{b.index, shard.Ordinal, shard.Epoch.Number}] != nil
		})
		return diffClose(at, nil, 0, 0), found
	}},
	{"close: fenced", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(b *diffBudget, shard bucket.Bucket) bool {
			return shard.Epoch.Status.Live() && shard.Epoch.Fenced != "" &&
				g.ref.books[diffPlace{b.index, shard.Ordinal, shard.Epoch.Number}] != nil
		})
		return diffClose(at, nil, 0, 0), found
	}},
	{"fence: stopped", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(_ *diffBudget, shard bucket.Bucket) bool {
			return shard.Epoch.Status.Live() && shard.Epoch.Fenced == ""
		})
		return diffFence(at, g.why(), "fence: stopped"), found
	}},
	{"fence: nothing", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(_ *diffBudget, shard bucket.Bucket) bool {
			return !shard.Epoch.Status.Live() || shard.Epoch.Fenced != ""
		})
		return diffFence(at, g.why(), "fence: nothing"), found
	}},
	{"lose: true", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(_ *diffBudget, shard bucket.Bucket) bool {
			return shard.Epoch.Fenced != ""
		})
		return diffLose(at), found
	}},
	{"lose: false", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(_ *diffBudget, shard bucket.Bucket) bool {
			return !shard.Epoch.Status.Live()
		})
		return diffLose(at), found
	}},
	{"lose many: some", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(_ *diffBudget, shard bucket.Bucket) bool { return shard.Epoch.Status.Live() })
		return g.loseMany(at), found
	}},
	{"lose many: none", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(_ *diffBudget, shard bucket.Bucket) bool { return !shard.Epoch.Status.Live() })
		return diffLoseMany([]diffPlace{at, at}), found
	}},
}

// loseMany loses an epoch with others, of other budgets too.
func (g *diffRun) loseMany(at diffPlace) diffOp {
	places := []diffPlace{at}
	for range g.random.IntN(4) {
		if other, found := g.place(func(*diffBudget, bucket.Bucket) bool { return true }); found {
			places = append(places, other)
		}
	}
	return diffLoseMany(places)
}

func diffLoseMany(places []diffPlace) diffOp {
	return diffOp{fmt.Sprintf("lose many %v", places), func(s *diffStore) diffAnswer {
		refs := make([]bucket.Ref, len(places))
		for i, p := range places {
			refs[i] = s.ref(p)
		}
		lost, err := s.db.LoseAll(s.ctx, refs)
		if err != nil {
			return failure("lose many", err)
		}
		var texts []string
		for _, ref := range lost {
			texts = append(texts, s.refText(ref))
		}
		return answer(map[bool]string{true: "lose many: some", false: "lose many: none"}[len(lost) > 0], "%v", texts)
	}}
}

func (g *diffRun) why() string {
	return strings.Repeat(pick(g, []string{"a broken hash", "é", "x"}), g.between(1, 300))
}

func (g *diffRun) ending(at diffPlace, keep bool) diffOp {
	by := pick(g, []bucket.OfflineBy{bucket.ByOperator, bucket.ByService, bucket.ByService})
	return diffOp{fmt.Sprintf("ending %v by %s keep %v", at, by, keep), func(s *diffStore) diffAnswer {
		ended, err := s.db.Ending(s.ctx, s.id(at.budget), s.ref(at), by, keep)
		if err != nil {
			return failure("ending", err)
		}
		return answer(fmt.Sprintf("ending: %v", ended), "%v", ended)
	}}
}

// endLast ends the last online bucket of an effective budget.
func (g *diffRun) endLast() (diffOp, bool) {
	now := g.ref.db.Now()
	at, found := g.place(func(b *diffBudget, shard bucket.Bucket) bool {
		f, err := g.ref.db.Figures(g.ref.ctx, g.ref.id(b.index))
		return err == nil && f.Online == 1 && shard.Online && shard.Epoch.Status == ledger.Open &&
			g.ref.read(b.index).StatusAt(now) == budget.Effective
	})
	if !found { // take more buckets offline
		at, found = g.place(func(_ *diffBudget, shard bucket.Bucket) bool {
			return shard.Epoch.Status == ledger.Open
		})
	}
	return g.ending(at, false), found
}

// close closes an epoch that is closing: its log, the ledger up to there, its row. Where none is,
// it begins to end one.
func (g *diffRun) close(into bool) (diffOp, bool) {
	in := func(status ledger.Status) func(b *diffBudget, shard bucket.Bucket) bool {
		return func(b *diffBudget, shard bucket.Bucket) bool {
			if shard.Epoch.Status != status || shard.Epoch.Fenced != "" {
				return false
			}
			if !into {
				return true
			}
			_, other := g.placeOf(b, func(_ *diffBudget, o bucket.Bucket) bool {
				return o.ID != shard.ID && mayGrow(o)
			})
			return other && shard.Epoch.Outstanding > 0
		}
	}
	at, found := g.place(in(ledger.Closing))
	if !found {
		at, found = g.place(in(ledger.Open))
		if !found {
			return g.create(), true // a fresh budget has open epochs soon
		}
		if g.do(g.ending(at, false)).text != "true" {
			return diffOp{}, false
		}
	}
	if !g.ref.books[at].closed() {
		g.quiet(diffOp{fmt.Sprintf("the store closes %v", at), func(s *diffStore) diffAnswer {
			s.books[at].close()
			return diffAnswer{}
		}})
	}
	g.do(diffCommit([]diffLog{{at: at, from: g.ref.row(at).DrainedSeq}}))
	var target *diffPlace
	if into {
		to, any := g.placeOf(g.all[at.budget], func(_ *diffBudget, shard bucket.Bucket) bool {
			return mayGrow(shard) || g.chance(8)
		})
		if any {
			target = &to
		}
	}
	atMost := int64(0)
	if target != nil && g.chance(3) {
		atMost = int64(g.between(1, 40))
	}
	return diffClose(at, target, atMost, 0), true
}

// diffClose closes an epoch by the last entry of its log, or by one whose balance is off.
func diffClose(at diffPlace, target *diffPlace, atMost, off int64) diffOp {
	return diffOp{fmt.Sprintf("close %v into %v (at most %d) off by %d", at, target, atMost, off),
		func(s *diffStore) diffAnswer {
			book := s.books[at]
			entry := book.entries[len(book.entries)-1]
			if off != 0 {
				forged := sqlBook{ref: book.ref, balance: book.balance + off, grants: book.grants}
				forged.entries = book.entries[:len(book.entries):len(book.entries)]
				entry = forged.close()
			}
			var to *bucket.Target
			if target != nil {
				to = &bucket.Target{Ref: s.ref(*target), AtMost: atMost}
			}
			order, err := s.db.CloseEpoch(s.ctx, s.id(at.budget), s.ref(at), entry, to)
			switch {
			case err != nil:
				return failure("close", err)
			case order == nil:
				return answer("close: to the total", "closed")
			}
			return answer("close: to a target", "%s", s.order(order))
		}}
}

func diffFence(at diffPlace, why, result string) diffOp {
	return diffOp{fmt.Sprintf("fence %v %.20s", at, why), func(s *diffStore) diffAnswer {
		if err := s.db.Fence(s.ctx, s.ref(at), why); err != nil {
			return failure("fence", err)
		}
		return answer(result, "done")
	}}
}

func diffLose(at diffPlace) diffOp {
	return diffOp{fmt.Sprintf("lose %v", at), func(s *diffStore) diffAnswer {
		lost, err := s.db.Lose(s.ctx, s.ref(at))
		if err != nil {
			return failure("lose", err)
		}
		return answer(fmt.Sprintf("lose: %v", lost), "%v", lost)
	}}
}
