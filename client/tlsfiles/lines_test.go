package tlsfiles

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// lines is a log that a test may read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// wait returns once the log contains a text.
func (l *lines) wait(t *testing.T, want string) {
	t.Helper()
	for !strings.Contains(l.String(), want) {
		select {
		case <-t.Context().Done():
			t.Fatalf("%q is not logged", want)
		case <-time.After(time.Millisecond):
		}
	}
}
