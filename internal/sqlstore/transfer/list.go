package transfer

import (
	"slices"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/moves"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
)

// pointers returns pointers to the chosen elements.
func pointers(list []rows.Bucket, chosen func(*rows.Bucket) bool) (out []*rows.Bucket) {
	for i := range list {
		if chosen(&list[i]) {
			out = append(out, &list[i])
		}
	}
	return out
}

// idle reports whether a bucket is in the bucket list without a live epoch, which it is about to
// get.
func idle(row *rows.Bucket) bool { return row.ListStatus == rows.Online && !row.Live() }

// share is what one bucket is handed out.
type share struct {
	row   *rows.Bucket
	units int64
}

// handout lists the buckets to which one transaction hands units, and those that begin an epoch in
// any case.
type handout struct {
	// chunk is at most transfer.MaxEpochs buckets, by ordinal; their newest epochs are locked.
	chunk []*rows.Bucket
	// takers counts the buckets that take units, including those after the chunk.
	takers int
	// more means that buckets follow the chunk.
	more bool
}

// choose chooses the next buckets of a hand-out, from an ordinal on: those that may take units, and
// those without an epoch.
func choose(b *rows.Budget, list []rows.Bucket, from int) (h handout) {
	for i := range list {
		row := &list[i]
		if row.Ordinal < from || !idle(row) && !row.MayTake(b) {
			continue
		}
		h.takers++
		if len(h.chunk) < transfer.MaxEpochs {
			h.chunk = append(h.chunk, row)
		} else {
			h.more = true
		}
	}
	return h
}

// lock locks the newest epochs of the chunk, and drops buckets that have changed since.
func (h *handout) lock(t *engine.Tx, b *rows.Budget) error {
	if err := rows.LockNewest(t, h.chunk); err != nil {
		return err
	}
	n := len(h.chunk)
	h.chunk = slices.DeleteFunc(h.chunk, func(row *rows.Bucket) bool {
		return !idle(row) && !row.MayTake(b)
	})
	h.takers -= n - len(h.chunk)
	return nil
}

// shares divides the releasable part of U over the takers, and returns the chunk's part.
func (h *handout) shares(b *rows.Budget, now time.Time) (out []share) {
	units := b.Releasable(now)
	if units == 0 || b.IsOver == 1 || b.Unlimited == 1 {
		return nil
	}
	for i, n := range allocation.Shares(b.Definition(), units, h.takers) {
		if i == len(h.chunk) || n == 0 {
			break
		}
		out = append(out, share{h.chunk[i], n})
	}
	return out
}

// handOut begins the epochs of a chunk and gives the buckets their shares. The budget and the
// chunk's epochs are locked. Each share counts as one apply (adjust_cnt) unless kind says that the
// units came back.
func (h *handout) handOut(t *engine.Tx, op string, b *rows.Budget, kind moves.Kind) (
	out transfer.Moved, err error) {
	shares := h.shares(b, t.Now)
	var ended []*rows.Bucket
	for i, row := range h.chunk {
		begins := !row.Live() && (idle(row) || i < len(shares))
		if begins {
			ended = append(ended, row)
		}
		if begins || i < len(shares) {
			out.Buckets++
		}
	}
	if err := moves.Begin(t, op, b, ended...); err != nil {
		return out, err
	}
	portions := make([]moves.Portion, len(shares))
	for i, s := range shares {
		portions[i] = moves.Portion{Row: s.row, Units: s.units}
		out.Units += s.units
	}
	if err := moves.Give(t, b, kind, portions...); err != nil {
		return out, err
	}
	return out, moves.Units(t, b, allocation.Movement{Undistributed: -out.Units})
}
