package redisstore

import (
	"encoding/binary"
	"errors"

	"github.com/budgetd/budgetd/bucket"
)

// appendRecord appends what a script stores for a deduction, except for the instant; see
// lua/undo.lua.
func appendRecord(p packer, incarnation int64, d *bucket.StoreDeduction, tags []uint32) packer {
	p = p.number(d.Amount).number(d.Epoch).number(incarnation).text(d.Fingerprint).text(d.Nonce)
	p = p.number(d.Terms.LimitsVersion).text(d.Value)
	if d.Counts == nil {
		return p.number(0)
	}
	p = p.array(2 * len(d.Counts))
	for i, n := range d.Counts {
		p = p.number(int64(tags[i])).number(n)
	}
	return p
}

var errRecord = errors.New("a record is unreadable")

// readRecord reads a record.
func readRecord(text string) (r bucket.Record, err error) {
	u := unpacker(text)
	defer func() {
		if u.bad() {
			r, err = bucket.Record{}, errRecord
		}
	}()
	r.Amount, r.Epoch, r.Incarnation = u.number(), u.number(), u.number()
	r.Fingerprint, r.Nonce = u.text(), u.text()
	u.number() // limits version
	u.text()   // value
	for range u.list() {
		u.number()
	}
	r.AtMS = u.number()
	r.Void = r.Amount == 0
	if r.Void {
		r.Unsure, r.Epoch = r.Epoch == 1, 0
	}
	if len(u) == 0 || u.bad() {
		return r, nil
	}
	r.RolledBack = u.number()
	for range u.list() / 2 {
		r.Rollbacks = append(r.Rollbacks, bucket.RecordedRollback{ID: u.text(), Amount: u.number()})
	}
	return r, nil
}

// unpacker reads MessagePack as a script's cmsgpack writes it. A read of missing data makes it bad.
type unpacker string

// unreadable is the state of an unpacker after unexpected data.
const unreadable = unpacker("\xc1")

func (u *unpacker) bad() bool { return *u == unreadable }

// take returns the next n bytes.
func (u *unpacker) take(n int) string {
	if len(*u) < n || u.bad() {
		*u = unreadable
		return "\x00\x00\x00\x00\x00\x00\x00\x00"[:min(n, 8)]
	}
	out := (*u)[:n]
	*u = (*u)[n:]
	return string(out)
}

// integer reads a big-endian number of n bytes.
func (u *unpacker) integer(n int) int64 {
	var b [8]byte
	copy(b[8-n:], u.take(n))
	return int64(binary.BigEndian.Uint64(b[:])) //nolint:gosec // as stored
}

// number reads an integer of 0 … 2^63 - 1.
func (u *unpacker) number() int64 {
	switch kind := u.take(1)[0]; {
	case kind < 0x80:
		return int64(kind)
	case kind == 0xcc || kind == 0xd0:
		return u.integer(1)
	case kind == 0xcd || kind == 0xd1:
		return u.integer(2)
	case kind == 0xce || kind == 0xd2:
		return u.integer(4)
	case kind == 0xcf || kind == 0xd3:
		if n := u.integer(8); n >= 0 {
			return n
		}
	}
	*u = unreadable
	return 0
}

// text reads a string.
func (u *unpacker) text() string {
	switch kind := u.take(1)[0]; {
	case kind&0xe0 == 0xa0:
		return u.take(int(kind & 0x1f))
	case kind == 0xd9:
		return u.take(int(u.integer(1)))
	case kind == 0xda:
		return u.take(int(u.integer(2)))
	case kind == 0xdb:
		return u.take(int(u.integer(4)))
	}
	*u = unreadable
	return ""
}

// list begins a list and returns its length; the number 0 stands for an empty one.
func (u *unpacker) list() int {
	switch kind := u.take(1)[0]; {
	case kind == 0:
		return 0
	case kind&0xf0 == 0x90:
		return int(kind & 0x0f)
	case kind&0xf0 == 0x80 && kind == 0x80: // an empty table
		return 0
	case kind == 0xdc:
		return int(u.integer(2))
	}
	*u = unreadable
	return 0
}
