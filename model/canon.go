package main

import (
	"bytes"
	"cmp"
)

// canon brings a state into the form that stands for all that behave like it. It reports whether it
// exchanged the two buckets.
func (m *model) canon(s *State) bool {
	for b := range s.bucket[:m.Buckets] {
		c := &s.bucket[b]
		m.forgetOld(c.newest())
		c.renumber()
	}
	m.forgetRows(s)
	if m.Mode == storeMode {
		m.sortNodes(s)
		return false // ids have homes
	}
	if m.Buckets == 1 || bytes.Compare(memoryOf(&s.bucket[0]), memoryOf(&s.bucket[1])) <= 0 {
		return false
	}
	s.bucket[0], s.bucket[1] = s.bucket[1], s.bucket[0]
	for id := range s.row[:m.IDs] {
		if r := &s.row[id]; r.counted > 0 && r.bucket >= 0 {
			r.bucket = 1 - r.bucket
		}
	}
	return true
}

// forgetOld forgets an old log that nothing can come of any more.
func (m *model) forgetOld(x *Epoch) {
	if m.Mode == ledgerMode && !x.zombie && x.old.n <= x.drained.n {
		x.old, x.oldBent = Log{}, 0
	}
}

// renumber gives the activations that something still has the smallest numbers in their order: they
// are only ever compared.
func (c *Bucket) renumber() {
	have := uint8(1) << c.activation
	for e := range c.epoch[:c.current+1] {
		if x := &c.epoch[e]; x.status != closed {
			have |= 1 << x.activation
		}
	}
	scripts, number := uint8(0), int8(0)
	var to [8]int8
	for a := range c.activation + 1 {
		if have>>a&1 == 1 {
			scripts |= c.scripts >> a & 1 << number
			to[a] = number
			number++
		}
	}
	c.scripts, c.activation = scripts, to[c.activation]
	for e := range c.epoch[:c.current+1] {
		if x := &c.epoch[e]; x.status != closed {
			x.activation = to[x.activation]
		}
	}
}

// forgetRows forgets where a deduction was that has been rolled back completely: nothing more can
// become of it.
func (m *model) forgetRows(s *State) {
	switch m.mutant {
	case noLeft, noRollbackID, noPrimaryKey, confirmOutside, expireUnlooked:
		return
	}
	for id := range s.row[:m.IDs] {
		r := &s.row[id]
		if r.state == rolledBack || r.state == expired {
			r.bucket, r.epoch, r.rollbacks = -1, -1, 0
		}
		switch {
		case m.mutant == confirmOutside || m.mutant == expireUnlooked || m.mutant == confirmAgain:
		case r.state == rolledBack:
			r.hold = Hold{}
		case r.state != held:
			r.hold.begun = false
		}
	}
}

// sortNodes: nodes are alike.
func (m *model) sortNodes(s *State) {
	if m.Nodes < maxNodes {
		return
	}
	order := 0
	for b := range s.bucket[:m.Buckets] {
		for e := range s.bucket[b].epoch {
			x := &s.bucket[b].epoch[e]
			if order == 0 {
				order = cmp.Or(cmp.Compare(x.acked[0], x.acked[1]), cmp.Compare(x.heard&1, x.heard>>1))
			}
		}
	}
	if order <= 0 {
		return
	}
	for b := range s.bucket[:m.Buckets] {
		for e := range s.bucket[b].epoch {
			x := &s.bucket[b].epoch[e]
			x.acked[0], x.acked[1] = x.acked[1], x.acked[0]
			x.heard = x.heard>>1 | x.heard&1<<1
		}
	}
}
