package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/iana"
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

// TestRefusedChanges checks that a database that refuses changes, such as one on a full disk, makes
// the node not ready, and is logged once, with its error, until it accepts them again.
func TestRefusedChanges(t *testing.T) {
	var full error
	log := &bytes.Buffer{}
	h := &health{ping: func(context.Context) error { return nil }, asked: func() bool { return true },
		refusing: func() error { return full }, log: slog.New(slog.NewTextHandler(log, nil))}
	for i, why := range []error{nil, errors.New("no space left"), errors.New("no space left"), nil, nil} {
		full = why
		h.changes()
		said := h.Ready(t.Context())
		if ready := len(said) == 0; ready != (why == nil) || !ready && !strings.Contains(said[0], "refuses changes") {
			t.Errorf("step %d: %q", i, said)
		}
	}
	if text := log.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, "no space left") ||
		strings.Count(text, "accepts changes again") != 1 {
		t.Error(text)
	}
}

// TestOtherZones checks that nodes that run with time zones of other releases are named.
func TestOtherZones(t *testing.T) {
	own := iana.Release()
	for _, tt := range []struct {
		name  string
		nodes []bucket.Node
		want  []string
	}{
		{"alone", []bucket.Node{{Name: "a", ZoneRelease: own, Up: true}}, nil},
		{"another", []bucket.Node{{Name: "a", ZoneRelease: own, Up: true}, {Name: "b", ZoneRelease: "2019a", Up: true}},
			[]string{"node b has the time zones of release 2019a, this node those of " + own +
				": until both are of one version, they may count a limit in different windows"}},
		{"a former one", []bucket.Node{{Name: "b", ZoneRelease: "2019a"}}, nil},
	} {
		if got := otherZones(tt.nodes); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
