package client

import "github.com/google/uuid"

// NewRequestID returns a fresh request id: a UUID of version 7 (RFC 9562), which begins with the
// time in ms, as 36 characters. Ids that begin with the time are next to each other in the ledger,
// which costs a database with many millions of deductions far less than random ones. Keep it with
// the order it belongs to before the first attempt: only the same id makes a repeat safe. Safe for
// concurrent use.
func NewRequestID() string {
	return uuid.Must(uuid.NewV7()).String() // never fails: crypto/rand ends the process instead
}
