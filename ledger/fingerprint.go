package ledger

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
)

// fingerprintFormat is the first byte of every fingerprint. A new canonical form gets a new number.
// Rows with an older number are compared in the older form.
const fingerprintFormat = 1

// fingerprintBytes is the length of a fingerprint.
const fingerprintBytes = 16

// Fingerprint identifies the payload of a deduct request in 16 bytes: a format number and 120 bits
// of the SHA-256 of amount, key, reference, dimensions and more, each with its length. Two calls
// with one request id are the same request if and only if their fingerprints agree (I4).
func Fingerprint(amount int64, key, reference, dimensions string, more ...string) string {
	var room [256]byte
	h := binary.BigEndian.AppendUint64(room[:0], uint64(amount)) //nolint:gosec // amounts are positive
	for _, text := range [...]string{key, reference, dimensions} {
		h = append(binary.AppendUvarint(h, uint64(len(text))), text...)
	}
	for _, text := range more {
		h = append(binary.AppendUvarint(h, uint64(len(text))), text...)
	}
	sum := sha256.Sum256(h)
	out := [fingerprintBytes]byte{fingerprintFormat}
	copy(out[1:], sum[:])
	return string(out[:])
}

// LegPrint is the fingerprint of a leg of a set, in a budget.
type LegPrint struct {
	Budget      int64
	Fingerprint string
}

// SetFingerprint returns the fingerprint of a set by those of its legs, whose order does not count,
// and its group.
func SetFingerprint(legs []LegPrint, group string) string {
	legs = slices.SortedFunc(slices.Values(legs), func(a, b LegPrint) int {
		return cmp.Compare(a.Budget, b.Budget)
	})
	var list []string
	for _, l := range legs {
		list = append(list, strconv.FormatInt(l.Budget, 10), l.Fingerprint)
	}
	return Fingerprint(int64(len(legs)), group, "", "", list...)
}

// SourcesFingerprint returns the fingerprint of a leg with sources, in their order, by that of the
// leg of one budget. whole asks for all from one source.
func SourcesFingerprint(leg string, budgets []int64, whole bool) string {
	list := []string{leg, strconv.FormatBool(whole)}
	for _, id := range budgets {
		list = append(list, strconv.FormatInt(id, 10))
	}
	return Fingerprint(int64(len(budgets)), "", "", "", list...)
}

// RequestFingerprint returns the fingerprint of a deduct request. key is the routing key that the
// caller gave, or "".
func RequestFingerprint(amount int64, key string, r Request) string {
	if r.HoldTTL == 0 && r.Group == "" && r.Counts == "" {
		return Fingerprint(amount, key, r.Reference, r.Dimensions)
	}
	more := []string{strconv.FormatInt(r.HoldTTL, 10), r.Group, r.Counts}
	if r.Above != "" { // which only a hold has
		more = append(more, string(r.Above))
	}
	if r.ExpiresAs != "" {
		more = append(more, string(r.ExpiresAs))
	}
	return Fingerprint(amount, key, r.Reference, r.Dimensions, more...)
}
