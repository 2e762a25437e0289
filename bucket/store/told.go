package store

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/ledger/books"
)

// Told is what the store of one partition answered: epochs that it opened and grants that it has,
// and the final figures of epochs that it closed.
type Told struct {
	bucket.Memory
	Done     []Done
	Closings []Closing
}

// Settled is the result of Settle: the buckets with new epochs, and the partitions, some perhaps
// twice, that have another incarnation than the caller's, of which nothing was recorded.
type Settled struct {
	Begun []int64
	Other []bucket.Partition
}

// Settle records what stores have done, each partition once, in one transaction per MaxEpochs
// epochs. Closing epochs end with their final figures, as books.EndClosed does: their balances and
// undelivered grants return to U of their budgets. Donors that are in the bucket list begin their
// next epochs with up to half of what they returned, if their budget has units beyond need; with
// need < 0 none does. It locks budgets only if an epoch opens or ends. Repeating it is harmless.
func (l *Ledger) Settle(ctx context.Context, told []Told, need int64) (out Settled, err error) {
	for _, part := range inParts(told) {
		some, err := l.settle(ctx, part, need)
		if err != nil {
			return out, err
		}
		out.Begun = append(out.Begun, some.Begun...)
		out.Other = append(out.Other, some.Other...)
	}
	return out, nil
}

// inParts divides what stores have done into parts of at most MaxEpochs epochs.
func inParts(told []Told) (parts [][]Told) {
	room := 0
	add := func(t Told, n int) {
		if room < n {
			parts, room = append(parts, nil), MaxEpochs
		}
		last := len(parts) - 1
		parts[last], room = append(parts[last], t), room-n
	}
	for _, t := range told {
		for done := range slices.Chunk(t.Done, MaxEpochs) {
			add(Told{Memory: t.Memory, Done: done}, len(done))
		}
		for closings := range slices.Chunk(t.Closings, MaxEpochs) {
			add(Told{Memory: t.Memory, Closings: closings}, len(closings))
		}
	}
	return parts
}

// settle is Settle of one part.
func (l *Ledger) settle(ctx context.Context, told []Told, need int64) (out Settled, err error) {
	err = bookkeeper.Do(ctx, l.db, "settle", settling(told),
		func(b *books.Books) ([]bookkeeper.Query, error) {
			out = Settled{}
			for i := range told {
				t := &told[i]
				known, err := current(b, t.Memory)
				if err != nil {
					out.Other = append(out.Other, t.Partition)
					continue
				}
				for _, d := range t.Done {
					if e := b.Epochs.Get(at(d.Ref)); e != nil && e.Incarnation >= known.Since {
						b.Confirm(e, d.Opened, d.Grants)
					}
				}
				finals := make([]books.Final, len(t.Closings))
				for i, c := range t.Closings {
					finals[i] = books.Final{Position: at(c.Ref), Balance: c.Balance, Taken: c.Taken,
						GivenBack: c.GivenBack, LastGrant: c.LastGrant}
				}
				out.Begun = append(out.Begun, b.EndClosed(known, finals, need)...)
			}
			return nil, nil
		})
	return out, err
}

// settling loads what a settlement needs: the budgets of epochs that open or end, all epochs, their
// partitions and pending grants, and the periods of epochs that end.
func settling(told []Told) (load []bookkeeper.Query) {
	var all, ends []books.Position
	var changed []int64
	var partitions []books.PartitionID
	for i := range told {
		t := &told[i]
		partitions = append(partitions, key(t.Partition))
		for _, d := range t.Done {
			all = append(all, at(d.Ref))
			if d.Opened {
				changed = append(changed, d.Bucket)
			}
		}
		for _, c := range t.Closings {
			ends, changed = append(ends, at(c.Ref)), append(changed, c.Bucket)
		}
	}
	all, ends = sorted(append(all, ends...)), sorted(ends)
	slices.SortFunc(partitions, books.PartitionID.Compare)
	if len(changed) > 0 {
		slices.Sort(changed)
		load = bookkeeper.BudgetsOf(slices.Compact(changed))
	}
	load = append(load, bookkeeper.EpochsAt(all),
		bookkeeper.Partitions(slices.Compact(partitions)...), bookkeeper.PendingOf(all))
	if len(ends) > 0 {
		load = append(load, bookkeeper.PeriodsAt(ends))
	}
	return load
}
