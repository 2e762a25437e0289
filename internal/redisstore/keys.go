package redisstore

import (
	"fmt"
	"strconv"

	"github.com/budgetd/budgetd/bucket"
)

// The grammar of the keys. Everything of a lane has the lane's hash tag, so that one script can
// touch every key of it, on a Cluster too:
//
//	budgetd:<installation id>:{<instance>/<lane>}:<bucket>:<epoch>:balance:1   a hash
//	budgetd:<installation id>:{<instance>/<lane>}:<bucket>:log:1               a stream
//
// An entry's id in the stream is <epoch>-<seq>. The last part is the format of what the key holds. Installation ids and instance names are
// checked by New, so neither can hold a brace or a colon; the rest are numbers.
const keyFormat = "1"

// logField is the one field of a log's entries.
const logField = "e"

// maxInstallationBytes is the width of the installation id's column.
const maxInstallationBytes = 32

// keyPrefix returns what every key of a lane begins with.
func keyPrefix(installation string, lane bucket.Lane) string {
	return "budgetd:" + installation + ":{" + lane.Instance + "/" + strconv.Itoa(lane.Index) + "}:"
}

func balanceKey(prefix string, ref bucket.Ref) string {
	return prefix + strconv.FormatInt(ref.Bucket, 10) + ":" + strconv.FormatInt(ref.Epoch, 10) +
		":balance:" + keyFormat
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
