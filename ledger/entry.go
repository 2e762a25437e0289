package ledger

import (
	"crypto/sha1" //nolint:gosec // the hash that Redis offers to scripts; a log match, not a signature
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/budget"
)

// Kind tells the entries of a bucket's log apart.
type Kind byte

// The kinds of entries.
const (
	// KindOpen begins an epoch; it is entry 0.
	KindOpen Kind = 'o'
	// KindGrant is a grant that arrived in the store.
	KindGrant Kind = 'g'
	// KindDeduct is a deduction that the store admitted.
	KindDeduct Kind = 'd'
	// KindClose ends an epoch; its amount is the balance at that moment.
	KindClose Kind = 'c'
)

// Bytes of an encoded entry that are fixed.
const (
	// ChainBytes is the length of a chain value: 64 bits in hexadecimal. It tells a log that went
	// back or forked from the one that was drained; it need not resist forgery.
	ChainBytes = 16
	// entryFormat is the number every entry starts with, so that a later format can be told.
	entryFormat = '1'

	nonceBytes       = 8
	fingerprintBytes = 16
)

// Entry is one line of a bucket's log in the store.
type Entry struct {
	// Seq is the position in the epoch, from 0.
	Seq  int64
	Kind Kind
	// Amount is in minor units: granted, deducted, or the balance when the epoch closed.
	Amount int64
	// Number is the number of the grant; for a close, how many grants had arrived.
	Number int64
	// Request is what was deducted for; only for KindDeduct.
	Request Request
	// Chain is made from the previous entry's chain value and this entry's Line.
	Chain string
	// Line is the entry as chained, without its chain value.
	Line string
}

// Request is the part of a deduction that travels through the store's log: all that a ledger row
// needs beside the position and the amount.
type Request struct {
	ID string
	// Fingerprint is 16 bytes: see Fingerprint.
	Fingerprint string
	// Nonce is 8 random bytes of one call.
	Nonce     string
	Reference string
	// Dimensions is the canonical JSON of the dimensions, "" when there are none.
	Dimensions string
}

// EncodeRequest returns the bytes that the store keeps for a deduction. Fingerprint and Nonce must
// have their fixed lengths.
func EncodeRequest(r Request) string {
	out := make([]byte, 0, nonceBytes+fingerprintBytes+len(r.ID)+len(r.Reference)+len(r.Dimensions)+6)
	out = append(out, r.Nonce...)
	out = append(out, r.Fingerprint...)
	for _, text := range [...]string{r.ID, r.Reference, r.Dimensions} {
		out = binary.AppendUvarint(out, uint64(len(text)))
		out = append(out, text...)
	}
	return string(out)
}

func decodeRequest(payload string) (Request, error) {
	var r Request
	if len(payload) < nonceBytes+fingerprintBytes {
		return r, fmt.Errorf("deduction of %d bytes is cut short", len(payload))
	}
	r.Nonce, payload = payload[:nonceBytes], payload[nonceBytes:]
	r.Fingerprint, payload = payload[:fingerprintBytes], payload[fingerprintBytes:]
	for _, field := range [...]*string{&r.ID, &r.Reference, &r.Dimensions} {
		size, used := binary.Uvarint([]byte(payload[:min(len(payload), binary.MaxVarintLen64)]))
		if used <= 0 || size > uint64(len(payload)-used) {
			return r, fmt.Errorf("deduction's text runs past its end")
		}
		*field, payload = payload[used:used+int(size)], payload[used+int(size):]
	}
	if payload != "" {
		return r, fmt.Errorf("%d bytes follow the deduction", len(payload))
	}
	return r, nil
}

// Line returns an entry as it is chained: format, kind, amount, a bar and the payload. The scripts
// build the same text; the conformance suite compares them.
func Line(kind Kind, amount int64, payload string) string {
	return string(rune(entryFormat)) + string(rune(kind)) + strconv.FormatInt(amount, 10) + "|" + payload
}

// Chain returns the chain value of an entry: the first 16 hexadecimal digits of the SHA-1 of the
// previous entry's chain value and the line. The first entry of an epoch follows "".
func Chain(previous, line string) string {
	sum := sha1.Sum([]byte(previous + line)) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:ChainBytes/2])
}

// OpenLine is the line of entry 0 of an epoch: it names the epoch and the activation, so that two
// lives of one bucket never share a chain.
func OpenLine(bucket, epoch, activation int64) string {
	return Line(KindOpen, 0, fmt.Sprintf("%d/%d/%d", bucket, epoch, activation))
}

// OpenChain is the chain value of entry 0; SQL knows it before the store has written it.
func OpenChain(bucket, epoch, activation int64) string {
	return Chain("", OpenLine(bucket, epoch, activation))
}

// ParseEntry reads an entry from the text that the store keeps: its chain value followed by its
// line. The error says what is wrong with the text; such a bucket must be fenced.
func ParseEntry(seq int64, text string) (Entry, error) {
	e := Entry{Seq: seq}
	fail := func(why string) (Entry, error) {
		return e, fmt.Errorf("log entry %d: %s", seq, why)
	}
	if len(text) < ChainBytes+3 {
		return fail("cut short")
	}
	e.Chain, e.Line = text[:ChainBytes], text[ChainBytes:]
	if e.Line[0] != entryFormat {
		return fail(fmt.Sprintf("format %q is not known", e.Line[0]))
	}
	e.Kind = Kind(e.Line[1])
	number, payload, found := strings.Cut(e.Line[2:], "|")
	if !found {
		return fail("no payload")
	}
	amount, ok := parseCount(number)
	if !ok {
		return fail("amount is not a number")
	}
	e.Amount = amount
	switch e.Kind {
	case KindOpen:
	case KindGrant, KindClose:
		if e.Number, ok = parseCount(payload); !ok {
			return fail("grant number is not a number")
		}
	case KindDeduct:
		request, err := decodeRequest(payload)
		if err != nil {
			return fail(err.Error())
		}
		e.Request = request
	default:
		return fail(fmt.Sprintf("kind %q is not known", byte(e.Kind)))
	}
	return e, nil
}

// maxDimensionsBytes is the width of the deduction's column; the most that a valid request needs is
// 49 KiB.
const maxDimensionsBytes = 1<<16 - 1

// unfit says why a deduction cannot become a row of the ledger, "" if it can: its amount is none, or
// a text does not fit its column. No script writes such an entry. It must not reach the database,
// where its error would be that of every bucket in the transaction.
func (e *Entry) unfit() string {
	r := &e.Request
	switch {
	case !budget.ValidAmount(e.Amount):
		return fmt.Sprintf("deducts %d", e.Amount)
	case r.ID == "" || len(r.ID) > budget.MaxRequestIDBytes:
		return fmt.Sprintf("has a request id of %d bytes", len(r.ID))
	case len(r.Reference) > budget.MaxKeyBytes:
		return fmt.Sprintf("has a reference of %d bytes", len(r.Reference))
	case len(r.Dimensions) > maxDimensionsBytes:
		return fmt.Sprintf("has dimensions of %d bytes", len(r.Dimensions))
	}
	return ""
}

// parseCount reads a non-negative decimal number without sign or leading zeros.
func parseCount(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == text
}
