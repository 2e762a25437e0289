package bucket

import (
	"testing"
	"time"
)

// TestWatch: a lane is declared down only by a node that failed to reach it all the time, several times,
// while nobody changed its row.
func TestWatch(t *testing.T) {
	const down = 5 * time.Second
	row := LaneRow{Lane: Lane{Instance: "a"}, Identity: "x", Activation: 3, ReachedMS: 70}
	noted, moved := row, row
	noted.ReachedMS++
	moved.Activation++
	type look struct {
		row     LaneRow
		reached bool
		misses  int64
		at      time.Duration
	}
	at := func(seconds float64, row LaneRow, misses int64) look {
		return look{row, false, misses, time.Duration(seconds * float64(time.Second))}
	}
	for _, c := range []struct {
		name  string
		looks []look
		due   bool // at the last look; never before
	}{
		{"first look, however old the row", []look{at(3600, row, 9)}, false},
		{"long enough", []look{at(1, row, 1), at(3, row, 2), at(6, row, 1)}, true},
		{"a moment too early", []look{at(1, row, 1), at(3, row, 2), at(5.999, row, 1)}, false},
		{"too few attempts", []look{at(1, row, 5), at(3, row, 1), at(60, row, 1)}, false},
		{"nothing tried just now", []look{at(1, row, 1), at(3, row, 5), at(60, row, 0)}, false},
		{"another node noted it", []look{at(1, row, 1), at(3, row, 3), at(5, noted, 1), at(6, noted, 3)}, false},
		{"counts anew from then", []look{at(1, row, 1), at(5, noted, 9), at(9, noted, 2), at(10, noted, 1)}, true},
		{"another node declared it", []look{at(1, row, 1), at(3, row, 3), at(6, moved, 1)}, false},
		{"this node reached it", []look{at(1, row, 1), at(3, row, 3),
			{row, true, 1, 4 * time.Second}, at(6, row, 3)}, false},
	} {
		var w watch
		for i, l := range c.looks {
			next, due := w.look(l.row, l.reached, l.misses, l.at, down)
			if want := c.due && i == len(c.looks)-1; due != want {
				t.Errorf("%s: look %d: due %v, want %v", c.name, i, due, want)
			}
			w = next
		}
	}
}
