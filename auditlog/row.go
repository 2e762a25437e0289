package auditlog

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
)

// Hash is the SHA-256 of a row and of all rows before it.
type Hash [sha256.Size]byte

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText writes the hash in hexadecimal.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText parses a hash in hexadecimal. It returns an error for any other length.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return errors.New("auditlog: a hash has 64 hexadecimal digits")
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// Done is the outcome of a call that took effect, or had taken effect before. The outcome of a
// refusal is the code of its error.
const Done = "done"

// Row is one administrative call or refused authentication.
type Row struct {
	// Seq numbers the rows from 1, without gaps, in the order of their commits.
	Seq int64
	// AtMS is when the call was made, milliseconds since 1970.
	AtMS int64
	// Principal made the call with the key KeyID. Both are "" without authentication.
	Principal, KeyID string
	// Source is the address that the call came from.
	Source string
	// Op is the call, in the API's words: "append", "create key".
	Op string
	// Target is the name of the budget, instance or key within Tenant; "" for none.
	Tenant, Target string
	// RequestID is the caller's, CorrelationID finds the call in the logs; "" for none.
	RequestID, CorrelationID string
	// Before and After are the definition as JSON; nil if the object does not exist.
	Before, After []byte
	// Outcome is Done, or the code of the error.
	Outcome string
	// Times is the number of equal refusals that the row stands for, at least 1.
	Times int64
	// Hash chains the row to all before it.
	Hash Hash
}

// The texts that begin what is hashed. They distinguish rows, links and later encodings.
const (
	rowFormat = "budgetd audit row 1"
	// LinkFormat begins a link: see Link.
	LinkFormat = "budgetd audit link 1"
)

// Digest returns the SHA-256 of the columns that are known before the row is linked: all but Seq
// and Hash. The columns are prefixed by their lengths, so that no two rows have the same bytes; nil
// and empty definitions differ.
func (r *Row) Digest() Hash {
	text := make([]byte, 0, 512+len(r.Before)+len(r.After))
	text = append(text, rowFormat...)
	number := func(n int64) {
		text = binary.BigEndian.AppendUint64(text, uint64(n)) //nolint:gosec // negative ones too
	}
	column := func(value string) {
		number(int64(len(value)))
		text = append(text, value...)
	}
	definition := func(value []byte) {
		if value == nil {
			number(-1)
			return
		}
		column(string(value))
	}
	number(r.AtMS)
	for _, value := range []string{r.Principal, r.KeyID, r.Source, r.Op, r.Tenant, r.Target,
		r.RequestID, r.CorrelationID} {
		column(value)
	}
	definition(r.Before)
	definition(r.After)
	column(r.Outcome)
	number(r.Times)
	return sha256.Sum256(text)
}

// hashAfter returns the hash of r after a row with hash previous.
func (r *Row) hashAfter(previous Hash) Hash {
	digest := r.Digest()
	text := append([]byte(LinkFormat), previous[:]...)
	text = binary.BigEndian.AppendUint64(text, uint64(r.Seq)) //nolint:gosec // negative ones too
	return sha256.Sum256(append(text, digest[:]...))
}

// Anchor is a place in the chain: the number of a row and its hash. It is written `seq:hash`.
type Anchor struct {
	Seq  int64
	Hash Hash
}

// String returns the anchor in the form that ParseAnchor parses.
func (a Anchor) String() string { return strconv.FormatInt(a.Seq, 10) + ":" + a.Hash.String() }

// ParseAnchor parses an anchor. It returns an error for any text that String does not write.
func ParseAnchor(text string) (a Anchor, err error) {
	seq, hash, found := strings.Cut(text, ":")
	if a.Seq, err = strconv.ParseInt(seq, 10, 64); !found || err != nil || a.Seq < 0 {
		return Anchor{}, errors.New("auditlog: an anchor is written NUMBER:HASH")
	}
	if err := a.Hash.UnmarshalText([]byte(hash)); err != nil || a.String() != text {
		return Anchor{}, errors.New("auditlog: an anchor is written NUMBER:HASH")
	}
	return a, nil
}

// Link returns r as the row that follows an anchor: with its number and its hash, and Times at
// least 1. The hash is the SHA-256 of LinkFormat, the previous hash, the number in eight bytes, the
// highest first, and Digest.
func Link(head Anchor, r Row) Row {
	r.Seq = head.Seq + 1
	r.Times = max(r.Times, 1)
	r.Hash = r.hashAfter(head.Hash)
	return r
}

// Anchor returns the place of r in the chain.
func (r *Row) Anchor() Anchor { return Anchor{r.Seq, r.Hash} }
