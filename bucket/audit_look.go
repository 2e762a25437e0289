package bucket

import (
	"context"
	"maps"
	"math"
	"time"

	"github.com/budgetd/budgetd/ledger"
)

// The audit in the background has three parts, all on by default and none of which stops anything:
//
//   - looks: every live epoch, its store against the ledger and against its own columns, each
//     Settings.Audit, or as often as a tenth of a connection to SQL allows (audit_look.go);
//   - books: every budget's columns against each other (audit_books.go);
//   - the recount: every row of the ledger, so many a second, over and over (audit_recount.go).
//
// What disagrees is looked at again before anything is said of it. A bucket with a discrepancy is
// fenced and no other; one of the budget itself fences nothing: see docs/OPERATIONS.md.

// Bounds of a look.
const (
	// lookPage is how many epochs are read at once.
	lookPage = 500
	// lookRows is about how many ledger rows a look at one lane counts again, lookLeast and lookMost
	// what each of its epochs gets.
	lookRows, lookLeast, lookMost = 25_000, 64, 5_000
	// lookAgain is how often what disagrees is read anew before it is believed.
	lookAgain = 2
	// lookShare is the part of a connection to SQL that the lists of epochs take, and the sums over their rows: one in so
	// many, each of the two, over all lanes.
	lookShare = 10
	// lookRest is the longest that a look rests for that, and lookDebt the longest until rows are summed up again, however
	// long SQL hung and whatever the clock did.
	lookRest, lookDebt = 10 * time.Second, time.Minute
)

// watched is what the looks at a lane remember of a live epoch.
type watched struct {
	// from is the read since which rows are counted: it and middle were found right. When middle is
	// far enough behind, it takes from's place.
	from, middle ledger.StoreRead
	// pending is the oldest read that the ledger had not come to; zero: none. While the ledger is behind by more than
	// a look drains, it is what is compared, so that from moves on and the rows to count do not become ever more.
	pending ledger.StoreRead
	// behind is a position that was not in the ledger at the instant since; 0: none.
	behind int64
	since  time.Duration
	// look is the number of the look that last saw it.
	look int64
}

// looks is what the looks at a lane remember. One loop has it.
type looks struct {
	known  map[Ref]watched
	number int64
	// credit is for how long SQL may sum up rows now, at that instant of Service.now.
	credit, at time.Duration
	// after is the epoch behind which the rows are summed up next.
	after Ref
}

// lookAtLane reads every live epoch of a lane in its store, and compares as many with the ledger as its share of SQL
// allows, the next ones the next time. It returns when the next look may begin, but for Settings.Audit.
func (s *Service) lookAtLane(ctx context.Context, l *lane, looks *looks) {
	known := looks.known
	window := int64(min(max(lookRows/max(len(known), 1), lookLeast), lookMost))
	looks.number++
	share := time.Duration(lookShare * len(s.lanes))
	looks.earn(s.now(), share, s.set.Audit)
	skipped := false
	lag, age, listing := int64(0), time.Duration(0), time.Duration(0)
	leave := leaving{until: s.now() + othersPatience, behind: true}
	for after := (Ref{}); ctx.Err() == nil; {
		asked := s.now()
		epochs, err := s.sql.Live(ctx, l.id, after, lookPage)
		if err != nil {
			s.failed("sql", err)
			return
		}
		listing += s.now() - asked
		reads := s.drainBehind(ctx, l, epochs, leave)
		for i := range reads {
			if r := &reads[i]; !r.comparable && known[r.ref].pending.Seq > 0 {
				r.compareAt(known[r.ref].pending)
			}
		}
		var good map[Ref]bool
		var wrong map[Ref][]ledger.Discrepancy
		turn := !skipped && len(epochs) > 0 && before(looks.after, refOf(&epochs[len(epochs)-1].Row))
		if turn && looks.credit <= 0 {
			turn, skipped, looks.after = false, true, after
		}
		if turn {
			asked = s.now()
			good, wrong = s.compareTwice(ctx, l, reads, known, window)
			looks.credit -= s.now() - asked
		}
		for i := range reads {
			r := &reads[i]
			if found := wrong[r.ref]; found != nil {
				s.discovered(ctx, r.Budget, r.ref.Bucket, found)
			}
			w, seen := known[r.ref]
			if !seen {
				w = newlyWatched(r.storeRead(), window)
			}
			w = w.note(r, s.now())
			if good[r.ref] && seen { // at first sight no rows were counted
				w = w.right(r.to, window)
			}
			if turn || w.pending.Seq == 0 {
				w = w.wait(r)
			}
			w.look = looks.number
			known[r.ref] = w
			lag += r.lag()
			if w.behind > 0 {
				age = max(age, s.now()-w.since)
			}
		}
		if len(epochs) < lookPage {
			break
		}
		after = refOf(&epochs[len(epochs)-1].Row)
	}
	if !skipped {
		looks.after = Ref{}
	}
	maps.DeleteFunc(known, func(_ Ref, w watched) bool { return w.look != looks.number })
	s.observer.Lag(l.id, lag, age)
	if rest := min((share-1)*listing, lookRest) - s.set.Audit; rest > 0 {
		_ = s.clock.Sleep(ctx, rest) // until ctx ends
	}
}

// earn adds what the time since the look before this one gives.
func (l *looks) earn(now, share, most time.Duration) {
	l.credit = max(min(l.credit, most), -lookDebt/share) + max(now-l.at, 0)/share
	l.at = now
}

// before reports whether an epoch comes before another in the order of their keys.
func before(a, b Ref) bool {
	return a.Bucket < b.Bucket || a.Bucket == b.Bucket && a.Epoch < b.Epoch
}

// newlyWatched begins with entry 0, where the epoch is young enough for all of it to be counted.
func newlyWatched(now ledger.StoreRead, window int64) watched {
	if now.Seq <= window {
		return watched{}
	}
	return watched{from: now, middle: now}
}

// note remembers since when entries have not been in the ledger.
func (w watched) note(r *liveRead, now time.Duration) watched {
	switch {
	case r.lag() == 0:
		w.behind = 0
	case w.behind == 0 || r.Row.DrainedSeq >= w.behind:
		w.behind, w.since = r.in.Seq, now
	}
	return w
}

// begin is the read from which the rows up to now are counted: the later one with a window of rows behind it.
func (w watched) begin(now ledger.StoreRead, window int64) ledger.StoreRead {
	if now.Seq-w.middle.Seq >= window {
		return w.middle
	}
	return w.from
}

// right goes on from a read that was found right.
func (w watched) right(now ledger.StoreRead, window int64) watched {
	if now.Seq-w.middle.Seq >= window {
		w.from, w.middle = w.middle, now
	}
	return w
}

// wait remembers a read that the ledger has not come to, until one at or after it was compared.
func (w watched) wait(r *liveRead) watched {
	if r.comparable && r.to.Seq >= w.pending.Seq {
		w.pending = ledger.StoreRead{}
	}
	if now := r.storeRead(); w.pending.Seq == 0 && (!r.comparable || r.to.Seq < now.Seq) {
		w.pending = now
	}
	return w
}

// compareTwice compares what was read with the ledger. What disagrees is read anew, store and ledger, and
// only what still does is wrong. An epoch that is in neither result was not compared: it ended or is
// fenced, it cannot be read, or the ledger is behind.
func (s *Service) compareTwice(ctx context.Context, l *lane, reads []liveRead, known map[Ref]watched, window int64) (
	good map[Ref]bool, wrong map[Ref][]ledger.Discrepancy) {
	good, wrong = s.compareStores(ctx, reads, known, window)
	for range lookAgain {
		if len(wrong) == 0 {
			break
		}
		var refs []Ref
		for i := range reads {
			if wrong[reads[i].ref] != nil {
				refs = append(refs, reads[i].ref)
			}
		}
		rows, err := s.sql.Epochs(ctx, refs)
		if err != nil {
			s.failed("sql", err)
			return good, nil
		}
		var again []EpochOf
		for i := range reads {
			if row, ok := rows[reads[i].ref]; ok && wrong[reads[i].ref] != nil && row.Status.Live() {
				again = append(again, EpochOf{Budget: reads[i].Budget, Lane: l.id, Row: row})
			}
		}
		// From where it was read first, however far the log has come since.
		_, wrong = s.compareStores(ctx, s.drainBehind(ctx, l, again, leaving{}), known, math.MaxInt64)
	}
	return good, wrong
}

// compareStores compares each read with the ledger, where that has come far enough: by the rows since a read that was
// found right, a window of them at least, or all.
func (s *Service) compareStores(ctx context.Context, reads []liveRead, known map[Ref]watched, window int64) (
	good map[Ref]bool, wrong map[Ref][]ledger.Discrepancy) {
	good, wrong = map[Ref]bool{}, map[Ref][]ledger.Discrepancy{}
	var spans []Span
	from := make(map[Ref]ledger.StoreRead, len(reads))
	for i := range reads {
		r := &reads[i]
		if r.in.Verdict != OK || r.in.Closed || !r.comparable {
			continue
		}
		to := r.to
		begin := to
		if w, ok := known[r.ref]; ok {
			begin = w.begin(to, window)
		}
		if begin.Seq > to.Seq || begin.GrantSeq > to.GrantSeq {
			begin = to // the store went back: that is found elsewhere
		}
		from[r.ref] = begin
		spans = append(spans, Span{Ref: r.ref, From: begin.Seq, Seq: to.Seq, FromGrant: begin.GrantSeq,
			GrantSeq: to.GrantSeq})
	}
	figures, err := s.sql.Spans(ctx, spans)
	if err != nil {
		s.failed("sql", err)
		return good, wrong
	}
	for i := range reads {
		r := &reads[i]
		f, ok := figures[r.ref]
		if begin, asked := from[r.ref]; ok && asked && f.Reaches(r.to.Seq) {
			found := ledger.CheckStore("", begin, r.to, &f)
			if len(found) == 0 {
				good[r.ref] = true
			} else {
				wrong[r.ref] = found
			}
		}
	}
	return good, wrong
}
