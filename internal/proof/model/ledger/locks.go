package main

// locks returns the rows that a transaction locks, as bits. It leaves out rows that a pending
// transaction cannot hold.
func (s *State) locks(o Tx) (l uint64) {
	epoch := func(b, e int8) {
		if b >= 0 {
			l |= 1 << (b*E + e)
		}
	}
	newest := func(b int8) { epoch(b, s.b[max(0, b)].cur) }
	if o.kind <= cancel || o.kind == bring {
		l |= 1 << (40 + o.a)
		if limited(o.a) {
			l |= 1 << 50
		}
	}
	switch o.kind {
	case flight:
		newest(o.c)
		newest(o.d)
	case rollback, confirm:
		for i := range s.row {
			if r := &s.row[i][o.a]; r.state != absent && r.state != void {
				epoch(r.b, r.e)
				if feature["feed"] && !mut("entrynolock") {
					newest(r.b)
				}
			}
		}
	case apply, online, offline:
		newest(o.a)
		l |= 1 << 51
	case appendT:
		l |= 1 << 51
	case sweep:
		epoch(o.a, o.b)
		l |= 1 << 51
	case recycle, rollover, shrink, bring:
		l |= 1 << 51
		i := o.a
		if o.kind == bring {
			i = budgetOf(o.c)
		}
		for b := int8(0); b < N; b++ {
			for e := int8(0); budgetOf(b) == i && e <= s.b[b].cur; e++ {
				epoch(b, e)
			}
		}
	}
	return
}
