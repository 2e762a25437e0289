package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math/big"
)

// The parts of a token: bdg_<id>_<secret>_<checksum>, 65 bytes in all.
const (
	prefix = "bdg_"
	// idLength characters of 0-9 and a-z: 51 random bits, unique by the table's primary key.
	idLength = 10
	// secretLength is the length of 256 bits in base 62: 62^43 > 2^256.
	secretLength = 43
	secretBytes  = 32
	// checksumLength is the length of a 32-bit CRC in base 62.
	checksumLength = 6
	idAt           = len(prefix)
	secretAt       = idAt + idLength + 1
	checksumAt     = secretAt + secretLength + 1
	// TokenLength is the length of every token, in bytes.
	TokenLength = checksumAt + checksumLength
)

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// base62 is true for the bytes of base 62.
var base62 = func() (table [256]bool) {
	for _, digit := range []byte(digits) {
		table[digit] = true
	}
	return table
}()

// Hash is the SHA-256 of a token's secret, as stored in the database.
type Hash [sha256.Size]byte

// Equal compares in constant time.
func (h Hash) Equal(other Hash) bool { return subtle.ConstantTimeCompare(h[:], other[:]) == 1 }

// Token is a key as its holder has it. In every format and in JSON it prints only its id; Reveal
// returns the whole.
type Token struct{ text string }

// NewToken returns a token whose id and secret are read from random. It returns an error if random
// does.
func NewToken(random io.Reader) (Token, error) {
	var secret [secretBytes]byte
	if _, err := io.ReadFull(random, secret[:]); err != nil {
		return Token{}, fmt.Errorf("access: randomness for a key: %w", err)
	}
	id, err := newID(random)
	if err != nil {
		return Token{}, fmt.Errorf("access: randomness for a key: %w", err)
	}
	text := new(big.Int).SetBytes(secret[:]).Text(62) // digits, then small, then capital letters
	for len(text) < secretLength {
		text = "0" + text
	}
	body := prefix + id + "_" + text
	return Token{body + "_" + checksum(body)}, nil
}

// newID returns idLength characters, each equally likely.
func newID(random io.Reader) (string, error) {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyz"
	const fair = 256 - 256%len(letters) // bytes from here on would favour the first letters
	id := make([]byte, 0, idLength)
	var one [1]byte
	for len(id) < idLength {
		if _, err := io.ReadFull(random, one[:]); err != nil {
			return "", err
		}
		if int(one[0]) < fair {
			id = append(id, letters[int(one[0])%len(letters)])
		}
	}
	return string(id), nil
}

// checksum returns the CRC-32 of a token's body, in base 62.
func checksum(body string) string {
	sum := checksumOf(body)
	return string(sum[:])
}

func checksumOf(body string) (out [checksumLength]byte) {
	// Inlined because crc32.ChecksumIEEE takes a slice, which would be allocated for every call.
	sum := ^uint32(0)
	for n := range len(body) {
		sum = crc32.IEEETable[byte(sum)^body[n]] ^ sum>>8
	}
	sum = ^sum
	for n := checksumLength - 1; n >= 0; n-- {
		out[n] = digits[sum%uint32(len(digits))]
		sum /= uint32(len(digits))
	}
	return out
}

// ParseToken parses a token. The Reason is Accepted, Malformed for a text of another form, or
// Mistyped if only the checksum is wrong. The key need not exist.
func ParseToken(text string) (Token, Reason) {
	if !shaped(text) {
		return Token{}, Malformed
	}
	for n := idAt; n < len(text); n++ {
		if !base62[text[n]] && n != secretAt-1 && n != checksumAt-1 {
			return Token{}, Malformed
		}
	}
	sum := checksumOf(text[:checksumAt-1])
	if string(sum[:]) != text[checksumAt:] {
		return Token{}, Mistyped
	}
	return Token{text}, Accepted
}

// shaped reports whether a text has the length and the separators of a token.
func shaped(text string) bool {
	return len(text) == TokenLength && text[:idAt] == prefix &&
		text[secretAt-1] == '_' && text[checksumAt-1] == '_'
}

// ID returns the public part that names the key; "" for the zero Token.
func (t Token) ID() string {
	if t.text == "" {
		return ""
	}
	return t.text[idAt : idAt+idLength]
}

// Hash returns the SHA-256 of the secret.
func (t Token) Hash() Hash {
	var secret [secretLength]byte
	if t.text != "" {
		copy(secret[:], t.text[secretAt:])
	}
	return sha256.Sum256(secret[:])
}

// Reveal returns the whole token, to show it to its holder once.
func (t Token) Reveal() string { return t.text }

// String returns the token without its secret.
func (t Token) String() string { return prefix + t.ID() + "_…" }

// GoString returns the token without its secret.
func (t Token) GoString() string { return t.String() }

// Format writes the token without its secret, whatever the verb.
func (t Token) Format(s fmt.State, _ rune) { fmt.Fprint(s, t.String()) }

// MarshalText writes the token without its secret.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// LogValue returns the token without its secret.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }
