package redisstore

import "github.com/budgetd/budgetd/bucket"

// SlotOf is the slot of a lane of a Cluster.
func SlotOf(lane bucket.Lane) int { return slotOf(hashTag(lane)) }

// AtlasAge is how long it is believed where a lane is.
const AtlasAge = atlasAge
