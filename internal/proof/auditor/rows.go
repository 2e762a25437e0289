package auditor

import (
	"database/sql"
	"errors"
	"strings"
)

func (r *reading) readDeductions() error {
	return r.each(`SELECT budget_id, request_id, bucket_id, epoch, amount FROM deduction
		WHERE budget_id <> 0`,
		func(scan func(...any) error) error {
			d, budgetID, id := &Deduction{Rollbacks: map[string]int64{}}, int64(0), ""
			err := scan(&budgetID, &id, &d.bucket, &d.epoch, &d.Amount)
			b := r.budgets[budgetID]
			if err != nil || b == nil {
				return errors.Join(err, r.orphan(b == nil, "deduction %q", id))
			}
			b.Deductions[id], d.Void = d, d.bucket == 0
			if d.Void {
				if d.Amount != 0 {
					r.wrong("%s: the tombstone %q has %d units", b.Name, id, d.Amount)
				}
				return nil
			}
			e := r.epochs[epochKey{d.bucket, d.epoch}]
			if e == nil || e.of != b {
				return r.orphan(true, "deduction %q of %s", id, b.Name)
			}
			e.deducted += d.Amount
			r.feedOf(d.bucket).moved += d.Amount
			r.feedOf(d.bucket).rows++
			return nil
		})
}

func (r *reading) feedOf(bucket int64) *feed {
	if r.feeds[bucket] == nil {
		r.feeds[bucket] = &feed{}
	}
	return r.feeds[bucket]
}

func (r *reading) readHolds() error {
	return r.each(`SELECT budget_id, request_id, state, confirmed, due_ms IS NULL, bucket_id, epoch,
		expires_as, used, step FROM hold WHERE budget_id <> 0`, func(scan func(...any) error) error {
		var budgetID, confirmed, used, steps int64
		var id, state, expiresAs string
		var ended bool
		var at epochKey
		err := scan(&budgetID, &id, &state, &confirmed, &ended, &at.bucket, &at.epoch, &expiresAs,
			&used, &steps)
		b := r.budgets[budgetID]
		if err != nil || b == nil || b.Deductions[id] == nil {
			return errors.Join(err, r.orphan(err == nil, "hold %q", id))
		}
		d := b.Deductions[id]
		isLeg := strings.HasPrefix(id, "\x02") // which ends with its set
		if d.Held = state == "held"; !isLeg && d.Held == ended || isLeg && !ended {
			r.wrong("%s: the hold %q is %s, and due_ms is set: %t", b.Name, id, state, !ended)
		}
		r.feedOf(d.bucket).rows += steps // each has an entry
		d.isHold, d.used, d.confirmed = true, used, confirmed
		if (epochKey{d.bucket, d.epoch}) != at {
			r.wrong("%s: the hold %q at %v is not its deduction's %+v", b.Name, id, at, *d)
		}
		if state == "expired" && expiresAs == "used" {
			r.wrong("%s: the hold %q has expired, which counts as used, and was given back", b.Name, id)
		}
		if e := r.epochs[at]; e != nil && d.Held {
			e.holding += d.Amount - used // readBacks subtracts what was given back
		}
		return nil
	})
}

// readExtras reads what deductions took above their holds.
func (r *reading) readExtras() error {
	return r.each(`SELECT budget_id, request_id, number, bucket_id, epoch, amount, back_quantity,
		used_quantity FROM extra`, func(scan func(...any) error) error {
		var budgetID int64
		x, id, number, used := extra{}, "", int64(0), int64(0)
		err := scan(&budgetID, &id, &number, &x.at.bucket, &x.at.epoch, &x.amount, &x.back, &used)
		b, e := r.budgets[budgetID], r.epochs[x.at]
		if err != nil || b == nil || b.Deductions[id] == nil || e == nil || e.of != b {
			return errors.Join(err, r.orphan(err == nil, "extra %d of %q", number, id))
		}
		d := b.Deductions[id]
		if first := r.epochs[epochKey{d.bucket, d.epoch}]; d.Held && first != nil {
			first.holding += used // readHolds has subtracted what is used of all parts
			e.holding += x.amount - used
		} else if used+x.back != x.amount {
			r.wrong("%s: extra %d of %q is not held, and %d of its %d are used", b.Name, number, id, used,
				x.amount-x.back)
		}
		if d.extras == nil {
			d.extras = map[int64]*extra{}
		}
		d.extras[number] = &x
		d.Extra += x.amount
		e.deducted += x.amount
		r.feedOf(x.at.bucket).moved += x.amount
		r.feedOf(x.at.bucket).rows++
		return nil
	})
}

func (r *reading) readBacks() error {
	return r.each(`SELECT budget_id, request_id, kind, rollback_id, number, amount, is_direct,
		bucket_id, epoch FROM give_back`, func(scan func(...any) error) error {
		var budgetID, number, amount int64
		var id, kind, rollback string
		var direct bool
		var at epochKey
		err := scan(&budgetID, &id, &kind, &rollback, &number, &amount, &direct, &at.bucket, &at.epoch)
		b := r.budgets[budgetID]
		if err != nil || b == nil || b.Deductions[id] == nil || r.epochs[at] == nil {
			return errors.Join(err, r.orphan(err == nil, "the refund of %q", id))
		}
		d, e := b.Deductions[id], r.epochs[at]
		from := epochKey{d.bucket, d.epoch}
		if x := d.extras[number]; x != nil {
			from, x.back = x.at, x.back-amount
		} else if number != 0 {
			r.wrong("%s: units of %q were given back from an extra %d", b.Name, id, number)
		}
		if from != at {
			r.wrong("%s: units of %q were given back to %v", b.Name, id, at)
		}
		if d.Back += amount; d.Back > d.Amount+d.Extra {
			r.wrong("%s: %d units of %q were given back, it took %d", b.Name, d.Back, id,
				d.Amount+d.Extra)
		}
		if kind == "rollback" {
			d.Rollbacks[rollback] += amount
		}
		e.back += amount
		if direct {
			e.direct += amount
		}
		if d.Held {
			e.holding -= amount
		}
		r.feedOf(at.bucket).moved -= amount
		r.feedOf(at.bucket).rows++
		return nil
	})
}

func (r *reading) readFeeds() error {
	return r.each(`SELECT bucket_id, first_entry, entries, units FROM feed
		ORDER BY bucket_id, first_entry`, func(scan func(...any) error) error {
		var bucket, first, entries, units int64
		if err := scan(&bucket, &first, &entries, &units); err != nil {
			return err
		}
		f := r.feedOf(bucket)
		if first <= f.last || entries < 1 {
			r.wrong("bucket %d: feed entry %d (%d entries) follows %d", bucket, first, entries, f.last)
		}
		f.last, f.units, f.entries = first+entries-1, f.units+units, f.entries+entries
		return nil
	})
}

func (r *reading) readAdjustments() error {
	return r.each(`SELECT budget_id, request_id, quantity, status FROM adjustment`,
		func(scan func(...any) error) error {
			var budgetID, quantity int64
			var id, status string
			err := scan(&budgetID, &id, &quantity, &status)
			b := r.budgets[budgetID]
			switch {
			case err != nil || b == nil:
				return errors.Join(err, r.orphan(b == nil, "adjustment %q", id))
			case id == "":
				b.created = quantity
			default:
				b.Adjustments[id] = Adjustment{quantity, status == "done", status == "pending"}
			}
			return nil
		})
}

func (r *reading) readQuarantines() error {
	err := r.each(`SELECT bucket_id, epoch, quantity, released_quantity FROM quarantine`,
		func(scan func(...any) error) error {
			var at epochKey
			var quantity, released int64
			err := scan(&at.bucket, &at.epoch, &quantity, &released)
			if e := r.epochs[at]; err == nil && e != nil {
				e.quarantined, e.released = quantity, released
				return nil
			}
			return errors.Join(err, r.orphan(err == nil, "quarantine of %v", at))
		})
	if err != nil {
		return err
	}
	err = r.each(`SELECT bucket_id, epoch, quantity, goes_to FROM quarantine_release`,
		func(scan func(...any) error) error {
			var at epochKey
			var quantity int64
			to := ""
			err := scan(&at.bucket, &at.epoch, &quantity, &to)
			e := r.epochs[at]
			if err != nil || e == nil {
				return errors.Join(err, r.orphan(err == nil, "release of %v", at))
			}
			if e.released -= quantity; to == "used" { // the rest has no row; compare derives it
				e.soldOfReleased += quantity
			}
			e.quarantined -= quantity
			return nil
		})
	if err != nil {
		return err
	}
	err = r.tx.QueryRowContext(r.ctx, `SELECT installation_id FROM installation`).Scan(&r.installation)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}
