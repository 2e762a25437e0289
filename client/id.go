package client

import (
	"crypto/rand"
	"encoding/hex"
)

// NewRequestID returns a fresh request id: 128 random bits as 32 hexadecimal digits. Keep it with
// the order it belongs to before the first attempt: only the same id makes a repeat safe.
func NewRequestID() string {
	var bits [16]byte
	rand.Read(bits[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(bits[:])
}
