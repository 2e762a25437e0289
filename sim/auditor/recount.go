package auditor

// Recount counts every figure of a budget anew from its rows (I1), and looks for rows that cannot
// stand beside each other (I4, I7).
func (a *Auditor) Recount(b *Budget) {
	total := int64(0)
	for _, x := range b.Adjustments {
		if x.State == "done" {
			total += x.Quantity
		}
	}
	a.same(b.ID, "I1: total", b.Total, total)
	given := map[string]int64{}
	for _, r := range b.Rollbacks {
		if r.Amount <= 0 {
			a.fault("I5: budget %d: rollback %q of %q gives back %d", b.ID, r.RollbackID, r.ID, r.Amount)
		}
		given[r.ID] += r.Amount
	}
	for _, e := range b.Ends {
		if e.Returned < 0 || e.Amount <= 0 {
			a.fault("I5: budget %d: the end of hold %q: %+v", b.ID, e.ID, e)
		}
		given[e.ID] += e.Returned
	}
	for id, row := range b.Rows {
		a.same(b.ID, "I5: given back of "+id, row.RolledBack, given[id])
		if row.RolledBack < 0 || row.RolledBack > row.Amount {
			a.fault("I5: budget %d: %d of %d were given back of %q", b.ID, row.RolledBack, row.Amount, id)
		}
		delete(given, id)
	}
	if len(given) > 0 {
		a.fault("I5: budget %d: rollbacks of ids that have no row: %v", b.ID, given)
	}
	out, counted := int64(0), 0
	for i := range b.Buckets {
		for j := range b.Buckets[i].Epochs {
			e := &b.Buckets[i].Epochs[j]
			out += a.recountEpoch(b, b.Buckets[i].ID, e)
			counted += len(e.Deductions)
		}
	}
	held := int64(0)
	for _, q := range b.Quarantines {
		if q.Released < 0 || q.Released > q.Quantity {
			a.fault("I2: budget %d: %d of %d were released from quarantine", b.ID, q.Released, q.Quantity)
		}
		held += q.Quantity - q.Released
	}
	a.same(b.ID, "I1: quarantined", b.Quarantined, held)
	a.same(b.ID, "I1: undistributed", b.Undistributed, b.Total-out-held)
	voids := 0
	for _, row := range b.Rows {
		if row.State == "void" {
			voids++
		}
	}
	a.same(b.ID, "I4: rows with an entry", int64(counted), int64(len(b.Rows)-voids))
}

// recountEpoch counts one epoch and returns what it has of the total.
func (a *Auditor) recountEpoch(b *Budget, bucket int64, e *Epoch) int64 {
	granted, deducted, back, returned, held := int64(0), int64(0), int64(0), int64(0), int64(0)
	for _, g := range e.Grants {
		granted += g.Amount
	}
	seen := map[int64]bool{}
	position := func(seq int64) {
		if seen[seq] || seq < 1 || seq > e.DrainedSeq {
			a.fault("I7: bucket %d, epoch %d: entry %d is counted twice or lies beyond %d", bucket, e.Number,
				seq, e.DrainedSeq)
		}
		seen[seq] = true
	}
	for _, d := range e.Deductions {
		position(d.Seq)
		deducted += d.Amount
		row := b.Rows[d.ID]
		if row.Bucket != bucket || row.Epoch != e.Number || row.Seq != d.Seq {
			a.fault("I4: id %q is counted at bucket %d, epoch %d, entry %d, and its row is elsewhere", d.ID,
				bucket, e.Number, d.Seq)
		}
		back += row.RolledBack
		if row.State == "held" {
			held += row.Amount - row.RolledBack
		}
	}
	for _, d := range e.Duplicates {
		position(d.Seq)
		returned += d.Amount
	}
	a.same(bucket, "I1: outstanding of a bucket", e.Outstanding, granted-deducted-returned-e.Closed)
	a.same(bucket, "I1: used and held of a bucket", e.Used+e.Held, deducted-back)
	a.same(bucket, "I1: held of a bucket", e.Held, held)
	a.same(bucket, "I1: returning of a bucket", e.Returning, returned+back-e.Swept)
	return granted - e.Closed - e.Swept
}

// Pending lists what is left half done; nothing of it may be left when everything is quiet.
func (b *Budget) Pending() (left []string) {
	for i := range b.Buckets {
		epochs := b.Buckets[i].Epochs
		for j := range epochs {
			e := &epochs[j]
			where := text("bucket %d, epoch %d: ", b.Buckets[i].ID, e.Number)
			live := e.Status == "opening" || e.Status == "open" || e.Status == "closing"
			switch {
			case live && e.Fenced != "":
				left = append(left, where+"fenced: "+e.Fenced)
			case e.Status == "opening" || e.Status == "closing":
				left = append(left, where+e.Status)
			case live && j < len(epochs)-1:
				left = append(left, where+"open beside a later one")
			case !live && e.Outstanding != 0:
				left = append(left, text("%s%s with %d outstanding", where, e.Status, e.Outstanding))
			}
			if e.Returning != 0 {
				left = append(left, text("%s%d returning", where, e.Returning))
			}
			for number, g := range e.Grants {
				if live && g.Status == "pending" {
					left = append(left, text("%sgrant %d pending", where, number+1))
				}
			}
		}
	}
	for id, row := range b.Rows {
		if row.State == "held" {
			left = append(left, text("id %q is held", id))
		}
	}
	for _, x := range b.Adjustments {
		if x.State == "pending" {
			left = append(left, text("adjustment %q pending", x.ID))
		}
	}
	if b.PendingShrink != 0 {
		left = append(left, text("%d kept for shrinks", b.PendingShrink))
	}
	return left
}
