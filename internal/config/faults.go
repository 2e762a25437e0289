package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fault is a key with a wrong value.
type Fault struct {
	// Key is the key as in the file, or the name of an environment variable.
	Key string
	// Value is the wrong value, or "". Secrets are not shown.
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

// show formats a value for a message. It shows neither sections, which may have secrets, nor what
// precedes the @ in a text with a password, such as a DSN under a wrong key.
func show(value any) string {
	if value == nil {
		return ""
	}
	if hasSection(value) {
		return "(not shown)"
	}
	text := withoutPassword(fmt.Sprint(value))
	if len(text) > maxShown {
		return fmt.Sprintf("%.*q…", maxShown, text)
	}
	if _, ok := value.(string); ok {
		return strconv.Quote(text)
	}
	return text
}

// hasSection reports whether a value is a section, or a list that has one at any depth.
func hasSection(value any) bool {
	if list, ok := value.([]any); ok {
		return slices.ContainsFunc(list, hasSection)
	}
	_, ok := sectionOf(value)
	return ok
}

// withoutPassword replaces what precedes the @ in a URL or a DSN.
func withoutPassword(text string) string {
	at := strings.LastIndexByte(text, '@')
	if at < 0 || !strings.Contains(text[:at], ":") {
		return text
	}
	return "…" + text[at:]
}
