package auditor

import (
	"encoding/binary"
	"errors"
	"strings"
)

// owner is the row of a set of a tenant.
type owner struct {
	legs   []leg
	due    bool
	isHold bool
}

type leg struct{ budget, bucket, epoch uint64 }

// legID is the id of the legs of the set with an id.
func legID(owner string) string {
	_, id, _ := strings.Cut(owner, "\x00")
	return "\x02" + id
}

// readSets reads the owners of sets, and compares them with their legs.
func (r *reading) readSets() error {
	tenants, owners, listed := map[int64]string{}, map[string]*owner{}, map[*Deduction]bool{}
	read := func(scan func(...any) error) error {
		var id, note string
		err := scan(&id, &note)
		o := &owner{legs: legsOf(note)}
		if owners[id] = o; err == nil && strings.Count(id, "\x00") != 1 {
			r.wrong("the owner %q of a set names no tenant", id)
		}
		return err
	}
	err := errors.Join(
		r.each(`SELECT id, tenant FROM budget_management_bucket`, func(scan func(...any) error) error {
			var id int64
			var tenant string
			err := scan(&id, &tenant)
			tenants[id] = tenant
			return err
		}),
		r.each(`SELECT request_id, COALESCE(note, '') FROM deduction WHERE budget_id = 0`, read),
		r.each(`SELECT request_id, due_ms IS NOT NULL FROM hold WHERE budget_id = 0`,
			func(scan func(...any) error) error {
				var id string
				var due bool
				err := scan(&id, &due)
				if owners[id] == nil {
					return errors.Join(err, r.orphan(err == nil, "hold %q", id))
				}
				owners[id].isHold, owners[id].due = true, due
				return err
			}))
	if err != nil {
		return err
	}
	for id, o := range owners {
		held := false
		for _, l := range o.legs {
			b := r.budgets[int64(l.budget)]
			if b == nil || b.Deductions[legID(id)] == nil {
				r.wrong("a leg of the set %q is missing in budget %d", id, l.budget)
				continue
			}
			d := b.Deductions[legID(id)]
			if listed[d] = true; !strings.HasPrefix(id, tenants[b.ID]+"\x00") {
				r.wrong("%s: a leg of the set %q is of another tenant", b.Name, id)
			}
			if uint64(d.bucket) != l.bucket || uint64(d.epoch) != l.epoch {
				r.wrong("%s: a leg of the set %q is at %d %d", b.Name, id, d.bucket, d.epoch)
			}
			held = held || d.Held
			if o.isHold && o.due && !d.Held && d.Back < d.Amount {
				r.wrong("%s: a leg of the held set %q is not held", b.Name, id)
			}
		}
		if held != o.due {
			r.wrong("the set %q is held: %t, and due_ms is set: %t", id, held, o.due)
		}
	}
	if err := r.readCharged(listed); err != nil {
		return err
	}
	for _, b := range r.budgets {
		for id, d := range b.Deductions {
			if (strings.HasPrefix(id, "\x01") || strings.HasPrefix(id, "\x02")) && !listed[d] {
				r.wrong("%s: the leg %q is of no set", b.Name, id)
			}
		}
	}
	return nil
}

// readCharged compares deductions from budgets that charged others with their legs there: their
// amounts and states are equal.
func (r *reading) readCharged(listed map[*Deduction]bool) error {
	return r.each(`SELECT budget_id, request_id, note FROM deduction WHERE budget_id > 0
		AND note IS NOT NULL`,
		func(scan func(...any) error) error {
			var budgetID int64
			var id, note string
			err := scan(&budgetID, &id, &note)
			for _, l := range legsOf(note) {
				b, own := r.budgets[int64(l.budget)], r.budgets[budgetID].Deductions[id]
				if b == nil || own == nil {
					r.wrong("a leg of request %q of budget %d is in no budget", id, budgetID)
					continue
				}
				owner := binary.BigEndian.AppendUint64([]byte{1}, uint64(budgetID))
				d := b.Deductions[string(owner)+id]
				if d == nil {
					r.wrong("%s: a leg of request %q of budget %d is missing", b.Name, id, budgetID)
					continue
				}
				if listed[d] = true; uint64(d.bucket) != l.bucket || uint64(d.epoch) != l.epoch {
					r.wrong("%s: a leg of request %q is at %d %d", b.Name, id, d.bucket, d.epoch)
				}
				if d.Amount != own.Amount || d.Back != own.Back || d.Held != own.Held {
					r.wrong("%s: a leg of request %q is %d-%d, and its owner %d-%d", b.Name, id,
						d.Amount, d.Back, own.Amount, own.Back)
				}
			}
			return err
		})
}

// legsOf reads the legs of a note: the sixth of its texts, of three numbers each. The last is four
// times the epoch, one more for a leg whose part is that of others, and two more for a part of a
// leg with sources, whose first source follows.
func legsOf(note string) (legs []leg) {
	const withLegs = 4
	if note == "" || note[0] != withLegs {
		return nil
	}
	rest := []byte(note[1:])
	var text []byte
	for len(rest) > 0 {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > uint64(len(rest)-size) {
			return nil
		}
		text, rest = rest[size:size+int(n)], rest[size+int(n):]
	}
	for len(text) > 0 {
		var numbers [3]uint64
		for i := range numbers {
			n, size := binary.Uvarint(text)
			if size <= 0 {
				return nil
			}
			numbers[i], text = n, text[size:]
		}
		if numbers[2]&2 != 0 {
			_, size := binary.Uvarint(text)
			if size <= 0 {
				return nil
			}
			text = text[size:]
		}
		legs = append(legs, leg{numbers[0], numbers[1], numbers[2] / 4})
	}
	return legs
}
