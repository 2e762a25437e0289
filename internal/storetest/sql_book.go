package storetest

import (
	"crypto/sha256"
	"fmt"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// sqlBook is the log of one epoch as an honest store writes it.
type sqlBook struct {
	ref     bucket.Ref
	entries []ledger.Entry
	balance int64
	grants  int64
	nonces  int
}

// newSQLBook begins the log of an epoch with entry 0.
func newSQLBook(ref bucket.Ref) *sqlBook {
	b := &sqlBook{ref: ref}
	b.append(ledger.OpenLine(ref.Bucket, ref.Epoch, ref.Activation))
	return b
}

// append chains a line to the log, by way of the text that a store keeps.
func (b *sqlBook) append(line string) ledger.Entry {
	previous := ""
	if n := len(b.entries); n > 0 {
		previous = b.entries[n-1].Chain
	}
	entry, err := ledger.ParseEntry(int64(len(b.entries)), ledger.Chain(previous, line)+line)
	if err != nil {
		panic(err)
	}
	b.entries = append(b.entries, entry)
	return entry
}

// grant lets a grant arrive, unless it has.
func (b *sqlBook) grant(order bucket.GrantOrder) {
	if order.Number <= b.grants {
		return
	}
	b.balance += order.Amount
	b.grants = order.Number
	b.append(ledger.Line(ledger.KindGrant, order.Amount, fmt.Sprint(order.Number)))
}

// deduct admits a deduction of an id.
func (b *sqlBook) deduct(id string, amount int64) ledger.Entry {
	b.nonces++
	nonce := fmt.Sprintf("%d/%d/%d", b.ref.Bucket, b.ref.Epoch, b.nonces)
	return b.admit(amount, sqlRequest(id, amount, nonce))
}

// admit admits a request.
func (b *sqlBook) admit(amount int64, request ledger.Request) ledger.Entry {
	b.balance -= amount
	return b.append(ledger.Line(ledger.KindDeduct, amount, ledger.EncodeRequest(request)))
}

// close ends the log with the balance.
func (b *sqlBook) close() ledger.Entry {
	entry := b.append(ledger.Line(ledger.KindClose, b.balance, fmt.Sprint(b.grants)))
	b.balance = 0
	return entry
}

// log is what a read from a position on returns.
func (b *sqlBook) log(from int64) ledger.Log {
	return ledger.Log{
		Bucket: b.ref.Bucket, Epoch: b.ref.Epoch, From: from,
		Entries: b.entries[min(from, int64(len(b.entries))):],
	}
}

// upTo is what a read returned that ended before a position.
func (b *sqlBook) upTo(from, end int64) ledger.Log {
	log := b.log(from)
	log.Entries = log.Entries[:end-from]
	return log
}

// sqlRequest is a request of an id with a nonce made from a text.
func sqlRequest(id string, amount int64, nonce string) ledger.Request {
	sum := sha256.Sum256([]byte(nonce))
	return ledger.Request{
		ID: id, Nonce: string(sum[:8]),
		Fingerprint: ledger.Fingerprint(amount, id, "", ""),
	}
}
