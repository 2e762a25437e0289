package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// track is what the run knows of a bucket.
type track struct {
	id    int64
	lives []*life
}

// life is an epoch of a bucket as the steering store last answered.
type life struct {
	ref                    bucket.Ref
	closed, gone           bool
	balance, seq, grantSeq int64
	// planned is the last grant that the batch being made asks for.
	planned int64
	// deducted is the sum of deductions when it was last told; ids are those asked for with a record.
	deducted int64
	ids      []string
}

// next makes the next batch: actions of one verb, aimed at every verdict.
func (d *differential) next() []action {
	weights := map[string]int{"deduct": 46, "grant": 22, "open": 12, "close": 8, "balances": 6,
		"read": 3, "trim": 8, "forget": 3}
	if d.records {
		weights["void"] = 8
	}
	verb := d.pick(weights)
	size := 1 + d.random.IntN(8)
	if d.random.IntN(2) == 0 {
		size = 1 + d.random.IntN(160)
	}
	if verb == "read" || verb == "trim" || verb == "forget" {
		size = 1 + d.random.IntN(12)
	}
	actions := make([]action, size)
	for i := range actions {
		b := d.buckets[d.random.IntN(len(d.buckets))]
		switch verb {
		case "open":
			actions[i] = d.open(b)
		case "grant":
			actions[i] = d.grant(b)
		case "deduct":
			actions[i] = d.deduct(b)
			if d.records {
				d.recorded(&actions[i])
			}
		case "void":
			actions[i] = d.void(b)
		default:
			actions[i] = d.other(verb, b)
		}
		actions[i].verb = verb
	}
	return actions
}

// pick returns a name, each as often as its weight says.
func (d *differential) pick(weights map[string]int) string {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	n := d.random.IntN(sum)
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		if n -= weights[name]; n < 0 {
			return name
		}
	}
	panic("unreachable")
}

// newest returns the bucket's newest life, nil if it never had one.
func (b *track) newest() *life {
	if len(b.lives) == 0 {
		return nil
	}
	return b.lives[len(b.lives)-1]
}

// unborn names the epoch that the bucket could have next.
func (d *differential) unborn(b *track) bucket.Ref {
	ref := bucket.Ref{Bucket: b.id, Epoch: 1, Activation: d.activation}
	if n := b.newest(); n != nil {
		ref.Epoch = n.ref.Epoch + 1
	}
	return ref
}

// some returns a life that the condition holds for, the newest ones sooner; else a Ref of no life.
func (d *differential) some(b *track, holds func(*life) bool) (*life, bucket.Ref) {
	for _, i := range d.random.Perm(len(d.buckets)) {
		other := d.buckets[i]
		if d.random.IntN(2) > 0 && i != int(b.id)-1 {
			continue
		}
		for back := range min(4, len(other.lives)) {
			if l := other.lives[len(other.lives)-1-back]; holds(l) {
				return l, l.ref
			}
		}
	}
	return nil, d.unborn(b)
}

func (d *differential) isLive(l *life) bool {
	return !l.closed && !l.gone && l.ref.Activation == d.activation
}

func (d *differential) isClosed(l *life) bool {
	return l.closed && !l.gone && l.ref.Activation == d.activation
}

// stranger gives a Ref another activation than the hash's.
func (d *differential) stranger(ref bucket.Ref) bucket.Ref {
	ref.Activation = max(1, ref.Activation+int64(d.random.IntN(5))-2)
	return ref
}

func (d *differential) open(b *track) action {
	aim := d.pick(map[string]int{"new": 40, "again": 12, "closed": 12, "gone": 18, "stranger": 18})
	newest := b.newest()
	switch aim {
	case "new":
		if newest != nil && d.isLive(newest) && d.random.IntN(12) > 0 {
			return action{ref: newest.ref} // mostly not before the present one has ended
		}
		ref := d.unborn(b)
		ref.Epoch += int64(d.random.IntN(8) / 7)
		return action{ref: ref}
	case "again":
		_, ref := d.some(b, d.isLive)
		return action{ref: ref}
	case "closed":
		_, ref := d.some(b, func(l *life) bool { return l.closed && !l.gone })
		return action{ref: ref}
	case "gone":
		_, ref := d.some(b, func(l *life) bool { return l.gone })
		ref.Activation = d.activation
		return action{ref: ref}
	}
	_, ref := d.some(b, func(l *life) bool { return !l.gone })
	return action{ref: d.stranger(ref)}
}

func (d *differential) grant(b *track) action {
	aim := d.pick(map[string]int{"next": 46, "again": 10, "gap": 8, "large": 7, "closed": 9, "gone": 8,
		"stranger": 8})
	a := action{number: 1 + d.random.Int64N(3), amount: d.units()}
	l, ref := d.aimed(b, aim)
	a.ref = ref
	if l == nil {
		return a
	}
	a.number = l.planned + 1
	switch aim {
	case "next":
		l.planned++
	case "again":
		a.number = 1 + d.random.Int64N(l.grantSeq+1)
	case "gap":
		a.number += 1 + d.random.Int64N(3)
	case "large":
		a.amount = budget.MaxAmount - d.random.Int64N(3)
	}
	return a
}

func (d *differential) deduct(b *track) action {
	aim := d.pick(map[string]int{"live": 62, "much": 8, "back": 8, "closed": 8, "gone": 7,
		"stranger": 7})
	a := action{id: fmt.Sprintf("%s %d", HostileTexts[d.random.IntN(len(HostileTexts))],
		d.random.IntN(1000)), amount: d.units()}
	l, ref := d.aimed(b, aim)
	a.ref = ref
	if l == nil {
		return a
	}
	a.number = d.random.Int64N(l.seq + 1)
	switch aim {
	case "live":
		if l.balance > 0 {
			a.amount = 1 + d.random.Int64N(max(1, l.balance/int64(1+d.random.IntN(200))))
		}
		if d.random.IntN(30) == 0 {
			a.amount = max(1, l.balance)
		}
	case "much":
		a.amount = min(budget.MaxAmount, l.balance+1+d.random.Int64N(5))
	case "back":
		a.number = l.seq + 1 + d.random.Int64N(100)
		if d.random.IntN(4) == 0 {
			a.number = budget.MaxAmount
		}
	}
	return a
}

// aimed returns a life for an aim of grant and deduct, or nil and a Ref.
func (d *differential) aimed(b *track, aim string) (*life, bucket.Ref) {
	switch aim {
	case "closed":
		return d.some(b, d.isClosed)
	case "gone":
		if d.random.IntN(3) == 0 {
			return nil, d.unborn(b)
		}
		return d.some(b, func(l *life) bool { return l.gone || l != d.owner(l).newest() && !l.closed })
	case "stranger":
		l, ref := d.some(b, func(l *life) bool { return !l.gone })
		return l, d.stranger(ref)
	case "live":
		if l, ref := d.some(b, func(l *life) bool { return d.isLive(l) && l.balance > 0 }); l != nil {
			return l, ref
		}
	}
	return d.some(b, d.isLive)
}

func (d *differential) owner(l *life) *track { return d.buckets[l.ref.Bucket-1] }

// units returns amounts of every size.
func (d *differential) units() int64 {
	switch d.random.IntN(10) {
	case 0:
		return 1 + d.random.Int64N(budget.MaxAmount)
	case 1, 2:
		return 1 + d.random.Int64N(10)
	default:
		return 1 + d.random.Int64N(1_000_000)
	}
}

func (d *differential) other(verb string, b *track) action {
	switch verb {
	case "close":
		switch d.pick(map[string]int{"live": 12, "closed": 35, "gone": 28, "stranger": 25}) {
		case "live":
			_, ref := d.some(b, d.isLive)
			return action{ref: ref}
		case "closed":
			_, ref := d.some(b, d.isClosed)
			return action{ref: ref}
		case "gone":
			_, ref := d.aimed(b, "gone")
			return action{ref: ref}
		}
		_, ref := d.aimed(b, "stranger")
		return action{ref: ref}
	case "forget":
		_, ref := d.some(b, func(l *life) bool { return !l.gone && !d.isLive(l) })
		return action{ref: ref}
	}
	l, ref := d.some(b, func(*life) bool { return d.random.IntN(2) == 0 })
	if l == nil {
		return action{ref: ref, number: d.random.Int64N(4)}
	}
	from := d.random.Int64N(l.seq + 2)
	if d.random.IntN(3) > 0 { // mostly what budgetd does: logs stay short
		from = max(0, l.seq-d.random.Int64N(8))
	}
	if d.random.IntN(10) == 0 {
		from = budget.MaxAmount - d.random.Int64N(2)
	}
	return action{ref: ref, number: from}
}

// learn notes what the steering store answered.
func (d *differential) learn(a action, answer string) {
	if a.verb == "activate" {
		return
	}
	b := d.buckets[a.ref.Bucket-1]
	var l *life
	for _, known := range b.lives {
		if known.ref.Epoch == a.ref.Epoch {
			l = known
		}
	}
	verdict, rest, _ := strings.Cut(answer, " ")
	if a.verb == "open" && verdict == "OK" {
		b.lives = append(b.lives, &life{ref: a.ref})
		return
	}
	if l == nil {
		return
	}
	if a.record {
		l.learnRecord(verdict, rest)
	}
	switch {
	case a.verb == "forget":
		l.gone = true
	case verdict == "OK" && (a.verb == "grant" || a.verb == "deduct" || a.verb == "close"):
		if _, err := fmt.Sscanf(rest, "balance=%d seq=%d", &l.balance, &l.seq); err != nil {
			panic(err)
		}
		l.closed = a.verb == "close"
		if a.verb == "grant" {
			l.grantSeq = a.number
		}
	}
	l.planned = l.grantSeq
}
