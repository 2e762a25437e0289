package client

import "github.com/google/uuid"

// NewRequestID returns a fresh request id: a UUID of version 7 (RFC 9562), which begins with the
// time in ms, as 36 characters. Ids that begin with the time are adjacent in the ledger, which
// costs a database with many millions of deductions far less than random ones. Store it with its
// order before the first attempt: only the same id makes a retry safe. It is safe for concurrent
// use.
func NewRequestID() string {
	return uuid.Must(uuid.NewV7()).String() // never fails: crypto/rand ends the process instead
}
