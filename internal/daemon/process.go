package daemon

import (
	"context"
	"log/slog"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
)

// What a node keeps is mostly small beside what it allocates for requests, so Go's default, by
// which the heap may double between two collections, collects many times a second and took a
// quarter of the CPU at full rate. The heap may grow by mostGCPercent while little is live, and
// by less the more is: by sparedBytes, or by as much as is live.
const (
	mostGCPercent, leastGCPercent = 400, 100
	sparedBytes                   = 192 << 20
	lookAtHeap                    = 5 * time.Second
)

// gcPercentFor is by how much a heap with so many live bytes may grow, in percent.
func gcPercentFor(live uint64) int {
	return int(
		max(min(sparedBytes*100/max(live, 1), mostGCPercent), leastGCPercent),
	) //nolint:gosec // 100 to 400
}

// spareCollector sets that for the process until ctx ends, unless the environment has a word on
// memory of its own.
func spareCollector(ctx context.Context, environ []string) {
	own := func(variable string) bool {
		name, value, _ := strings.Cut(variable, "=")
		return (name == "GOGC" || name == "GOMEMLIMIT") && value != ""
	}
	if slices.ContainsFunc(environ, own) {
		return
	}
	debug.SetGCPercent(mostGCPercent)
	go func() {
		ticker := time.NewTicker(lookAtHeap)
		defer ticker.Stop()
		for last := mostGCPercent; ; {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
			metrics.Read(live)
			if percent := gcPercentFor(live[0].Value.Uint64()); percent != last {
				debug.SetGCPercent(percent) // it stops the world for a moment
				last = percent
			}
		}
	}()
}

// tellSystemd reports a state to systemd where it started budgetd with Type=notify, and does
// nothing elsewhere.
func tellSystemd(log *slog.Logger, state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		log.Warn("systemd was not told", "state", state, "error", err)
	}
}

// feedWatchdog tells systemd that budgetd is ready, and then three times in each WatchdogSec that
// the process runs, until ctx ends.
// systemd restarts a process that is stuck; one whose database is down is not, and goes on.
func feedWatchdog(ctx context.Context, log *slog.Logger) {
	tellSystemd(log, systemd.SdNotifyReady)
	every, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the watchdog of systemd has no valid interval", "error", err)
	}
	if every <= 0 {
		return
	}
	ticks := time.NewTicker(every / 3)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			tellSystemd(log, systemd.SdNotifyWatchdog)
		}
	}
}
