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
	if o.kind <= cancel || o.kind == gather {
		l |= 1 << (40 + o.a)
		if limited(o.a) {
			l |= 1 << 50
		}
	}
	switch o.kind {
	case flight:
		newest(o.c)
		newest(o.d)
	case collect:
		newest(o.c)
		for b := int8(0); b < N; b++ {
			if o.d>>b&1 == 1 {
				newest(b)
			}
		}
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
	case sweep:
		epoch(o.a, o.b)
		l |= 1 << 51
	case gather:
		for b := int8(0); b < N; b++ {
			if budgetOf(b) == budgetOf(o.c) {
				newest(b)
			}
		}
		l |= 1 << 51
	case recycle, rollover, shrink:
		l |= 1 << 51
		for b := int8(0); b < N; b++ {
			for e := int8(0); budgetOf(b) == o.a && e <= s.b[b].cur; e++ {
				if o.kind != rollover || o.b < 0 || o.b == b {
					epoch(b, e)
				}
			}
		}
	}
	return
}
