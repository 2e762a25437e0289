package api

import (
	"time"
)

// Instance is a store for buckets.
type Instance struct {
	Name   string `json:"name"`
	Driver string `json:"driver,omitzero"`
	// Health is "up", or "down" if the last attempt to reach a partition failed.
	Health string `json:"health"`
	// Draining means that its buckets move to other instances.
	Draining   bool        `json:"draining"`
	Partitions []Partition `json:"partitions"`
}

// Partition is the part of an instance in which one script can touch every key.
type Partition struct {
	// Partition is the number of the partition within the instance, from 0.
	Partition int `json:"partition"`
	// Incarnation is the number of the partition's memory that the database has verified.
	Incarnation int64 `json:"incarnation"`
	// Reachable reports whether the last attempt reached the partition; Problem says why not.
	Reachable bool `json:"reachable"`
	// Buckets is the number of its buckets; nil if the database could not be read.
	Buckets *int   `json:"buckets,omitzero"`
	Problem string `json:"problem,omitzero"`
	// Role is that of the server whose memory was verified last; "" in ledger mode, where no memory
	// is verified.
	Role string `json:"role,omitzero"`
	// AtRisk is what a loss of its memory would quarantine or return, in minor units, as of some
	// seconds ago; nil if the database could not be read.
	AtRisk *int64 `json:"at_risk,omitzero"`
	// BeganAt is when the partition got its present memory, Cause says why; empty in ledger mode.
	BeganAt time.Time `json:"began_at,omitzero"`
	Cause   string    `json:"cause,omitzero"`
}

// Drain is the progress of draining an instance.
type Drain struct {
	Instance string `json:"instance"`
	Draining bool   `json:"draining"`
	// BucketsLeft are still on the instance, Moved have left it. KeysLeft counts the buckets of
	// which its store still has keys.
	BucketsLeft int `json:"buckets_left"`
	Moved       int `json:"moved"`
	KeysLeft    int `json:"keys_left"`
	// Done means that no bucket is left, and none of their keys that could be removed.
	Done bool `json:"done"`
	// Problem says what prevents the drain from continuing.
	Problem string `json:"problem,omitzero"`
	// Quarantined and Returned are what its buckets held when it was given up, in minor units.
	Quarantined int64 `json:"quarantined,omitzero"`
	Returned    int64 `json:"returned,omitzero"`
}

// InstanceList lists every configured instance.
type InstanceList struct {
	Instances []Instance `json:"instances"`
}

// RebalanceRequest gives instances their share of the buckets. A dry run moves nothing.
type RebalanceRequest struct {
	DryRun bool `json:"dry_run,omitzero"`
}

// Rebalance is what a rebalance moved or, on a dry run, would move.
type Rebalance struct {
	DryRun bool `json:"dry_run"`
	// Budgets is the number of budgets examined. Misplaced buckets were not where they belong;
	// Moved of them have moved.
	Budgets   int `json:"budgets"`
	Misplaced int `json:"misplaced"`
	Moved     int `json:"moved"`
	// Moves lists the first moves.
	Moves []BucketMove `json:"moves"`
	// Problem says what prevents buckets from moving.
	Problem string `json:"problem,omitzero"`
}

// BucketMove is a bucket that moves between partitions, such as redis-1/0.
type BucketMove struct {
	Bucket string `json:"bucket"`
	From   string `json:"from"`
	To     string `json:"to"`
}

// Node is a budgetd that uses the service's database.
type Node struct {
	// Name is its node.name, Address the address where it listens.
	Name    string `json:"name"`
	Address string `json:"address"`
	// State is up, or down if it has not reported for 15 seconds: it is dead, or it was stopped.
	State   string `json:"state"`
	Version string `json:"version"`
	// ZoneRelease is the release of its time zones, such as "2025c". It should be that of all nodes.
	ZoneRelease string `json:"zone_release"`
	// SeenAt is when it last reported that it runs, which it does every few seconds.
	StartedAt time.Time `json:"started_at"`
	SeenAt    time.Time `json:"seen_at"`
}

// NodeList lists the nodes seen within 30 days.
type NodeList struct {
	Nodes []Node `json:"nodes"`
}
