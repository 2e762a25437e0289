package limit

import "slices"

// hits are the deductions that a first_hit window counts, oldest first: an instant and what is
// counted of it. A window begins with its oldest. One that has more than mostHits instants keeps
// those within a 32nd of its length as one, the latest of them, after a slot that counts nothing
// and has the earliest. When all older ones are given back, it then begins, and ends, later than
// its oldest deduction by less than that: never earlier. lua/counters.lua does the same.
type hits []Slot

// mostHits is how many instants a window keeps exactly.
const mostHits = 64

// add adds a deduction to a window of a length in ms.
func (h hits) add(hit Slot, length int64) hits {
	if last := len(h) - 1; last >= 0 && h[last].AtMS >= hit.AtMS {
		h[last].Counted = Plus(h[last].Counted, hit.Counted)
		return h
	}
	h = append(h, hit)
	if len(h) <= mostHits {
		return h
	}
	return h.merged(max(length/(mostHits/2), 1))
}

// merged returns the hits with those of each cell of a width in ms as one, except the oldest.
func (h hits) merged(cell int64) hits {
	exact := 1
	if h[0].Counted == 0 {
		exact = 2
	}
	out := slices.Clone(h[:exact])
	for rest := h[exact:]; len(rest) > 0; {
		first, last, counted, n := rest[0].AtMS, int64(0), int64(0), 0
		for n < len(rest) && rest[n].AtMS/cell == first/cell {
			last, counted = rest[n].AtMS, Plus(counted, rest[n].Counted)
			n++
		}
		if first != last {
			out = append(out, Slot{AtMS: first})
		}
		out, rest = append(out, Slot{last, counted}), rest[n:]
	}
	return out
}

// began returns when the window began, in ms; 0 if nothing counts.
func (h hits) began() int64 {
	for _, hit := range h {
		if hit.Counted > 0 {
			return hit.AtMS
		}
	}
	return 0
}

// has reports whether a deduction may be one of the window, whose length is in ms.
func (h hits) has(countedMS, length int64) bool {
	return len(h) > 0 && countedMS >= h[0].AtMS && countedMS < h.began()+length
}

// less returns the hits after what is counted of a deduction was lowered.
func (h hits) less(countedMS, less int64) hits {
	i := slices.IndexFunc(h, func(hit Slot) bool { return hit.Counted > 0 && hit.AtMS >= countedMS })
	if i < 0 {
		return h
	}
	if h[i].Counted -= less; h[i].Counted > 0 {
		return h
	}
	from := i
	if i > 0 && h[i-1].Counted == 0 {
		from--
	}
	if h = slices.Delete(h, from, i+1); len(h) == 0 {
		return nil
	}
	return h
}
