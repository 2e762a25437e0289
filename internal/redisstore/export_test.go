package redisstore

import (
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/redisstore/driver"
)

// ClusterSlotOf returns the slot of a Cluster's partition.
func ClusterSlotOf(partition bucket.Partition) int { return driver.ClusterSlotOf(partition) }

// PageOf returns the page of a bucket.
func PageOf(bucketID int64) int { return pageOf(bucketID) }

// Text returns the text of a script.
func Text(name string) string { return source(name) }
