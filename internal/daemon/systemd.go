package daemon

import (
	"context"
	"log/slog"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
)

// tellSystemd reports a state to systemd where it started budgetd with Type=notify, and does nothing
// elsewhere.
func tellSystemd(log *slog.Logger, state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		log.Warn("systemd was not told", "state", state, "error", err)
	}
}

// feedWatchdog tells systemd three times in each WatchdogSec that the process runs, until ctx ends.
// systemd restarts a process that is stuck; one whose database is down is not, and goes on.
func feedWatchdog(ctx context.Context, log *slog.Logger) {
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
