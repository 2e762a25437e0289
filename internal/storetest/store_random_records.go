package storetest

import (
	"fmt"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// recordVerdicts must come up too when the stores keep records.
var recordVerdicts = []string{
	"deduct Recorded", "deduct Behind",
	"void OK", "void Recorded", "void EpochClosed", "void EpochGone", "void WrongActivation",
}

// recordText is the part of an answer that is about records. A sum of deductions is exact below
// 2^53 and only known to be larger above.
func recordText(r bucket.Reply) string {
	text := fmt.Sprintf(" deducted=%d", min(r.Deducted, budget.MaxAmount+1))
	switch {
	case r.Record == nil:
		return text
	case r.Record.Void:
		return text + " record=void"
	}
	return fmt.Sprintf("%s record=%d %q %q", text, r.Record.Seq, r.Record.Nonce, r.Record.Fingerprint)
}

// recorded lets most deductions have a record, some of them a ceiling near the sum of deductions,
// and some an id that the epoch may know.
func (d *differential) recorded(a *action) {
	if a.record = d.random.IntN(5) > 0; !a.record {
		return
	}
	l := d.lifeOf(a.ref)
	if l == nil {
		return
	}
	switch d.random.IntN(10) {
	case 0:
		a.id = d.knownID(l, a.id)
	case 1:
		a.ceiling = l.deducted + a.amount + int64(d.random.IntN(3)) - 1
	case 2:
		a.ceiling = l.deducted + d.random.Int64N(2*a.amount+2)
	}
	a.ceiling = min(max(a.ceiling, 0), budget.MaxAmount)
	l.ids = append(l.ids, a.id)
}

// void aims at every verdict.
func (d *differential) void(b *track) action {
	aim := d.pick(map[string]int{"live": 40, "known": 20, "closed": 15, "gone": 12, "stranger": 13})
	id := fmt.Sprintf("%s %d", HostileTexts[d.random.IntN(len(HostileTexts))], d.random.IntN(1000))
	l, ref := d.aimed(b, strings.ReplaceAll(aim, "known", "live"))
	if l != nil {
		if aim == "known" || d.random.IntN(4) == 0 {
			id = d.knownID(l, id)
		}
		l.ids = append(l.ids, id)
	}
	return action{ref: ref, id: id}
}

// knownID returns an id that the epoch was asked for, the latest sooner; otherwise the one given.
func (d *differential) knownID(l *life, otherwise string) string {
	if len(l.ids) == 0 {
		return otherwise
	}
	if d.random.IntN(2) == 0 {
		return l.ids[len(l.ids)-1-d.random.IntN(min(4, len(l.ids)))]
	}
	return l.ids[d.random.IntN(len(l.ids))]
}

func (d *differential) lifeOf(ref bucket.Ref) *life {
	for _, l := range d.buckets[ref.Bucket-1].lives {
		if l.ref.Epoch == ref.Epoch {
			return l
		}
	}
	return nil
}

// learnRecord notes what the answer to a deduction with a record says.
func (l *life) learnRecord(verdict, rest string) {
	if verdict != "OK" && verdict != "Behind" {
		return
	}
	_, text, _ := strings.Cut(rest, "deducted=")
	if _, err := fmt.Sscan(text, &l.deducted); err != nil {
		panic(err)
	}
}
