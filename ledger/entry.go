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
	// HoldTTL makes a hold of it: how long it lasts from its commit, in milliseconds; 0: used at once.
	HoldTTL int64
	// Group names the holds that are confirmed or rolled back together; "": none.
	Group string
	// Counts is the canonical JSON of own amounts for single limits, "" when there are none.
	Counts string
	// At is when its store counted it against limits, by SQL's clock, in ms since 1970; 0: the commit counts it.
	At int64
}

// EncodeRequest returns the bytes that the store keeps for a deduction. Fingerprint and Nonce must
// have their fixed lengths. One without a hold and counts ends after its dimensions.
func EncodeRequest(r Request) string {
	out := make([]byte, 0, nonceBytes+fingerprintBytes+len(r.ID)+len(r.Reference)+len(r.Dimensions)+
		len(r.Group)+len(r.Counts)+24)
	out = append(out, r.Nonce...)
	out = append(out, r.Fingerprint...)
	for _, text := range [...]string{r.ID, r.Reference, r.Dimensions} {
		out = binary.AppendUvarint(out, uint64(len(text)))
		out = append(out, text...)
	}
	if r.HoldTTL == 0 && r.Group == "" && r.Counts == "" && r.At == 0 {
		return string(out)
	}
	out = binary.AppendUvarint(out, uint64(r.HoldTTL)) //nolint:gosec // never negative
	for _, text := range [...]string{r.Group, r.Counts} {
		out = binary.AppendUvarint(out, uint64(len(text)))
		out = append(out, text...)
	}
	if r.At != 0 {
		var at [8]byte
		binary.BigEndian.PutUint64(at[:], uint64(r.At)) //nolint:gosec // never negative
		out = append(out, at[len(at)-atBytes:]...)
	}
	return string(out)
}

// atBytes is how long Request.At is at the end of an encoded request: big-endian, unsigned.
const atBytes = 6

// EncodeUntimed is EncodeRequest of a request with an At, without it: the store that counts it appends
// its clock's ms as 6 bytes, big-endian.
func EncodeUntimed(r Request) string {
	r.At = 1
	text := EncodeRequest(r)
	return text[:len(text)-atBytes]
}

func decodeRequest(payload string) (r Request, err error) {
	if len(payload) < nonceBytes+fingerprintBytes {
		return r, fmt.Errorf("deduction of %d bytes is cut short", len(payload))
	}
	r.Nonce, payload = payload[:nonceBytes], payload[nonceBytes:]
	r.Fingerprint, payload = payload[:fingerprintBytes], payload[fingerprintBytes:]
	for _, field := range [...]*string{&r.ID, &r.Reference, &r.Dimensions} {
		if payload, err = cutText(payload, field); err != nil {
			return r, err
		}
	}
	if payload == "" {
		return r, nil
	}
	ttl, used := binary.Uvarint([]byte(payload[:min(len(payload), binary.MaxVarintLen64)]))
	if used <= 0 || ttl > uint64(budget.MaxAmount) {
		return r, fmt.Errorf("deduction's hold has no length")
	}
	r.HoldTTL, payload = int64(ttl), payload[used:]
	for _, field := range [...]*string{&r.Group, &r.Counts} {
		if payload, err = cutText(payload, field); err != nil {
			return r, err
		}
	}
	if len(payload) == atBytes {
		for i := range atBytes {
			r.At = r.At<<8 | int64(payload[i])
		}
		payload = payload[atBytes:]
	}
	if payload != "" {
		return r, fmt.Errorf("%d bytes follow the deduction", len(payload))
	}
	return r, nil
}

// cutText reads a text that follows its length, and returns what comes after it.
func cutText(payload string, text *string) (rest string, err error) {
	size, used := binary.Uvarint([]byte(payload[:min(len(payload), binary.MaxVarintLen64)]))
	if used <= 0 || size > uint64(len(payload)-used) {
		return "", fmt.Errorf("deduction's text runs past its end")
	}
	*text = payload[used : used+int(size)]
	return payload[used+int(size):], nil
}

// Line returns an entry as it is chained: format, kind, amount, a bar and the payload. The scripts
// build the same text; the conformance suite compares them.
func Line(kind Kind, amount int64, payload string) string {
	return string(rune(entryFormat)) + string(rune(kind)) + strconv.FormatInt(amount, 10) + "|" + payload
}

// Chain returns the chain value of an entry: the first 16 hexadecimal digits of the SHA-1 of the
// previous entry's chain value and the line. The first entry of an epoch follows "".
func Chain(previous, line string) string {
	digits := chain(previous, line)
	return string(digits[:])
}

func chain(previous, line string) (digits [ChainBytes]byte) {
	var buffer [512]byte                                              // most lines fit
	sum := sha1.Sum(append(append(buffer[:0], previous...), line...)) //nolint:gosec // see the import
	hex.Encode(digits[:], sum[:ChainBytes/2])
	return digits
}

// continues reports whether the entry's chain value is that of its line after a previous entry's.
func (e *Entry) continues(previous string) bool {
	digits := chain(previous, e.Line)
	return string(digits[:]) == e.Chain
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
	case len(r.Group) > budget.MaxRequestIDBytes:
		return fmt.Sprintf("has a group of %d bytes", len(r.Group))
	case r.HoldTTL > budget.MaxHoldTTL.Milliseconds():
		return fmt.Sprintf("is held for %d ms", r.HoldTTL)
	case r.Group != "" && r.HoldTTL == 0:
		return "has a group and is no hold"
	case len(r.Counts) > maxDimensionsBytes:
		return fmt.Sprintf("has counts of %d bytes", len(r.Counts))
	}
	return ""
}

// parseCount reads a non-negative decimal number without sign or leading zeros.
func parseCount(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == text
}
