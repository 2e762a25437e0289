package daemon_test

import (
	"runtime/debug"
	"testing"
)

func TestCollectorIsSpared(t *testing.T) {
	const before = 77
	defer debug.SetGCPercent(debug.SetGCPercent(before))
	for _, c := range []struct {
		name    string
		environ []string
		want    int
	}{
		{"GOGC is set", []string{"GOGC=50"}, before},
		{"GOMEMLIMIT is set", []string{"GOMEMLIMIT=64MiB"}, before},
		{"GOGC is empty", []string{"GOGC="}, 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			start(t, nil, c.environ...)
			if got := debug.SetGCPercent(before); got != c.want {
				t.Errorf("%d %%, want %d", got, c.want)
			}
		})
	}
}
