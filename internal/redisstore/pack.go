package redisstore

import (
	"encoding/binary"
	"strconv"
)

// packer builds the MessagePack argument of a script. One argument costs a server much less than a
// list.
type packer []byte

// array begins an array of n elements.
func (p packer) array(n int) packer {
	switch {
	case n < 16:
		return append(p, 0x90|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(p, 0xdc), uint16(n)) //nolint:gosec // below 2^16
	default:
		return binary.BigEndian.AppendUint32(append(p, 0xdd), uint32(n)) //nolint:gosec // far below 2^32
	}
}

// number adds an integer.
func (p packer) number(n int64) packer {
	switch {
	case n >= 0 && n < 1<<7:
		return append(p, byte(n))
	case n >= 0 && n < 1<<16:
		return binary.BigEndian.AppendUint16(append(p, 0xcd), uint16(n)) //nolint:gosec // below 2^16
	case n >= 0 && n < 1<<32:
		return binary.BigEndian.AppendUint32(append(p, 0xce), uint32(n)) //nolint:gosec // below 2^32
	default:
		return binary.BigEndian.AppendUint64(append(p, 0xd3),
			uint64(n)) //nolint:gosec // two's complement
	}
}

// text adds a string of any bytes.
func (p packer) text(s string) packer { return append(p.length(len(s)), s...) }

// bytes adds bytes as a string.
func (p packer) bytes(b []byte) packer { return append(p.length(len(b)), b...) }

// length begins a string of n bytes.
func (p packer) length(n int) packer {
	switch {
	case n < 32:
		return append(p, 0xa0|byte(n))
	case n < 1<<8:
		return append(p, 0xd9, byte(n))
	}
	return binary.BigEndian.AppendUint32(append(p, 0xdb), uint32(n)) //nolint:gosec // far below 2^32
}

// decimal adds a number as a text of digits, as which it names a field of a hash.
func (p packer) decimal(n int64) packer {
	at := len(p)
	p = strconv.AppendInt(append(p, 0), n, 10)
	p[at] = 0xa0 | byte(len(p)-at-1) // at most 20 digits
	return p
}

// field adds the name of a field of a bucket: `bucket:rest`.
func (p packer) field(bucket int64, rest string) packer {
	var digits [20]byte
	number := strconv.AppendInt(digits[:0], bucket, 10)
	p = p.length(len(number) + 1 + len(rest))
	return append(append(append(p, number...), ':'), rest...)
}

// numbers adds an array of integers, or 0 for nil.
func (p packer) numbers(list []int64) packer {
	if list == nil {
		return p.number(0)
	}
	p = p.array(len(list))
	for _, n := range list {
		p = p.number(n)
	}
	return p
}
