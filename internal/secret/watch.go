package secret

import (
	"context"
	"log/slog"
	"time"
)

// Watch looks at sources for changes.
type Watch struct {
	log     *slog.Logger
	watched []*watched
}

type watched struct {
	source  *Source
	known   Text
	failed  bool
	changed func(Text)
}

// NewWatch returns a Watch of nothing.
func NewWatch(log *slog.Logger) *Watch { return &Watch{log: log} }

// Add has changed called with each new secret of a source. It is called before Run.
func (w *Watch) Add(source *Source, changed func(Text)) {
	w.watched = append(w.watched, &watched{source: source, known: source.Now(), changed: changed})
}

// Run looks at an interval until ctx ends.
func (w *Watch) Run(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.runOnce()
		}
	}
}

// runOnce looks at every source once. A file that cannot be read is reported once, until it can.
func (w *Watch) runOnce() {
	for _, one := range w.watched {
		text, err := one.source.Read()
		if err != nil {
			if !one.failed {
				w.log.Error("a secret cannot be read: the earlier one is used", "error", err)
			}
			one.failed = true
			continue
		}
		one.failed = false
		if !text.Equal(one.known) {
			one.known = text
			w.log.Info("a secret has changed", "file", one.source.Name())
			one.changed(text)
		}
	}
}
