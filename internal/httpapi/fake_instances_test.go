package httpapi_test

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
)

func (f *fake) GiveUp(_ context.Context, name string) (bucket.DrainView, error) {
	v := aDrain
	v.GivenUp = bucket.GivenUp{Quarantined: 30, Returned: 2}
	return v, f.note("give up %s", name)
}

func (f *fake) Partitions(context.Context) ([]bucket.PartitionView, error) {
	return []bucket.PartitionView{
		{Partition: bucket.Partition{Instance: "redis-a"}, Incarnation: 2, Reachable: true},
		{Partition: bucket.Partition{Instance: "redis-b"}, Incarnation: 1, Problem: "connection refused"},
		{Partition: bucket.Partition{Instance: "redis-b", Index: 1}, Incarnation: 1, Reachable: true},
	}, f.note("partitions")
}

func (f *fake) Ready(context.Context) []string { return f.reasons }

func (f *fake) Missing() []string { return nil }

func (f *fake) Nodes(context.Context) ([]bucket.Node, error) {
	return []bucket.Node{{Name: "node-1", Address: "10.0.0.7:8080", Version: "v1.2.3", ZoneRelease: "2025c", StartedAt: at, SeenAt: at, Up: true}},
		f.note("nodes")
}

var aDrain = bucket.DrainView{Instance: "redis-a", Draining: true, Left: 3, Moved: 5, Uncleared: 5, Problem: "slow"}

func (f *fake) Drain(_ context.Context, name string) (bucket.DrainView, error) {
	return aDrain, f.note("drain %s", name)
}

func (f *fake) Undrain(_ context.Context, name string) (bucket.DrainView, error) {
	return aDrain, f.note("undrain %s", name)
}

func (f *fake) Recover(_ context.Context, name string) ([]bucket.PartitionView, error) {
	return []bucket.PartitionView{{Partition: bucket.Partition{Instance: "redis-a"}, Incarnation: 3, Reachable: true}}, f.note("recover %s", name)
}

func (f *fake) Rebalance(_ context.Context, dryRun bool) (bucket.Rebalance, error) {
	return bucket.Rebalance{DryRun: dryRun, Budgets: 2, Misplaced: 1, Moves: []bucket.BucketMove{
		{Bucket: "sale:bucket-0", From: bucket.Partition{Instance: "redis-a"}, To: bucket.Partition{Instance: "redis-b", Index: 1}},
	}}, f.note("rebalance %t", dryRun)
}
