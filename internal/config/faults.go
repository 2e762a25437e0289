package config

import (
	"fmt"
	"strings"
)

// Fault is one key that is wrong.
type Fault struct {
	// Key is the key as in the file, or the name of an environment variable.
	Key string
	// Value is what it is, "" for none; secrets are not shown.
	Value string
	// Want says what it must be.
	Want string
}

func (f Fault) String() string {
	if f.Value == "" {
		return f.Key + ": " + f.Want
	}
	return f.Key + ": " + f.Value + " " + f.Want
}

// Faults is everything that is wrong with a configuration.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return "the configuration has faults:\n  " + strings.Join(lines, "\n  ")
}

// maxShown bounds how much of a value is shown, bytes.
const maxShown = 100

// show writes a value as a fault shows it.
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
