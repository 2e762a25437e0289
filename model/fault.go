package main

// The kinds of faults.
const (
	// restart: the store comes back, with all its data, older or empty: another identity, no scripts.
	restart = "restart"
	// flush: FLUSHALL or DEBUG RELOAD: data older or empty, identity and scripts kept.
	flush = "flush"
	// split: a fail-over to a replica that is late; the old master goes on serving whoever is still
	// connected to it.
	split = "split"
	// down: an instance that nobody reaches for down_after, or one taken for lost without reason: the
	// next activation under the same identity, while commands of the one before go on running.
	down = "down"
	// tamper: the balance, or an entry that is not drained yet, is changed in the store.
	tamper = "tamper"
)

// faults calls emit for every fault that may happen to a bucket's lane now.
func (m *model) faults(s *State, b int8, emit func(*State, Op)) {
	base := *s
	x := base.newest(b)
	hit := func(change func(c *Bucket, x *Epoch), op Op) {
		n := base
		n.faults++
		change(&n.bucket[b], n.newest(b))
		emit(&n, op)
	}
	if m.kinds[down] && x.live() {
		hit(func(c *Bucket, _ *Epoch) { c.activation++ },
			Op{words: "FAULT: bucket %[1]d's instance is declared down: next activation", b: b})
	}
	for left := int8(0); left <= x.log.n; left++ {
		for _, f := range []struct{ kind, words string }{
			{restart, "FAULT: bucket %[1]d's store restarts with %[2]d entries"},
			{split, "FAULT: bucket %[1]d fails over to a replica with %[2]d entries, two masters"},
			{flush, "FAULT: bucket %[1]d's store goes back to %[2]d entries, run id and scripts kept"},
		} {
			if !m.kinds[f.kind] || f.kind == flush && left == x.log.n {
				continue
			}
			hit(func(c *Bucket, x *Epoch) { m.goBack(c, x, left, f.kind, false) },
				Op{words: f.words, b: b, e: left})
			if x.voids != 0 {
				hit(func(c *Bucket, x *Epoch) { m.goBack(c, x, left, f.kind, true) },
					Op{words: f.words + ", void records lost", b: b, e: left})
			}
		}
	}
	if m.kinds[tamper] && x.bent == 0 && x.log.n > 0 && !x.log.closed() {
		hit(func(_ *Bucket, x *Epoch) { x.bent = 1 },
			Op{words: "FAULT: bucket %[1]d's balance is made 1 more", b: b})
		if m.balance(x, &x.log) > 0 {
			hit(func(_ *Bucket, x *Epoch) { x.bent = -1 },
				Op{words: "FAULT: bucket %[1]d's balance is made 1 less", b: b})
		}
	}
	for at := x.drained.n; at < x.log.n && m.kinds[tamper]; at++ {
		if isDeduct(x.log.at[at]) && x.log.at[at]&tampered == 0 {
			hit(func(_ *Bucket, x *Epoch) { x.log.at[at] |= tampered },
				Op{words: "FAULT: entry %[2]d of bucket %[1]d is changed", b: b, e: at})
		}
	}
}

// goBack is a store that comes back with the first entries of its newest epoch's log.
func (m *model) goBack(c *Bucket, x *Epoch, left int8, kind string, lessVoids bool) {
	if left < x.log.n || kind == split {
		x.old, x.oldVoids, x.oldBent = x.log, x.voids, x.bent
		x.zombie = kind == split && c.scripts>>x.activation&1 == 1
		x.log.cut(left)
		// What it comes back to is from before the balance was moved, unless its log needs that.
		if bent := x.bent; left < x.old.n {
			if x.bent = 0; m.balance(x, &x.log) < 0 {
				x.bent = bent
			}
		}
	}
	if lessVoids {
		x.voids = 0
	}
	if kind != flush {
		c.scripts, c.verified = 0, false
	}
}
