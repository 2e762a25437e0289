package secret

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// maxBytes bounds a secret.
const maxBytes = 64 << 10

// Source is the origin of a secret. It is safe for concurrent use. The zero Source is the empty
// secret.
type Source struct {
	file string

	mu   sync.Mutex
	last Text
}

// Value returns a source with a constant secret.
func Value(text Text) *Source { return &Source{last: text} }

// File returns a source that reads a file. It returns an error if the file cannot be read or is
// empty.
func File(name string) (*Source, error) {
	s := &Source{file: name}
	if _, err := s.read(); err != nil {
		return nil, err
	}
	return s, nil
}

// Name returns the file, or "" for a value.
func (s *Source) Name() string { return s.file }

// Read reads the file and returns the secret without trailing white space. If that fails, it
// returns the last secret together with the error. The caller may use that secret, because a file
// can be missing while it is replaced.
func (s *Source) Read() (Text, error) {
	if s.file == "" {
		return s.last, nil
	}
	text, err := s.read()
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.last, err
	}
	return text, nil
}

// Now returns what Read does, without the error. It is for callers that present the secret to a
// server, which rejects a wrong one.
func (s *Source) Now() Text {
	text, _ := s.Read() //nolint:errcheck // the last secret is used
	return text
}

func (s *Source) read() (Text, error) {
	file, err := os.Open(s.file)
	if err != nil {
		return Text{}, fmt.Errorf("secret: %w", err)
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err == nil && len(raw) > maxBytes {
		err = fmt.Errorf("it is longer than %d bytes", maxBytes)
	}
	raw = bytes.TrimRight(raw, " \t\r\n")
	if err == nil && len(raw) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return Text{}, fmt.Errorf("secret in %s: %w", s.file, err)
	}
	text := New(string(raw))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = text
	return text, nil
}
