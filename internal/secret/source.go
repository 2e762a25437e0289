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

// Source is where a secret comes from. It is safe for concurrent use. The zero Source is the empty
// secret.
type Source struct {
	file string

	mu   sync.Mutex
	last Text
}

// Value returns a source that is always the same secret.
func Value(text Text) *Source { return &Source{last: text} }

// File returns a source that reads a file. It fails when the file cannot be read or is empty now.
func File(name string) (*Source, error) {
	s := &Source{file: name}
	if _, err := s.read(); err != nil {
		return nil, err
	}
	return s, nil
}

// Name returns the file, "" for a value.
func (s *Source) Name() string { return s.file }

// Read returns the secret as it is now, without white space at its end. The file is read each time.
// When that fails, it returns the last secret that could be read, together with the error: the
// caller may go on with it, because a file can be missing while it is exchanged.
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

// Now is Read for those who can do nothing about an error: the other side judges what they send.
func (s *Source) Now() Text {
	text, _ := s.Read() //nolint:errcheck // Watch reports it
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
