package ledger_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/ledger"
)

func TestArchivable(t *testing.T) {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	entry := func(epoch int64, at time.Time) ledger.FeedEntry { return ledger.FeedEntry{Epoch: epoch, At: at} }
	for name, test := range map[string]struct {
		entries []ledger.FeedEntry
		ended   int64
		before  time.Time
		want    int
	}{
		"none":                     {nil, 1, noon, 0},
		"all":                      {[]ledger.FeedEntry{entry(1, noon), entry(2, noon)}, 2, noon.Add(1), 2},
		"just not old enough":      {[]ledger.FeedEntry{entry(1, noon), entry(1, noon)}, 2, noon, 0},
		"up to a live epoch":       {[]ledger.FeedEntry{entry(1, noon), entry(2, noon), entry(1, noon)}, 1, noon.Add(1), 1},
		"up to a young one":        {[]ledger.FeedEntry{entry(1, noon), entry(1, noon.Add(2)), entry(1, noon)}, 1, noon.Add(1), 1},
		"up to midnight in UTC":    {[]ledger.FeedEntry{entry(1, noon), entry(1, noon.Add(12*time.Hour))}, 1, noon.Add(48 * time.Hour), 1},
		"of one day in other zone": {[]ledger.FeedEntry{entry(1, noon), entry(1, noon.In(time.FixedZone("", 13*3600)))}, 1, noon.Add(1), 2},
	} {
		if got := ledger.Archivable(test.entries, test.ended, test.before); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
	if day := ledger.Day(noon.In(time.FixedZone("", 13*3600))); day != "2026-05-01" {
		t.Error(day)
	}
}
