package replay

import (
	"math"
	"time"
)

// latencies counts durations in classes that grow by 1 %, so its size does not depend on their
// number: from 1 µs to about 10 minutes; what is outside falls into the first or last class.
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

// quantile returns the duration that a share of the counted ones does not exceed, up to 1 % above;
// 0 when none was counted.
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
