package budget

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Bounds of identifiers chosen by callers, in bytes.
const (
	MaxNameBytes      = 63
	MaxRequestIDBytes = 128
	MaxKeyBytes       = 256
	MaxDimensions     = 16
	// DefaultTenant is the tenant of requests that name none.
	DefaultTenant = "default"
)

// CheckName returns what is wrong with a budget's or tenant's name, or "": it must match
// `[a-z][a-z0-9-]{0,62}`.
func CheckName(name string) string {
	if name == "" {
		return "is missing"
	}
	if len(name) > MaxNameBytes {
		return fmt.Sprintf("is %d bytes long, at most %d are allowed", len(name), MaxNameBytes)
	}
	for i := range len(name) {
		c := name[i]
		lower := c >= 'a' && c <= 'z'
		if !lower && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return "must start with a letter a-z and hold only a-z, 0-9 and -"
		}
	}
	return ""
}

// CheckRequestID returns what is wrong with a request id, or "": it must be 1-128 bytes of UTF-8
// without control characters. Ids are compared byte by byte; nothing is trimmed or normalised.
func CheckRequestID(id string) string { return checkText(id, MaxRequestIDBytes) }

// CheckKey returns what is wrong with a routing key, a dimension's name or value, or a reference,
// or "": it must be 1-256 bytes of UTF-8 without control characters.
func CheckKey(key string) string { return checkText(key, MaxKeyBytes) }

func checkText(text string, limit int) string {
	switch {
	case text == "":
		return "is missing"
	case len(text) > limit:
		return fmt.Sprintf("is %d bytes long, at most %d are allowed", len(text), limit)
	case !utf8.ValidString(text):
		return "is not valid UTF-8"
	}
	for i, r := range text {
		if unicode.IsControl(r) {
			return fmt.Sprintf("contains a control character at byte %d", i)
		}
	}
	return ""
}
