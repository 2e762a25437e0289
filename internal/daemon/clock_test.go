package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestClockOfDatabase checks that a clock that goes back is described until it is again where it
// was, and logged once; an estimate that is off by less than a second is not.
func TestClockOfDatabase(t *testing.T) {
	now, log := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), &bytes.Buffer{}
	h := &health{now: func() time.Time { return now }, log: slog.New(slog.NewTextHandler(log, nil))}
	for i, step := range []struct {
		by   time.Duration
		back bool
	}{
		{0, false}, {time.Second, false}, {-900 * time.Millisecond, false}, {time.Second, false},
		{-time.Hour, true}, {time.Minute, true}, {58 * time.Minute, true}, {time.Minute, false},
	} {
		now = now.Add(step.by)
		said := h.clock()
		if back := len(said) == 1 && strings.Contains(said[0], "2026-03-01T12:00:01Z"); back != step.back {
			t.Errorf("step %d: %q", i, said)
		}
	}
	if text := log.String(); strings.Count(text, "clock went back") != 1 ||
		strings.Count(text, "by=1h0m0s") != 1 || strings.Count(text, "is where it was") != 1 {
		t.Error(text)
	}
}
