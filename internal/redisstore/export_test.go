package redisstore

import (
	"strings"
	"testing"

	"github.com/budgetd/budgetd/bucket"
)

// SlotOf is the slot of a lane of a Cluster.
func SlotOf(lane bucket.Lane) int { return slotOf(hashTag(lane)) }

// AtlasAge is how long it is believed where a lane is.
const AtlasAge = atlasAge

// SmallPages makes pages of counters take 3 values for the rest of a test, in lanes that are activated in it, so that
// some hundred values make several levels of them.
func SmallPages(t *testing.T) {
	t.Helper()
	const usual = "local PAGE_VALUES, LIFETIME_VALUES = 16384, 131072"
	if strings.Count(limitsLua, usual) != 1 {
		t.Fatalf("limits.lua lacks %q", usual)
	}
	whole := limitsLua
	limitsLua = strings.Replace(limitsLua, usual, "local PAGE_VALUES, LIFETIME_VALUES = 3, 3", 1)
	t.Cleanup(func() { limitsLua = whole })
}
