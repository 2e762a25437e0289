package counter_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// prefix returns the prefix of a partition's keys.
func (w *world) prefix(index int) string {
	return fmt.Sprintf("budgetd:%s:{%s}:", w.db.InstallationID(), w.partitions[index])
}

// command sends a command to the server of a partition, past the store.
func (w *world) command(index int, args ...string) {
	w.Helper()
	_, err := w.servers[index].Command(args...)
	w.ok(err)
}

// replace replaces all keys that begin with a prefix by those that begin with another one.
const replace = `
	local to, from = ARGV[1], ARGV[2]
	for _, key in ipairs(redis.call('KEYS', to .. '*')) do redis.call('DEL', key) end
	for _, key in ipairs(redis.call('KEYS', from .. '*')) do
		redis.call('COPY', key, to .. string.sub(key, #from + 1))
	end
	return 1`

// flush removes everything that a partition has, as FLUSHALL does. The server stays the same
// process.
func (w *world) flush(index int) { w.goBack(index, "nothing") }

// remember keeps the present memory of a partition under a name.
func (w *world) remember(index int, name string) {
	w.Helper()
	w.command(index, "EVAL", replace, "0", name+w.prefix(index), w.prefix(index))
}

// goBack gives a partition the memory that it had. The server stays the same process.
func (w *world) goBack(index int, name string) {
	w.Helper()
	w.command(index, "EVAL", replace, "0", w.prefix(index), name+w.prefix(index))
}

// restart restarts the server of a partition with its present data.
func (w *world) restart(index int) {
	w.Helper()
	rdb, err := w.servers[index].Snapshot()
	w.ok(err)
	w.ok(w.servers[index].RestartFrom(rdb))
}

// forget removes the entry of one bucket and nothing else.
func (w *world) forget(b *bucket.Bucket) {
	w.Helper()
	index := slices.Index(w.partitions, b.Partition)
	w.command(index, "HDEL", w.prefix(index)+"epoch", fmt.Sprint(b.ID))
}

// age moves SQL's clock forward and makes the partitions' memories as much older: the clock of a
// server cannot be moved. A first memory (since_ms 0) has no age.
func (w *world) age(d time.Duration) {
	w.Helper()
	w.clock.Advance(d)
	for i := range w.partitions {
		w.command(i, "EVAL", `
			local since = tonumber(redis.call('HGET', KEYS[1], 'since_ms'))
			if since > 0 then redis.call('HINCRBY', KEYS[1], 'since_ms', -ARGV[1]) end
			return since`, "1", w.prefix(i)+"marker", fmt.Sprint(d.Milliseconds()))
	}
}
