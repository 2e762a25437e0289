package deduct

import "github.com/budgetd/budgetd/bucket/batch"

// outbox collects the operations that a call sends, so that each queue is locked once. The zero
// value is empty.
type outbox struct {
	parcels []parcel
	grouped []grouped
	n       int
}

type parcel struct {
	queue *batch.Queue[*Op]
	ops   []*Op
}

// grouped is an operation for the queue of its budget.
type grouped struct {
	group *batch.Group[*Op]
	op    *Op
}

// put collects an operation for a queue.
func (b *outbox) put(q *batch.Queue[*Op], o *Op) {
	o.phase.Store(phaseWaiting)
	b.n++
	for i := range b.parcels {
		if p := &b.parcels[i]; p.queue == q {
			p.ops = append(p.ops, o)
			return
		}
	}
	b.parcels = append(b.parcels, parcel{queue: q, ops: append(make([]*Op, 0, 1), o)})
}

// putFor collects an operation for its budget's queue in a group.
func (b *outbox) putFor(g *batch.Group[*Op], o *Op) {
	o.phase.Store(phaseWaiting)
	b.n++
	b.grouped = append(b.grouped, grouped{g, o})
}

// send sends the collected operations. It counts them first, because they may return at once.
func (b *outbox) send(c *call) {
	if b.n == 0 {
		return
	}
	c.mu.Lock()
	c.away += b.n
	c.mu.Unlock()
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
