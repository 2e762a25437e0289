package redisstore

import (
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/redisstore/driver"
)

// SlotOf returns the slot of a Cluster's lane.
func SlotOf(lane bucket.Lane) int { return driver.SlotOf(lane) }

// PageOf returns the page of a bucket.
func PageOf(bucketID int64) int { return pageOf(bucketID) }

// Text returns the text of a script.
func Text(name string) string { return source(name) }
