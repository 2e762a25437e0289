package daemon

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/budgetd/budgetd/internal/config"
	"github.com/budgetd/budgetd/internal/httpapi"
)

// logger returns a logger that writes to w as configured. It adds the ids of a record's request,
// the name of this node, and the names of budgets beside their ids, and writes lengths of time as
// text.
func logger(c config.Log, node string, w io.Writer) (*slog.Logger, *annotator) {
	options := &slog.HandlerOptions{Level: c.Level, ReplaceAttr: plainLengths}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if c.JSON {
		handler = slog.NewJSONHandler(w, options)
	}
	a := &annotator{Handler: handler, node: node, nameOf: new(atomic.Pointer[nameOf])}
	return slog.New(httpapi.LogHandler(a)), a
}

// plainLengths writes 5s, which the JSON handler would write as 5000000000.
func plainLengths(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// nameOf returns the name of a budget in the node's cache, or "".
type nameOf func(id int64) string

// annotator adds to every record what its reader would look up.
type annotator struct {
	slog.Handler
	node   string
	nameOf *atomic.Pointer[nameOf] // nil until the service exists
}

// Handle implements slog.Handler.
func (a *annotator) Handle(ctx context.Context, record slog.Record) error {
	record = record.Clone()
	named := a.nameOf.Load()
	added := []slog.Attr{slog.String("node", a.node)}
	record.Attrs(func(attr slog.Attr) bool {
		if named != nil && attr.Key == "budget" && attr.Value.Kind() == slog.KindInt64 {
			if name := (*named)(attr.Value.Int64()); name != "" {
				added = append(added, slog.String("budget_name", name))
			}
		}
		return true
	})
	record.AddAttrs(added...)
	return a.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (a *annotator) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &annotator{a.Handler.WithAttrs(attrs), a.node, a.nameOf}
}

// WithGroup implements slog.Handler.
func (a *annotator) WithGroup(name string) slog.Handler {
	return &annotator{a.Handler.WithGroup(name), a.node, a.nameOf}
}
