package deduct

import "github.com/budgetd/budgetd/bucket/batch"

// Outbox collects the operations that a wave sends, so that each queue is locked once. The zero
// value is empty.
type Outbox[O operation] struct {
	parcels []parcel[O]
	grouped []grouped[O]
	n       int
}

// operation is a pointer to an operation.
type operation interface {
	handOut()
	Owner() int64
}

type parcel[O any] struct {
	queue *batch.Queue[O]
	ops   []O
}

// grouped is an operation for the queue of its budget.
type grouped[O any] struct {
	group *batch.Group[O]
	op    O
}

// Put collects an operation for a queue.
func (b *Outbox[O]) Put(q *batch.Queue[O], o O) {
	o.handOut()
	b.n++
	for i := range b.parcels {
		if p := &b.parcels[i]; p.queue == q {
			p.ops = append(p.ops, o)
			return
		}
	}
	b.parcels = append(b.parcels, parcel[O]{queue: q, ops: append(make([]O, 0, 1), o)})
}

// PutFor collects an operation for its budget's queue in a group.
func (b *Outbox[O]) PutFor(g *batch.Group[O], o O) {
	o.handOut()
	b.n++
	b.grouped = append(b.grouped, grouped[O]{g, o})
}

// Send sends the collected operations. It counts them first, because they may return at once.
func (b *Outbox[O]) Send(w *Wave) {
	if b.n == 0 {
		return
	}
	w.mu.Lock()
	w.away += b.n
	w.mu.Unlock()
	b.n = 0
	for i := range b.parcels {
		switch p := &b.parcels[i]; len(p.ops) {
		case 0:
		case 1:
			p.queue.Add(p.ops[0])
		default:
			p.queue.AddAll(p.ops)
		}
		b.parcels[i].ops = b.parcels[i].ops[:0]
	}
	for _, g := range b.grouped {
		g.group.Add(g.op.Owner(), g.op)
	}
	b.grouped = b.grouped[:0]
}
