package secret

import (
	"crypto/subtle"
	"fmt"
	"log/slog"
)

// Hidden is shown in place of a secret.
const Hidden = "(secret)"

// Text is a secret. The zero Text is empty. Texts are compared with Equal.
type Text struct {
	// value returns the secret. It is a function because package fmt and debuggers print unexported
	// fields without calling a method, but only the address of a function. A struct with a function
	// does not support ==, so callers cannot compare secrets in a time that depends on them.
	value func() string
}

// New returns a secret that holds a text.
func New(value string) Text {
	if value == "" {
		return Text{}
	}
	return Text{func() string { return value }}
}

// Reveal returns the secret, for the one call that needs it.
func (t Text) Reveal() string {
	if t.value == nil {
		return ""
	}
	return t.value()
}

// Empty reports whether the secret is empty.
func (t Text) Empty() bool { return t.value == nil }

// Equal reports whether both secrets are the same, in a time that depends only on their lengths.
// Package cmp calls it too, such as in tests that compare configurations.
func (t Text) Equal(other Text) bool {
	return subtle.ConstantTimeCompare([]byte(t.Reveal()), []byte(other.Reveal())) == 1
}

// shown returns "" for an empty secret and Hidden for any other.
func (t Text) shown() string {
	if t.Empty() {
		return ""
	}
	return Hidden
}

// String returns "(secret)", or "" when it is empty.
func (t Text) String() string { return t.shown() }

// GoString returns what String does.
func (t Text) GoString() string { return t.shown() }

// Format writes what String returns, whatever the verb.
func (t Text) Format(s fmt.State, _ rune) { fmt.Fprint(s, t.shown()) }

// MarshalText writes what String returns. It serves XML and keys of maps.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.shown()), nil }

// MarshalJSON writes what String returns, as a JSON string.
func (t Text) MarshalJSON() ([]byte, error) { return []byte(`"` + t.shown() + `"`), nil }

// MarshalYAML writes what String returns.
func (t Text) MarshalYAML() (any, error) { return t.shown(), nil }

// LogValue returns what String does.
func (t Text) LogValue() slog.Value { return slog.StringValue(t.shown()) }
