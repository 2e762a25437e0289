package redisstore

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/bucket"
)

// The grammar of the keys. Everything of a lane has the lane's hash tag, so that one script can
// touch every key of it, on a Cluster too:
//
//	budgetd:<installation id>:{<tag>}:<bucket>:<epoch>:balance:1   a hash
//	budgetd:<installation id>:{<tag>}:<bucket>:<epoch>:r0:1        a hash (store mode)
//	budgetd:<installation id>:{<tag>}:<bucket>:<epoch>:r1:1        a hash (store mode)
//	budgetd:<installation id>:{<tag>}:<bucket>:<epoch>:v:1         a hash (store mode)
//	budgetd:<installation id>:{<tag>}:<bucket>:log:1               a stream
//	budgetd:<installation id>:{<tag>}:<bucket>:<epoch>:l:1         a hash (store mode with limits)
//	budgetd:<installation id>:{<tag>}:<bucket>:<epoch>:l:1:…       hashes, named by lua/limits.lua
//
// The tag is `<instance>/<lane>`, on a Cluster `<instance>/<lane>.<n>` (slots.go). An entry's id in the
// stream is <epoch>-<seq>, of the last of the log entries that share it; r0 and r1 hold the request records of alternate slices of time, v those of
// cancelled ids (lua/records.lua). Counters of limits outlive the epoch that they began with. The last part is the format of what the key holds. Installation
// ids and instance names are checked by New, so neither can hold a brace or a colon; the rest are
// numbers.
const keyFormat = "1"

// logField is the field of an entry of the log.
const logField = "e"

// maxInstallationBytes is the width of the installation id's column.
const maxInstallationBytes = 32

// keyPrefix returns what every key of the lane with that hash tag begins with.
func keyPrefix(installation, tag string) string { return "budgetd:" + installation + ":{" + tag + "}:" }

func balanceKey(prefix string, ref bucket.Ref) string { return epochKey(prefix, ref, "balance") }

// recordKeys returns the keys of the records of deductions, of even and of odd slices, and of those of
// cancelled ids.
func recordKeys(prefix string, ref bucket.Ref) (even, odd, void string) {
	return epochKey(prefix, ref, "r0"), epochKey(prefix, ref, "r1"), epochKey(prefix, ref, "v")
}

// countersKey is the root of a bucket's counters of limits, which began with that epoch.
func countersKey(prefix string, bucketID, from int64) string {
	return epochKey(prefix, bucket.Ref{Bucket: bucketID, Epoch: from}, "l")
}

// countersOf reads the name of a root of counters, or of a page of one.
func countersOf(prefix, key string) (bucketID, from int64, ok bool) {
	rest, ours := strings.CutPrefix(key, prefix)
	parts := strings.SplitN(rest, ":", 5)
	if !ours || len(parts) < 4 || parts[2] != "l" || parts[3] != keyFormat {
		return 0, 0, false
	}
	bucketID, err1 := strconv.ParseInt(parts[0], 10, 64)
	from, err2 := strconv.ParseInt(parts[1], 10, 64)
	return bucketID, from, err1 == nil && err2 == nil
}

func epochKey(prefix string, ref bucket.Ref, what string) string {
	return prefix + strconv.FormatInt(ref.Bucket, 10) + ":" + strconv.FormatInt(ref.Epoch, 10) +
		":" + what + ":" + keyFormat
}

func logKey(prefix string, bucketID int64) string {
	return prefix + strconv.FormatInt(bucketID, 10) + ":log:" + keyFormat
}

// entryID returns the stream id of an entry.
func entryID(epoch, seq int64) string {
	return strconv.FormatInt(epoch, 10) + "-" + strconv.FormatInt(seq, 10)
}

// checkInstallation returns what is wrong with an installation id, "" if nothing.
func checkInstallation(id string) string {
	if id == "" || len(id) > maxInstallationBytes {
		return fmt.Sprintf("is %d bytes long, 1 to %d are allowed", len(id), maxInstallationBytes)
	}
	for i := range len(id) {
		c := id[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return "may hold letters, digits, - and _ only"
		}
	}
	return ""
}
