package bucket

import (
	"fmt"
	"testing"
)

// TestVoidsAdded: ids are remembered as they are listed, page by page; with more than a node remembers
// any id may be void, and none is kept. A copy does not change with what it was made of.
func TestVoidsAdded(t *testing.T) {
	first := (&voids{}).copy()
	first.add([]string{"a", "A"})
	second := first.copy()
	second.add([]string{"b"})
	second.covers[1] = 2
	if fmt.Sprint(first.ids, first.last, first.covers) != "map[A:{} a:{}] 2 map[]" ||
		fmt.Sprint(second.ids, second.last, second.covers) != "map[A:{} a:{} b:{}] 3 map[1:2]" {
		t.Errorf("%+v, then %+v", first, second)
	}
	many := make([]string, mostVoids-3)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	second.add(many)
	if second.tooMany || len(second.ids) != mostVoids || second.last != mostVoids {
		t.Errorf("of %d ids it has %d, too many: %v", mostVoids, len(second.ids), second.tooMany)
	}
	for n := range 2 {
		second.add([]string{fmt.Sprint("more", n)})
		if !second.tooMany || len(second.ids) != 0 || second.last != int64(mostVoids+n+1) {
			t.Errorf("after %d more: %d ids, the last is %d, too many: %v", n+1, len(second.ids), second.last,
				second.tooMany)
		}
	}
}
