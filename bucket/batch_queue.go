package bucket

import "slices"

// queue is what waits in a batcher: one flow per owner, in the order of their turns. Whoever has much waiting
// takes neither the calls nor the room of the others: a call takes the same number of items from each flow, as far
// as it has them (max-min fair), and where there is no room, the longest flow gives way. Within a flow it is first
// come, first served. The zero value is empty; not safe for concurrent use.
type queue[Q, A any] struct {
	length int // of all flows
	flows  map[int64]*flow[Q, A]
	turns  []*flow[Q, A] // those that have items
	spare  []*flow[Q, A] // those that had: most come again
}

type flow[Q, A any] struct {
	owner int64
	items []*item[Q, A]
}

func (q *queue[Q, A]) append(it *item[Q, A]) {
	f := q.flows[it.owner]
	if f == nil {
		f = q.newFlow(it.owner)
	}
	f.items = append(f.items, it)
	q.length++
}

func (q *queue[Q, A]) newFlow(owner int64) *flow[Q, A] {
	if q.flows == nil {
		q.flows = map[int64]*flow[Q, A]{}
	}
	f := &flow[Q, A]{}
	if n := len(q.spare); n > 0 {
		f, q.spare = q.spare[n-1], q.spare[:n-1]
	}
	f.owner = owner
	q.flows[owner] = f
	q.turns = append(q.turns, f)
	return f
}

// replace makes room for an item and returns the one that has to go: the newest of the longest flow, or the
// item itself where its own would be the longest.
func (q *queue[Q, A]) replace(it *item[Q, A]) *item[Q, A] {
	own, longest := 0, q.turns[0]
	if f := q.flows[it.owner]; f != nil {
		own = len(f.items)
	}
	for _, f := range q.turns {
		if len(f.items) > len(longest.items) {
			longest = f
		}
	}
	last := len(longest.items) - 1
	if own >= last {
		return it
	}
	goes := longest.items[last]
	longest.items[last] = nil
	longest.items = longest.items[:last]
	q.length--
	q.append(it)
	return goes
}

// remove takes items of one ticket out, which are all in the queue.
func (q *queue[Q, A]) remove(items []*item[Q, A]) {
	for _, it := range items {
		f := q.flows[it.owner]
		if f == nil {
			continue // it went with another one of its owner
		}
		before := len(f.items)
		f.items = slices.DeleteFunc(f.items, func(other *item[Q, A]) bool { return other.of == it.of })
		q.length -= before - len(f.items)
		if len(f.items) == 0 {
			q.turns = slices.DeleteFunc(q.turns, func(other *flow[Q, A]) bool { return other == f })
			q.forget(f)
		}
	}
}

// take takes up to size items out, of each flow as many as of the others while it has them, but none that is
// busy (nil: none is).
func (q *queue[Q, A]) take(size int, busy func(*item[Q, A]) bool) []*item[Q, A] {
	group := make([]*item[Q, A], 0, min(q.length, size))
	for len(group) < cap(group) {
		before, served := len(group), 0
		share := max(1, (cap(group)-before)/len(q.turns))
		for ; served < len(q.turns) && len(group) < cap(group); served++ {
			group = q.turns[served].take(group, min(share, cap(group)-len(group)), busy)
		}
		q.length -= len(group) - before
		q.serve(served)
		if len(group) == before {
			break // all are busy
		}
	}
	return group
}

// serve puts the first n flows behind the others, but for those that have nothing left.
func (q *queue[Q, A]) serve(n int) {
	others := q.turns[n:]
	served := slices.DeleteFunc(q.turns[:n:n], func(f *flow[Q, A]) bool {
		if len(f.items) > 0 {
			return false
		}
		q.forget(f)
		return true
	})
	if len(others) == 0 {
		q.turns = served
		return
	}
	q.turns = append(others, served...)
}

// forget keeps a flow that has no items for an owner to come.
func (q *queue[Q, A]) forget(f *flow[Q, A]) {
	const spares = 64
	delete(q.flows, f.owner)
	if len(q.spare) < spares {
		q.spare = append(q.spare, f)
	}
}

// take appends up to n of a flow's items to group.
func (f *flow[Q, A]) take(group []*item[Q, A], n int, busy func(*item[Q, A]) bool) []*item[Q, A] {
	if busy == nil {
		n = min(n, len(f.items))
		group = append(group, f.items[:n]...)
		clear(f.items[:n])
		if n == len(f.items) {
			f.items = f.items[:0]
		} else {
			f.items = f.items[n:] // moving what is left would cost a long flow more than a new array now and then
		}
		return group
	}
	f.items = slices.DeleteFunc(f.items, func(it *item[Q, A]) bool {
		if n == 0 || busy(it) {
			return false
		}
		n--
		group = append(group, it)
		return true
	})
	return group
}
