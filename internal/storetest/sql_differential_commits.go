package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

var diffCommitGoals = []diffGoal{
	{"commit: accepted", always((*diffRun).commit)},
	{"commit: duplicate", always((*diffRun).commit)},
	{"commit: void", always((*diffRun).commit)},
	{"commit: expired", (*diffRun).commitExpired},
	{"commit: read again", func(g *diffRun) (diffOp, bool) {
		return g.commitOf(func(e ledger.Epoch) bool {
			return e.Status == ledger.Open && e.Fenced == "" && e.DrainedSeq >= 2
		}, func(at diffPlace) diffLog {
			drained := g.ref.row(at).DrainedSeq
			return diffLog{at: at, end: int64(g.between(1, int(drained)))}
		})
	}},
	{"commit: ended", func(g *diffRun) (diffOp, bool) {
		return g.commitOf(func(e ledger.Epoch) bool { return !e.Status.Live() },
			func(at diffPlace) diffLog { return diffLog{at: at} })
	}},
	{"commit: fenced", func(g *diffRun) (diffOp, bool) {
		return g.commitOf(func(e ledger.Epoch) bool {
			return e.Fenced != "" && (e.Status == ledger.Open || e.Status == ledger.Closing)
		}, func(at diffPlace) diffLog { return diffLog{at: at} })
	}},
	{"commit: mismatch", func(g *diffRun) (diffOp, bool) {
		return g.commitOf(func(e ledger.Epoch) bool {
			return e.Fenced == "" && (e.Status == ledger.Open || e.Status == ledger.Closing)
		}, func(at diffPlace) diffLog {
			drained := g.ref.row(at).DrainedSeq
			return diffLog{at: at, from: drained, fault: g.between(1, diffFaults)}
		})
	}},
	{"commit: opening", func(g *diffRun) (diffOp, bool) {
		at, found := g.place(func(_ *diffBudget, shard bucket.Bucket) bool {
			return shard.Epoch.Status == ledger.Opening
		})
		return diffCommit([]diffLog{{at: at, fault: diffOpening}}), found
	}},
}

// diffLog is a part of a log to be committed. end 0: all of it.
type diffLog struct {
	at        diffPlace
	from, end int64
	fault     int
}

// What may be wrong with a log: numbers 1 to diffFaults end in a mismatch.
const (
	diffEmpty = iota + 1
	diffWithoutDrained
	diffWrongChain
	diffUnknownGrant
	diffTooMuch
	diffAnotherLife
	diffOpening

	diffFaults = diffAnotherLife
)

// log builds the log as a database's own store would have it.
func (d diffLog) log(s *diffStore) ledger.Log {
	if d.fault == diffOpening {
		return newSQLBook(s.ref(d.at)).log(0)
	}
	book := s.books[d.at]
	log := book.log(d.from)
	if d.end > 0 {
		log.Entries = log.Entries[:d.end-d.from]
	}
	if d.fault == 0 {
		return log
	}
	// The entries up to the drained one, then what is wrong.
	forged := sqlBook{ref: book.ref, entries: slices.Clone(book.entries[:d.from+1])}
	switch d.fault {
	case diffEmpty:
		forged.entries = forged.entries[:d.from]
	case diffWithoutDrained:
		forged.deduct("forged", 1)
		log := forged.log(d.from + 1)
		log.From = d.from
		return log
	case diffWrongChain:
		forged.deduct("forged", 1)
		forged.entries[d.from+1].Chain = strings.Repeat("f", ledger.ChainBytes)
	case diffUnknownGrant:
		forged.append(ledger.Line(ledger.KindGrant, 1, "4711"))
	case diffTooMuch:
		forged.deduct("forged", 1<<40)
	case diffAnotherLife:
		other := book.ref
		other.Activation += 7
		life := newSQLBook(other)
		for range d.from {
			life.deduct("forged", 1)
		}
		return life.log(d.from)
	}
	return forged.log(d.from)
}

// request makes a request for a budget: mostly a new id, sometimes one that is known or void.
func (g *diffRun) request(b *diffBudget, amount int64) ledger.Request {
	b.requests++
	id := fmt.Sprintf("%d/%d", b.index, b.requests)
	switch n := g.random.IntN(20); {
	case n < 3 && len(b.ids) > 0:
		id = pick(g, b.ids)
	case n < 6 && len(b.voids) > 0:
		id = pick(g, b.voids)
	case n == 6:
		id += pick(g, distinctIDs)
		b.ids = append(b.ids, id)
	default:
		b.ids = append(b.ids, id)
	}
	r := sqlRequest(id, amount, fmt.Sprint(g.random.Uint64()))
	if g.chance(5) {
		r.Reference, r.Dimensions = pick(g, distinctIDs), ledger.Dimensions(map[string]string{"user": id})
	}
	if b.limited && !g.chance(10) {
		r.Dimensions = ledger.Dimensions(g.dimensions())
		if g.chance(8) {
			r.Counts = ledger.Counts(map[string]int64{"l0": int64(g.between(0, 3))})
		}
	}
	return r
}

// diffEntry is a deduction that a store admits.
type diffEntry struct {
	at      diffPlace
	amount  int64
	request ledger.Request
}

// deduct lets grants arrive and stores admit up to n deductions.
func (g *diffRun) deduct(n int) {
	var places []diffPlace
	for _, b := range g.active {
		g.deliver(b)
		for i, shard := range g.ref.read(b.index).Buckets {
			at := diffPlace{b.index, i, shard.Epoch.Number}
			book := g.ref.books[at]
			if book != nil && !book.closed() && book.balance > 0 && shard.Epoch.Status != ledger.Lost {
				places = append(places, at)
			}
		}
	}
	var entries []diffEntry
	balance := map[diffPlace]int64{}
	for range n {
		if len(places) == 0 {
			break
		}
		at := pick(g, places)
		amount := int64(g.between(1, 9))
		if left := g.ref.books[at].balance - balance[at]; left < amount {
			continue
		}
		balance[at] += amount
		entries = append(entries, diffEntry{at, amount, g.request(g.all[at.budget], amount)})
	}
	if len(entries) == 0 {
		return
	}
	g.deducted += len(entries)
	g.operations += len(entries)
	g.quiet(diffOp{fmt.Sprintf("stores admit %+v", entries), func(s *diffStore) diffAnswer {
		for _, e := range entries {
			s.books[e.at].admit(e.amount, e.request)
		}
		return diffAnswer{}
	}})
}

// quiet performs something that is no operation on a database.
func (g *diffRun) quiet(op diffOp) {
	g.do(op)
	g.operations--
}

// deliver lets pending grants of a budget arrive in their logs, sometimes only the first ones.
func (g *diffRun) deliver(b *diffBudget) {
	u, err := g.ref.db.UnfinishedOf(g.ref.ctx, g.ref.id(b.index))
	if err != nil {
		panic(err)
	}
	type arrival struct {
		at             diffPlace
		number, amount int64
	}
	var arrivals []arrival
	for _, p := range u.Grants {
		at := g.ref.place(p.Order.Ref.Bucket, p.Order.Ref.Epoch)
		book := g.ref.books[at]
		if book == nil || book.closed() || p.Order.Number <= book.grants {
			continue
		}
		if g.chance(10) {
			break // this one and later ones stay under way
		}
		arrivals = append(arrivals, arrival{at, p.Order.Number, p.Order.Amount})
	}
	if len(arrivals) == 0 {
		return
	}
	g.quiet(diffOp{fmt.Sprintf("grants arrive %+v", arrivals), func(s *diffStore) diffAnswer {
		for _, a := range arrivals {
			s.books[a.at].grant(bucket.GrantOrder{Number: a.number, Amount: a.amount})
		}
		return diffAnswer{}
	}})
}

// behind returns the logs of active budgets that hold more than the ledger has.
func (g *diffRun) behind(wanted func(b *diffBudget) bool) []diffLog {
	var logs []diffLog
	for _, b := range g.active {
		if !wanted(b) {
			continue
		}
		for i, shard := range g.ref.read(b.index).Buckets {
			e := shard.Epoch
			at := diffPlace{b.index, i, e.Number}
			book := g.ref.books[at]
			if book == nil || e.Fenced != "" || e.Status != ledger.Open && e.Status != ledger.Closing ||
				int64(len(book.entries)) <= e.DrainedSeq+1 {
				continue
			}
			log := diffLog{at: at, from: e.DrainedSeq}
			if g.chance(4) {
				log.from = 0
			}
			if g.chance(4) { // a part of it
				log.end = e.DrainedSeq + 1 + int64(g.between(0, len(book.entries)-int(e.DrainedSeq)-1))
			}
			logs = append(logs, log)
		}
	}
	return logs
}

// commit commits several logs.
func (g *diffRun) commit() diffOp {
	logs := g.behind(func(*diffBudget) bool { return true })
	g.random.Shuffle(len(logs), func(i, j int) { logs[i], logs[j] = logs[j], logs[i] })
	return diffCommit(logs[:min(len(logs), g.between(1, 8))])
}

// commitExpired commits what a budget has in its logs once its end has come, and takes the end
// away.
func (g *diffRun) commitExpired() (diffOp, bool) {
	b := g.any()
	logs := g.behind(func(one *diffBudget) bool { return one == b })
	end := g.elapsed() + time.Second
	if len(logs) == 0 || b.made.start >= end {
		return diffOp{}, false
	}
	g.do(diffEnd(b, end))
	g.quiet(diffOp{"wait for the end", func(s *diffStore) diffAnswer {
		s.clock.Advance(time.Second)
		return diffAnswer{}
	}})
	g.do(diffCommit(logs))
	return diffEnd(b, 0), true
}

// diffEnd changes a budget's end.
func diffEnd(b *diffBudget, end time.Duration) diffOp {
	return diffOp{fmt.Sprintf("change %d to end at %v", b.index, end), func(s *diffStore) diffAnswer {
		at := s.at(end)
		d, err := s.db.Change(s.ctx, s.id(b.index), bucket.Change{EndAt: &at})
		if err != nil {
			return failure("change", err)
		}
		return answer("change: changed", "%s", s.definition(d))
	}}
}

// commitOf commits a certain log of a newest epoch, beside one or two others.
func (g *diffRun) commitOf(wanted func(ledger.Epoch) bool, log func(at diffPlace) diffLog) (
	diffOp, bool) {
	at, found := g.place(func(b *diffBudget, shard bucket.Bucket) bool {
		return wanted(shard.Epoch) &&
			g.ref.books[diffPlace{b.index, shard.Ordinal, shard.Epoch.Number}] != nil
	})
	if !found {
		return diffOp{}, false
	}
	logs := []diffLog{log(at)}
	for _, other := range g.behind(func(*diffBudget) bool { return g.chance(4) }) {
		if other.at != at && len(logs) < 3 {
			logs = append(logs, other)
		}
	}
	return diffCommit(logs), true
}

func diffCommit(logs []diffLog) diffOp {
	slices.SortFunc(logs, func(a, b diffLog) int {
		return cmp.Or(cmp.Compare(a.at.budget, b.at.budget), cmp.Compare(a.at.ordinal, b.at.ordinal))
	})
	return diffOp{fmt.Sprintf("commit %+v", logs), func(s *diffStore) diffAnswer {
		own := make([]ledger.Log, len(logs))
		for i := range logs {
			own[i] = logs[i].log(s)
		}
		report, err := s.db.Commit(s.ctx, own)
		if err != nil {
			return failure("commit", err)
		}
		var out diffAnswer
		for i, r := range report.Epochs {
			text := "\n   " + s.epoch(r.Row)
			if r.Err != nil {
				a := failure("commit", r.Err)
				text += " " + a.text
				out.met = append(out.met, a.met...)
			} else if logs[i].fault == diffOpening {
				out.met = append(out.met, "commit: opening")
			}
			if r.Close != nil {
				text += fmt.Sprintf(" close %d", r.Close.Seq)
			}
			for _, o := range r.Outcomes {
				text += "\n     " + s.outcome(o)
				result := "accepted"
				if o.Duplicate != nil {
					result = string(o.Duplicate.Reason)
				}
				out.met = append(out.met, "commit: "+result)
			}
			out.text += text
		}
		return out
	}}
}

// closed reports whether the log ends with a close entry.
func (b *sqlBook) closed() bool { return b.entries[len(b.entries)-1].Kind == ledger.KindClose }
