package config

import (
	"fmt"
	"strings"
)

// Fault is a key with a wrong value.
type Fault struct {
	// Key is the key as in the file, or the name of an environment variable.
	Key string
	// Value is the wrong value, "" if there is none to show. Secrets are not shown.
	Value string
	// Want says what the value must be.
	Want string
}

func (f Fault) String() string {
	if f.Value == "" {
		return f.Key + ": " + f.Want
	}
	return f.Key + ": " + f.Value + " " + f.Want
}

// Faults are all faults of a configuration.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return "the configuration has faults:\n  " + strings.Join(lines, "\n  ")
}

// maxShown bounds the bytes of a value in a message.
const maxShown = 100

// show formats a value for a message.
func show(value any) string {
	text := fmt.Sprintf("%v", value)
	switch value.(type) {
	case nil:
		return ""
	case string:
		text = fmt.Sprintf("%q", value)
	}
	if len(text) > maxShown {
		text = fmt.Sprintf("%.*q…", maxShown, text)
	}
	return text
}
