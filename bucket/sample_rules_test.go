package bucket

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/series"
)

// TestStranded: what is fenced or out of reach is stranded whatever its state, what is open and small is a
// fragment, and what opens or closes is on its way.
func TestStranded(t *testing.T) {
	up, down := Lane{Instance: "up"}, Lane{Instance: "down"}
	f := ledger.Figures{Total: 9000, PeriodUnits: 1000, Online: 3, Offline: 2} // a fragment holds less than 20
	for _, tc := range []struct {
		name string
		h    Holding
		want int64
	}{
		{"a bucket in use", Holding{Lane: up, Outstanding: 20, Open: true}, 0},
		{"a fragment", Holding{Lane: up, Outstanding: 19, Open: true}, 19},
		{"on its way", Holding{Lane: up, Outstanding: 19}, 0},
		{"fenced", Holding{Lane: up, Outstanding: 500, Open: true, Fenced: true}, 500},
		{"fenced while closing", Holding{Lane: up, Outstanding: 500, Fenced: true}, 500},
		{"out of reach", Holding{Lane: down, Outstanding: 500, Open: true}, 500},
		{"out of reach while closing", Holding{Lane: down, Outstanding: 500}, 500},
	} {
		other := Holding{Lane: up, Outstanding: 7, Open: true}
		if got := stranded(f, []Holding{tc.h, other}, []Lane{down}); got != tc.want+7 {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want+7)
		}
	}
	f.Undistributed, f.Quarantined, f.Forfeited, f.Remaining, f.Unsettled = 1, 2, 3, 4, 5
	f.Held, f.Used, f.Returning, f.PendingShrink = 6, 7, 8, 9
	f.Unfunded = 50
	want := series.Figures{Total: 9000, Undistributed: 51, Quarantined: 2, Forfeited: 3, Remaining: 4, InTransit: 13,
		Held: 6, Used: 7}
	if got := sampled(f, nil, nil); got != want {
		t.Errorf("sampled %+v, want %+v", got, want)
	}
}

// TestSampling: samples are due with the first look that begins in a minute, but not in the one in which
// the node began; a look that was broken off leaves them due.
func TestSampling(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 30, 0, time.UTC)
	var k sampling
	for _, tc := range []struct {
		after  time.Duration
		due    bool
		minute int
		taken  bool // this look takes them
	}{
		{0, false, 0, false}, {29 * time.Second, false, 0, false}, {30 * time.Second, true, 1, true},
		{60 * time.Second, false, 1, false}, {90 * time.Second, true, 2, false}, {91 * time.Second, true, 2, false},
		{10 * time.Minute, true, 10, true}, {5 * time.Minute, false, 10, false},
	} {
		k.begin(start.Add(tc.after), time.Minute)
		if k.due != tc.due || k.minute.Minute() != tc.minute {
			t.Errorf("after %v: due %v, minute %v; want %v, %d", tc.after, k.due, k.minute, tc.due, tc.minute)
		}
		if tc.taken {
			k.due = false
		}
	}
}
