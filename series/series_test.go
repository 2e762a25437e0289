package series_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/series"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func minutes(n float64) time.Time { return noon.Add(time.Duration(n * float64(time.Minute))) }

func spent(minute float64, used, available int64) series.Point {
	return series.Point{At: minutes(minute), Figures: series.Figures{Total: used + available, Used: used,
		InBuckets: available}}
}

func TestFigures(t *testing.T) {
	f := series.Figures{Total: 1000, Undistributed: 40, Quarantined: 7, Forfeited: 50, InBuckets: 300, InTransit: 43,
		Held: 200, Used: 300}
	f.NotFunded = 60
	if f.Released() != 850 || f.Available() != 443 || f.Spent() != 500 ||
		f.Total != f.Available()+f.Spent()+f.Quarantined+f.Forfeited {
		t.Errorf("released %d, available %d, spent %d", f.Released(), f.Available(), f.Spent())
	}
}

func TestChoose(t *testing.T) {
	for _, tc := range []struct {
		name        string
		asked, want series.Span
		fault       string
	}{
		{"an empty query: the last hour", series.Span{}, series.Span{From: minutes(-60), To: noon, Step: time.Minute}, ""},
		{"a day in minutes is one point too many", series.Span{From: minutes(-1440), Step: time.Minute}, series.Span{}, "step"},
		{"one point less", series.Span{From: minutes(-1439), Step: time.Minute},
			series.Span{From: minutes(-1439), To: noon, Step: time.Minute}, ""},
		{"a day", series.Span{From: minutes(-1440)}, series.Span{From: minutes(-1440), To: noon, Step: 2 * time.Minute}, ""},
		{"eight days", series.Span{From: minutes(-8 * 1440)}, series.Span{From: minutes(-8 * 1440), To: noon, Step: 9 * time.Minute}, ""},
		{"an hour some time ago", series.Span{To: minutes(-600)}, series.Span{From: minutes(-660), To: minutes(-600), Step: time.Minute}, ""},
		{"less than a step", series.Span{From: minutes(-0.5)}, series.Span{From: minutes(-0.5), To: noon, Step: time.Minute}, ""},
		{"backwards", series.Span{From: minutes(1), To: noon}, series.Span{}, "from"},
		{"empty", series.Span{From: noon, To: noon}, series.Span{}, "from"},
		{"not a whole minute", series.Span{Step: 90 * time.Second}, series.Span{}, "step"},
		{"less than a minute", series.Span{Step: time.Second}, series.Span{}, "step"},
		{"negative", series.Span{Step: -time.Minute}, series.Span{}, "step"},
	} {
		got, faults := series.Choose(tc.asked, noon)
		fault := ""
		if len(faults) > 0 {
			fault = faults[0].Field
		}
		if fault != tc.fault || fault == "" && got != tc.want {
			t.Errorf("%s: %v, faults %v; want %v, %q", tc.name, got, faults, tc.want, tc.fault)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		length := time.Duration(rapid.Int64Range(1, int64(100*366*24*time.Hour)).Draw(t, "length"))
		s, faults := series.Choose(series.Span{From: noon.Add(-length)}, noon)
		if len(faults) > 0 || s.Points() > series.MaxPoints || s.Points() < 1 {
			t.Fatalf("%v: %d points, %v", s, s.Points(), faults)
		}
		if s.Step > time.Minute && (series.Span{From: s.From, To: s.To, Step: s.Step - time.Minute}).Points() < series.MaxPoints-1 {
			t.Fatalf("%v: a step one minute shorter gives no more than %d points", s, series.MaxPoints)
		}
	})
}

func TestThin(t *testing.T) {
	samples := []series.Point{spent(-90, 1, 9), spent(-10, 2, 8), spent(-9, 3, 7), spent(-3, 4, 6)}
	for _, tc := range []struct {
		name string
		span series.Span
		want []series.Point
	}{
		{"the one before the span counts", series.Span{From: minutes(-12), To: minutes(-8), Step: time.Minute},
			[]series.Point{spent(-12, 1, 9), spent(-11, 1, 9), spent(-10, 2, 8), spent(-9, 3, 7), spent(-8, 3, 7)}},
		{"coarser", series.Span{From: minutes(-12), To: minutes(0), Step: 5 * time.Minute},
			[]series.Point{spent(-12, 1, 9), spent(-7, 3, 7), spent(-2, 4, 6)}},
		{"nothing before the first sample", series.Span{From: minutes(-92), To: minutes(-89), Step: time.Minute},
			[]series.Point{spent(-90, 1, 9), spent(-89, 1, 9)}},
		{"nothing after now", series.Span{From: minutes(-1), To: minutes(60), Step: time.Minute},
			[]series.Point{spent(-1, 4, 6), spent(0, 4, 6)}},
		{"a part of a step", series.Span{From: minutes(-4.5), To: minutes(-2.6), Step: time.Minute},
			[]series.Point{spent(-4.5, 3, 7), spent(-3.5, 3, 7)}},
	} {
		if got := series.Thin(samples, tc.span, noon); !slices.Equal(got, tc.want) {
			t.Errorf("%s:\n%v\nwant\n%v", tc.name, got, tc.want)
		}
	}
	if got := series.Thin(nil, series.Span{From: minutes(-9), To: noon, Step: time.Minute}, noon); len(got) != 0 {
		t.Errorf("without samples: %v", got)
	}
}

func TestProject(t *testing.T) {
	never := time.Time{}
	for _, tc := range []struct {
		name    string
		samples []series.Point
		now     series.Point
		end     time.Time
		want    series.Projection
	}{
		{"the doc's example", []series.Point{spent(-10, 0, 960)}, spent(0, 60, 900), never,
			series.Projection{Rate: 0.1, Outlook: series.Projected, ExhaustedAt: minutes(150)}},
		{"a sample before the window counts from its beginning", []series.Point{spent(-100, 0, 960)}, spent(0, 900, 60), never,
			series.Projection{Rate: 1, Outlook: series.Projected, ExhaustedAt: minutes(1)}},
		{"the latest before the window", []series.Point{spent(-100, 0, 960), spent(-16, 800, 100), spent(-14, 850, 100)},
			spent(0, 890, 60), never, series.Projection{Rate: 0.1, Outlook: series.Projected, ExhaustedAt: minutes(10)}},
		{"not before the end", []series.Point{spent(-10, 0, 960)}, spent(0, 60, 900), minutes(150),
			series.Projection{Rate: 0.1, Outlook: series.NotBeforeEnd}},
		{"just before the end", []series.Point{spent(-10, 0, 960)}, spent(0, 60, 900), minutes(150.01),
			series.Projection{Rate: 0.1, Outlook: series.Projected, ExhaustedAt: minutes(150)}},
		{"after the end", []series.Point{spent(-10, 0, 960)}, spent(0, 60, 900), minutes(-1),
			series.Projection{Rate: 0.1, Outlook: series.NotBeforeEnd}},
		{"exhausted", []series.Point{spent(-10, 0, 960)}, spent(0, 960, 0), never,
			series.Projection{Rate: 1.6, Outlook: series.Exhausted}},
		{"exhausted without a sample", nil, spent(0, 960, 0), never, series.Projection{Outlook: series.Exhausted}},
		{"not used", []series.Point{spent(-10, 60, 900)}, spent(0, 60, 900), never, series.Projection{Outlook: series.NotUsed}},
		{"given back", []series.Point{spent(-10, 90, 870)}, spent(0, 60, 900), never, series.Projection{Outlook: series.NotUsed}},
		{"no sample yet", nil, spent(0, 60, 900), never, series.Projection{Outlook: series.NotKnown}},
		{"a sample of this instant", []series.Point{spent(0, 50, 910)}, spent(0, 60, 900), never,
			series.Projection{Outlook: series.NotKnown}},
		{"less than a minute", []series.Point{spent(-0.99, 50, 910)}, spent(0, 60, 900), never,
			series.Projection{Outlook: series.NotKnown}},
		{"a minute", []series.Point{spent(-1, 54, 906)}, spent(0, 60, 900), never,
			series.Projection{Rate: 0.1, Outlook: series.Projected, ExhaustedAt: minutes(150)}},
		{"not for years", []series.Point{spent(-10, 0, 1<<50)}, spent(0, 6, 1<<50), never,
			series.Projection{Rate: 0.01, Outlook: series.NotForYears}},
	} {
		got := series.Project(tc.samples, tc.now, tc.end)
		if math.Abs(got.Rate-tc.want.Rate) > 1e-9 || got.Outlook != tc.want.Outlook ||
			got.ExhaustedAt.Round(time.Millisecond) != tc.want.ExhaustedAt {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
	held := spent(0, 0, 900)
	held.Held = 60
	if got := series.Project([]series.Point{spent(-10, 0, 960)}, held, never); math.Abs(got.Rate-0.1) > 1e-9 {
		t.Errorf("held units are spent: %+v", got)
	}
}
