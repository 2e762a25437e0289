package batch

import "slices"

// flows are the waiting items, one flow per owner, in the order of their turns. The zero value is
// empty. It is not safe for concurrent use.
type flows[T any] struct {
	length  int // of all flows
	byOwner map[int64]*flow[T]
	turns   []*flow[T] // those that have items
	spare   []*flow[T] // empty ones: most owners come again
}

// spares bounds the empty flows that are kept.
const spares = 64

// flow is the items of one owner, in order of arrival.
type flow[T any] struct {
	owner int64
	items []T
	head  int // of items, the first one that waits
}

func (f *flow[T]) length() int { return len(f.items) - f.head }

// add puts an item behind the others of its owner.
func (w *flows[T]) add(owner int64, item T) {
	f := w.byOwner[owner]
	if f == nil {
		f = w.open(owner)
	}
	if f.head > len(f.items)/2 && len(f.items) == cap(f.items) {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, item)
	w.length++
}

func (w *flows[T]) open(owner int64) *flow[T] {
	if w.byOwner == nil {
		w.byOwner = map[int64]*flow[T]{}
	}
	f := &flow[T]{}
	if n := len(w.spare); n > 0 {
		f, w.spare = w.spare[n-1], w.spare[:n-1]
	}
	f.owner = owner
	w.byOwner[owner] = f
	w.turns = append(w.turns, f)
	return f
}

// replace makes room for an item and returns the one that gives way: the newest one of the longest
// flow, or the item itself if its own flow would be the longest.
func (w *flows[T]) replace(owner int64, item T) T {
	if w.length == 0 {
		return item // the bound is 0
	}
	own := 0
	if f := w.byOwner[owner]; f != nil {
		own = f.length()
	}
	longest := slices.MaxFunc(w.turns, func(a, b *flow[T]) int { return a.length() - b.length() })
	if own >= longest.length()-1 {
		return item
	}
	last := len(longest.items) - 1
	goes := longest.items[last]
	clear(longest.items[last:])
	longest.items = longest.items[:last]
	w.length--
	w.add(owner, item)
	return goes
}

// take appends up to size items to call, with an equal number from each flow as far as it has them
// (max-min fair). A non-nil admit decides about each item; the call ends at the first that it
// rejects.
func (w *flows[T]) take(call []T, size int, admit func(T) admission) []T {
	for w.length > 0 && len(call) < size {
		served, ended := 0, false
		share := max(1, (size-len(call))/len(w.turns))
		for served < len(w.turns) && len(call) < size && !ended {
			n := min(share, size-len(call))
			f := w.turns[served]
			before := f.length()
			call, ended = f.take(call, n, admit)
			w.length -= before - f.length()
			if !ended {
				served++
			}
		}
		w.serve(served)
		if ended {
			break
		}
	}
	return call
}

// serve moves the first n flows behind the others and removes empty ones.
func (w *flows[T]) serve(n int) {
	served := slices.Clone(w.turns[:n])
	w.turns = slices.Delete(w.turns, 0, n)
	for _, f := range served {
		if f.length() > 0 {
			w.turns = append(w.turns, f)
			continue
		}
		delete(w.byOwner, f.owner)
		f.items, f.head = f.items[:0], 0
		if len(w.spare) < spares {
			w.spare = append(w.spare, f)
		}
	}
}

// take appends up to n items of the flow to call. ended reports that admit rejected the next one.
func (f *flow[T]) take(call []T, n int, admit func(T) admission) (_ []T, ended bool) {
	for n > 0 && f.length() > 0 {
		item := f.items[f.head]
		verdict := admitted
		if admit != nil {
			verdict = admit(item)
		}
		if verdict == rejected {
			return call, true
		}
		if verdict == admitted {
			call = append(call, item)
			n--
		}
		clear(f.items[f.head : f.head+1])
		f.head++
	}
	return call, false
}
