package redisstore

import (
	"strconv"
	"sync/atomic"
)

// pages is the number of hashes that the records of one slice of a partition are spread over, and
// its counters too. With more pages bulk reads would not pay; with fewer, a page would have many
// millions of fields.
const pages = 16

// keyset has the keys of a partition. They all begin with `budgetd:<installation id>:{<tag>}:`, so
// that one script can access every key of the partition, even on a Cluster:
//
//	marker                        hash, see lua/shared.lua
//	newest, epoch, balance, taken, given, grant   hashes, bucket -> …, see lua/entries.lua
//	limits                        hash, bucket -> newest version of its limits
//	late                          hash, bucket:epoch -> `units slice`
//	changed                       set of bucket and bucket:epoch
//	records:<slice>:<page>        hash, bucket:id -> record, see lua/undo.lua
//	counters:<page>               hash, bucket:value -> windows, see lua/counters.lua
//
// The tag is `<instance>/<partition>`, on a Cluster `<instance>/<partition>.<n>`. Installation ids
// and names of instances cannot contain a brace or a colon, because they are checked.
type keyset struct {
	prefix string
	marker string
	// entry is newest, epoch, balance, taken, given, grant: the order of lua/entries.lua.
	entry                 []string
	limits, late, changed string
	counters              [pages]string
	// slice is the partition's slice in the latest call; 0 before the first.
	slice atomic.Int64
}

func newKeyset(prefix string) *keyset {
	k := &keyset{prefix: prefix, marker: prefix + "marker", limits: prefix + "limits",
		late: prefix + "late", changed: prefix + "changed"}
	for _, name := range []string{"newest", "epoch", "balance", "taken", "given", "grant"} {
		k.entry = append(k.entry, prefix+name)
	}
	for page := range k.counters {
		k.counters[page] = prefix + "counters:" + strconv.Itoa(page)
	}
	return k
}

// epoch returns the hash of the buckets' epochs.
func (k *keyset) epoch() string { return k.entry[1] }

// records returns the key of a page of a slice.
func (k *keyset) records(slice int64, page int) string {
	return k.prefix + "records:" + strconv.FormatInt(slice, 10) + ":" + strconv.Itoa(page)
}

// entries returns the keys of a script that reads entries, followed by its own.
func (k *keyset) entries(more ...string) []string {
	keys := make([]string, 0, 1+len(k.entry)+len(more))
	return append(append(append(keys, k.marker), k.entry...), more...)
}

// pageOf spreads buckets over pages: neighbours, which are often of one budget, differ.
func pageOf(bucket int64) int {
	return int(uint64(bucket) * 0x9e3779b97f4a7c15 >> 60) //nolint:gosec // a hash: 4 bits
}
