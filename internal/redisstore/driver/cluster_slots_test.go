package driver

import (
	"fmt"
	"testing"

	"github.com/budgetd/budgetd/bucket"
)

// TestSlotOf compares with CLUSTER KEYSLOT of a Redis 7.0; "123456789" is the check value of
// CRC-16/XMODEM.
func TestSlotOf(t *testing.T) {
	for tag, want := range map[string]int{"": 0, "123456789": 0x31c3, "x": 16287, "foo": 12182,
		"cluster-0/3": 1388, "user1000": 3443} {
		if got := clusterSlotOf(tag); got != want {
			t.Errorf("%q is in slot %d, want %d", tag, got, want)
		}
	}
}

// TestHashTags pins the tags: keys contain them, so they must never change.
func TestHashTags(t *testing.T) {
	for index, want := range map[int]string{0: "cluster/0.309", 1: "cluster/1.132", 2: "cluster/2.1399",
		3: "cluster/3.466", 5: "cluster/5.1136", 15: "cluster/15.281", 16: "cluster/16.540", 63: "cluster/63.592"} {
		if got := hashTag(bucket.Partition{Instance: "cluster", Index: index}); got != want {
			t.Errorf("partition %d has the tag %s, want %s", index, got, want)
		}
	}
}

// TestPartitionsAreSpread checks that for any number of masters none has many more partitions than
// another, and that no partition moves when partitions are added.
func TestPartitionsAreSpread(t *testing.T) {
	for _, name := range []string{"c", "cluster-0", "a-name-that-is-as-long-as-an-instance-may-be-called-0123456789"} {
		at := make([]int, 64)
		for partition := range at {
			at[partition] = clusterSlotOf(hashTag(bucket.Partition{Instance: name, Index: partition}))
		}
		for _, partitions := range []int{2, 4, 8, 16, 32, 64} {
			for masters := 1; masters <= partitions; masters++ {
				counts := make([]int, masters)
				for _, slot := range at[:partitions] {
					counts[slot*masters/clusterSlotCount]++ // as redis-cli deals the slots out
				}
				for master, n := range counts {
					if low, high := partitions/masters, (partitions+masters-1)/masters; n < low-1 || n > high+1 {
						t.Errorf("%s, %d partitions on %d masters: master %d has %d: %v", name, partitions, masters, master, n, counts)
					}
				}
			}
		}
	}
}

// TestManyPartitions checks that each of the most partitions has a slot of its own.
func TestManyPartitions(t *testing.T) {
	taken := map[int]int{}
	for partition := range maxPartitions {
		slot := clusterSlotOf(hashTag(bucket.Partition{Instance: "c", Index: partition}))
		if other, known := taken[slot]; known {
			t.Errorf("partitions %d and %d are in slot %d", other, partition, slot)
		}
		taken[slot] = partition
	}
	for partition := range maxPartitions {
		tag := hashTag(bucket.Partition{Instance: "c", Index: partition})
		if prefix := fmt.Sprintf("c/%d.", partition); tag[:len(prefix)] != prefix {
			t.Errorf("partition %d has the tag %s", partition, tag)
		}
	}
}
