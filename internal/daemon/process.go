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

// A node's live heap is mostly small compared with its allocations for requests. With Go's default,
// by which the heap may double between collections, the collector runs many times a second and
// takes a quarter of the CPU at full rate. So the heap may grow by mostGCPercent while little is
// live. The more is live the less it may grow: by sparedBytes or by the live size, whichever is
// more.
const (
	mostGCPercent, leastGCPercent = 400, 100
	sparedBytes                   = 192 << 20
	lookAtHeap                    = 5 * time.Second
)

// gcPercentFor returns by what percentage a heap with so many live bytes may grow.
func gcPercentFor(live uint64) int {
	return int(
		max(min(sparedBytes*100/max(live, 1), mostGCPercent), leastGCPercent),
	) //nolint:gosec // 100 to 400
}

// spareCollector sets the collector's target until ctx ends, unless the environment sets GOGC or
// GOMEMLIMIT.
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
				debug.SetGCPercent(percent) // stops the world for a moment
				last = percent
			}
		}
	}()
}

// tellSystemd reports a state to systemd if systemd started budgetd with Type=notify.
func tellSystemd(log *slog.Logger, state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		log.Warn("systemd was not notified", "state", state, "error", err)
	}
}

// feedWatchdog tells systemd that budgetd is ready. Until ctx ends it then reports three times per
// WatchdogSec that the process runs. So systemd restarts a process that hangs, but not one whose
// database is down.
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
