package e2e

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// TestRealRequests replays 6,000 requests of a web server, with their times, and compares each
// outcome with that of a search in the list of all accepted requests.
func TestRealRequests(t *testing.T) {
	text, err := os.ReadFile("../../../examples/web-requests.tsv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
	eachDatabase(t, func(w *limitWorld) {
		if !strings.HasSuffix(w.Name(), "memory") {
			w.realRequests("site", lines[:500], 5) // the whole log would take too long
			return
		}
		verdicts := w.realRequests("site", lines, 5)
		// The log has only one minute of each hour, so the limit per hour is reached only without the
		// limit per minute.
		for name, n := range w.realRequests("busy", lines[:1500], 1000) {
			verdicts[name] += n
		}
		for _, name := range []string{"accepted", "hour", "minute", "page"} {
			if verdicts[name] == 0 {
				w.Errorf("nothing was %s: %v", name, verdicts)
			}
		}
	})
}

// hit is an accepted request.
type hit struct {
	at           int64 // seconds since 1970
	client, page string
}

func (w *limitWorld) realRequests(name string, lines []string, perMinute int) map[string]int {
	w.create(name, 0, each(budget.Hour, "hour", "client", 20),
		client.Limit{Name: "minute", Dimension: "client", Max: int64(perMinute), Measure: budget.MeasureCount,
			Window: client.Window{Kind: budget.WindowSliding, Length: "1m", Slot: "1s"}},
		firstHit("page", "client+path", "30s", 1))
	var accepted []hit
	verdicts, offset := map[string]int{}, int64(0)
	for i, line := range lines {
		parts := strings.Split(line, "\t")
		at, err := strconv.ParseInt(parts[0], 10, 64)
		if err != nil || len(parts) != 4 {
			w.Fatal(line, err)
		}
		if offset == 0 { // the first line is in the future, by whole hours
			now := w.clock.Now()
			offset = (now.Unix()-at)/3600*3600 + 3600
		}
		at += offset
		w.clock.Advance(time.Unix(at, 0).Sub(w.clock.Now()))
		h := hit{at, parts[1], parts[2]}
		if len(h.page) > 256 {
			h.page = h.page[:256]
		}
		want := judge(accepted, h, perMinute)
		answer, err := w.c.Deduct(w.ctx, name, client.DeductRequest{RequestID: strconv.Itoa(i), Amount: 1,
			Dimensions: map[string]string{"client": h.client, "path": h.page}})
		got := w.outcome(err)
		if got != want {
			w.Fatalf("line %d, %s: %s (%+v, %v), want %s", i+2, line, got, answer, err, want)
		}
		if verdicts[got]++; got == "accepted" {
			accepted = append(accepted, h)
		}
	}
	w.Logf("%d lines: %v", len(lines), verdicts)
	w.audit(name)
	return verdicts
}

// judge returns the outcome of a request after those that were accepted. It goes through all of
// them to find the counts and the present first_hit window.
func judge(accepted []hit, h hit, perMinute int) string {
	hour, minute, began := 0, 0, int64(-1)
	for _, a := range accepted {
		if a.client != h.client {
			continue
		}
		if a.at/3600 == h.at/3600 {
			hour++
		}
		if a.at >= h.at-60 { // a slot counts while a part of it is within the last minute
			minute++
		}
		if a.page == h.page && (began < 0 || a.at >= began+30) {
			began = a.at
		}
	}
	switch {
	case hour >= 20:
		return "hour"
	case minute >= perMinute:
		return "minute"
	case began >= 0 && h.at < began+30:
		return "page"
	}
	return "accepted"
}
