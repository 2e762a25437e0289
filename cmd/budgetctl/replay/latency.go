package replay

import (
	"math"
	"time"
)

// latencies counts durations in classes that grow by 1 %, from 1 µs to about 10 minutes. Its size
// does not depend on their number. Other durations fall into the first or last class.
type latencies struct {
	classes [2048]int
	count   int
}

var growth = math.Log(1.01)

func (l *latencies) add(d time.Duration) {
	class := math.Log(max(1, float64(d)/float64(time.Microsecond))) / growth
	l.classes[min(int(class), len(l.classes)-1)]++
	l.count++
}

// quantile returns a duration, up to 1 % too long, that the given share of the counted durations
// does not exceed; 0 if nothing was counted.
func (l *latencies) quantile(share float64) time.Duration {
	left := int(math.Ceil(share * float64(l.count)))
	if left == 0 {
		return 0
	}
	for class, n := range l.classes {
		if left -= n; left <= 0 {
			return time.Duration(math.Exp(float64(class+1)*growth) * float64(time.Microsecond))
		}
	}
	return 0 // not reached: the classes add up to count
}
