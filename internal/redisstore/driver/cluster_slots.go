package driver

import (
	"math/bits"
	"strconv"

	"github.com/budgetd/budgetd/bucket"
)

// A Redis Cluster keeps a key on the master that serves the key's slot: the CRC16 of the hash tag
// (the text between the first { and the next }) modulo 16,384 (Redis Cluster specification, "Key
// distribution model"). Masters serve ranges of slots. Partitions are spread over all slots, hence
// over masters, whatever their number.
const clusterSlotCount = 16384

// maxPartitions is the most partitions of an instance; each has its own part of the slots.
const maxPartitions = 1024

// hashTag returns the hash tag of a partition of a Cluster: `<instance>/<partition>.<n>` with the
// smallest n that leads to the partition's part of the slots. That part depends only on the
// partition's index, in the order of van der Corput (the bits of the index reversed): 0, 1/2, 1/4,
// 3/4, 1/8 … of the way. The first 2, 4, 8, 16 … partitions are evenly spread, and a partition
// keeps its tag when partitions are added. The tag must never change, because keys contain it.
func hashTag(partition bucket.Partition) string {
	const part = clusterSlotCount / maxPartitions
	first := int(
		bits.Reverse16(uint16(partition.Index))>>6,
	) * part //nolint:gosec // an index below maxPartitions
	for n := 0; ; n++ {
		tag := partition.String() + "." + strconv.Itoa(n)
		if at := clusterSlotOf(tag); at >= first && at < first+part {
			return tag
		}
	}
}

// clusterSlotOf returns the slot of a hash tag.
func clusterSlotOf(tag string) int {
	crc := uint16(0) // CRC-16/XMODEM: polynomial 0x1021, initial value 0
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % clusterSlotCount
}

// ClusterSlotOf returns the slot in which a Cluster keeps the keys of a partition.
func ClusterSlotOf(partition bucket.Partition) int { return clusterSlotOf(hashTag(partition)) }
