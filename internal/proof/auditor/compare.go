package auditor

import (
	"fmt"
	"strconv"
	"strings"
)

// compare compares the columns of a budget with each other and with its rows.
func (r *reading) compare(b *Budget) {
	same := func(what string, column, rows int64) {
		if column != rows || column < 0 {
			r.wrong("%s: %s is %d, by the rows %d", b.Name, what, column, rows)
		}
	}
	for _, e := range b.epochs {
		r.compareEpoch(e, func(what string, column, rows int64) {
			same(fmt.Sprintf("%s of epoch %d of bucket %d", what, e.epoch, e.bucket), column, rows)
		})
	}
	for id, d := range b.Deductions {
		for number, x := range d.extras {
			same(fmt.Sprintf("what came back of extra %d of %q", number, id), x.back, 0)
		}
		if left := d.Amount + d.Extra - d.Back; d.isHold && (d.used > d.confirmed ||
			d.confirmed > d.Amount+d.Extra || d.used > left || !d.Held && d.used != left) {
			r.wrong("%s: of the hold %q %d are left, %d used of %d confirmed, held: %t", b.Name, id, left,
				d.used, d.confirmed, d.Held)
		}
	}
	if b.Unlimited {
		return
	}
	total, pending, held := b.created, int64(0), int64(0)
	for _, a := range b.Adjustments {
		switch {
		case a.Done:
			total += a.Quantity
		case a.Pending:
			pending -= a.Quantity
		}
	}
	out := int64(0)
	for _, e := range b.epochs {
		out += e.granted - e.closed - e.swept
		held += e.quarantined
	}
	same("T", b.Total, total)
	same("pending shrinks", b.PendingShrink, pending)
	same("Q", b.Quarantined, held)
	same("F + U", b.Unfunded+b.Undistributed, b.Total-b.Forfeited-b.Quarantined-b.Allocated-out)
	same("T as the sum of its parts", b.Total, b.Unfunded+b.Undistributed+b.Outstanding+b.Held+
		b.Used+b.Returning+b.Quarantined+b.Forfeited+b.Allocated)
	children := int64(0)
	for _, child := range r.budgets {
		if child.Parent == b.ID {
			children += child.Total
		}
	}
	same("A", b.Allocated, children)
	if b.Used+b.Held > b.Total {
		r.wrong("%s: oversold: %d used, %d held, total %d", b.Name, b.Used, b.Held, b.Total)
	}
}

// compareEpoch compares the columns of an epoch with its rows.
func (r *reading) compareEpoch(e *epoch, same func(what string, column, rows int64)) {
	ended := e.status == "closed" || e.status == "lost"
	switch {
	case ended && e.outstanding != 0:
		same("O after the end", e.outstanding, 0)
	case !ended && !e.newest:
		same("O of a live epoch that is not the newest,", e.outstanding, -1)
	}
	same("the number of grants", e.nextGrant-1, e.grants)
	same("the released sum", 0, e.released)
	if e.of.Store {
		// In store mode only grants have rows.
		same("the sum of all parts", e.outstanding+e.held+e.used+e.returning+e.closed+e.swept,
			e.granted+e.soldOfReleased)
		if e.status != "lost" {
			same("S", e.used, e.taken-e.givenBack-e.lateSum)
		}
		return
	}
	same("R", e.returning, e.back-e.direct-e.swept)
	if !e.of.Unlimited { // H and S of an unlimited budget saturate
		same("O", e.outstanding, e.granted+e.direct-e.deducted-e.closed)
		same("H", e.held, e.holding)
		same("S", e.used, e.deducted-e.back-e.holding)
	}
	if !e.newest {
		return
	}
	f := r.feedOf(e.bucket)
	same("the units of the feed", f.units, f.moved)
	same("the entries of the feed", f.entries, f.rows)
	if f.last >= e.nextEntry {
		same("the next entry of the feed", e.nextEntry, f.last+1)
	}
}

// compareStores compares the stores' entries of open epochs with the rows in SQL.
func (r *reading) compareStores(stores map[string]Redis) error {
	for name, store := range stores {
		held, err := entries(store, fmt.Sprintf("budgetd:%s:{%s/*", r.installation, name))
		if err != nil {
			return err
		}
		for _, e := range r.epochs {
			if !e.of.Store || e.instance != name || e.status != "open" || e.halted != "" {
				continue
			}
			r.compareEntry(e, held[strconv.FormatInt(e.bucket, 10)])
		}
	}
	return nil
}

// entry is a store's data of a bucket: its hashes by the last part of their keys.
type entry map[string]string

// entries reads the entries of an instance's partitions.
func entries(store Redis, prefix string) (map[string]entry, error) {
	out := map[string]entry{}
	for _, name := range []string{"epoch", "balance", "taken", "given"} {
		keys, err := store.Keys(prefix + ":" + name)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			hash, err := store.Hash(key)
			if err != nil {
				return nil, err
			}
			for bucket, value := range hash {
				// A bucket that moved also has an entry, marked as closed, on its former partition.
				if out[bucket] == nil {
					out[bucket] = entry{}
				}
				out[bucket][name+" of "+strings.TrimSuffix(key, name)] = value
			}
		}
	}
	return out, nil
}

// compareEntry compares the entry of an open epoch with its row.
func (r *reading) compareEntry(e *epoch, found entry) {
	for name, text := range found {
		partition, is := strings.CutPrefix(name, "epoch of ")
		if !is || text != strconv.FormatInt(e.epoch, 10) {
			continue
		}
		number := func(what string) int64 {
			n, err := strconv.ParseInt(found[what+" of "+partition], 10, 64)
			if err != nil {
				r.wrong("bucket %d: the store's %s is %q", e.bucket, what, found[what+" of "+partition])
			}
			return n
		}
		balance, taken, given := number("balance"), number("taken"), number("given")
		if balance+taken != e.granted-e.pending+given && e.pending == 0 {
			r.wrong("bucket %d: balance %d and taken %d, granted %d and given back %d", e.bucket, balance,
				taken, e.granted, given)
		}
		if taken < e.taken || given < e.givenBack {
			r.wrong("bucket %d: SQL has %d taken and %d given back, the store %d and %d", e.bucket, e.taken,
				e.givenBack, taken, given)
		}
		return
	}
	r.wrong("bucket %d: its store has no entry of its open epoch %d", e.bucket, e.epoch)
}
