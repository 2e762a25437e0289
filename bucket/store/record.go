package store

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
)

// Live lists the live epochs of a partition whose bucket is above after, in the order of buckets,
// with SQL's counters.
func (l *Ledger) Live(ctx context.Context, partition bucket.Partition, after int64, limit int) (
	out []ledger.Epoch, err error) {
	load := []bookkeeper.Query{bookkeeper.LiveOn(key(partition), after, limit)}
	err = bookkeeper.LookAt(ctx, l.db, "read epochs", load, func(b *books.Books) error {
		for _, e := range b.Epochs.All() {
			out = append(out, e.Ledger())
		}
		return nil
	})
	return out, err
}

// Record moves what the stores of a partition counted between O, S and R. SQL's counters only grow.
// It locks only epochs: O, S and R of an epoch are in its row.
func (l *Ledger) Record(ctx context.Context, m bucket.Memory, sums []bucket.Sum) (
	out Recorded, err error) {
	for chunk := range slices.Chunk(sums, engine.ListChunk) {
		var part Recorded
		list := make([]books.Position, len(chunk))
		for i, s := range chunk {
			list[i] = books.Position{Bucket: s.Bucket, Epoch: s.Epoch}
		}
		list = sorted(list)
		err = bookkeeper.Do(ctx, l.db, "sync", []bookkeeper.Query{bookkeeper.EpochsAt(list),
			bookkeeper.Partitions(key(m.Partition)),
			bookkeeper.BucketsAt(bookkeeper.BucketsIn(list))},
			func(b *books.Books) ([]bookkeeper.Query, error) {
				part = Recorded{}
				known, err := current(b, m)
				if err != nil {
					return nil, err
				}
				for _, s := range chunk {
					record(b, known, s, &part)
				}
				return nil, nil
			})
		if err != nil {
			return out, err
		}
		out.Known = append(out.Known, part.Known...)
		out.Behind = append(out.Behind, part.Behind...)
		out.Lost = append(out.Lost, part.Lost...)
		out.Early = append(out.Early, part.Early...)
		out.Taken, out.Late = out.Taken+part.Taken, out.Late+part.Late
	}
	return out, nil
}

// record moves units as one sum says, or says in out why it does not.
func record(b *books.Books, known *books.Partition, s bucket.Sum, out *Recorded) {
	e := b.Epochs.Get(books.Position{Bucket: s.Bucket, Epoch: s.Epoch})
	row := b.Buckets.Get(s.Bucket)
	switch {
	case e == nil, row.Home() != known.ID(): // nothing of SQL's: it stays in the store
	case s.Late && s.Verdict == bucket.Lost:
	case s.Late && e.Live(): // the end of the epoch, which its store has seen, comes first
		if e.Halted == "" {
			out.Early = append(out.Early, e.Bucket)
		}
		return
	case s.Late:
		out.Late += b.CountLate(e, s.LateSum)
	case e.Incarnation < known.Since || !e.Live(): // lost, or ended with its final figures
	case s.Verdict == bucket.Lost:
		out.Lost = append(out.Lost, refOf(e))
		return
	case s.Verdict == bucket.Broken:
		e.Halt("the store holds no number of it")
		return
	case s.Taken < e.Taken || s.GivenBack < e.GivenBack:
		out.Behind = append(out.Behind, refOf(e))
		return
	default:
		out.Taken += b.Count(e, s.Taken, s.GivenBack)
	}
	out.Known = append(out.Known, s)
}

func refOf(e *books.Epoch) bucket.Ref {
	return bucket.Ref{Bucket: e.Bucket, Epoch: e.Number, Incarnation: e.Incarnation}
}
