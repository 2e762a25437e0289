package driver

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
)

// oldestVersion is the first Redis in which a script's error reply begins with its own word.
const oldestVersion = "7.0"

var _ bucket.Inspected = (*Instance)(nil)

// setting is a configuration parameter that determines what a Redis may lose.
type setting struct {
	name, want string
	// why is the consequence of another value.
	why string
	// clustered marks a setting of Clusters that does not affect what is kept.
	clustered bool
}

var settings = []setting{
	{
		"maxmemory-policy",
		"noeviction",
		"keys may be evicted: budgets with durability \"store\" lose every bucket of the partition",
		false,
	},
	{
		"appendonly",
		"yes",
		"a restart empties the instance: budgets with durability \"store\" quarantine what " +
			"it held",
		false,
	},
	{
		"appendfsync",
		"always",
		"a crash of the machine takes back what was done last (everysec: up to 2 s): " +
			"budgets with durability \"store\" quarantine what it held",
		false,
	},
	{"no-appendfsync-on-rewrite", "no",
		"nothing is flushed while the log is rewritten, so a crash takes back everything since", false},
	{"cluster-require-full-coverage", "no",
		"one master that is down keeps the partitions of all others from serving until it is replaced",
		true},
}

// Condition compares the settings of the server that serves a partition with what budgetd needs. It
// returns one finding, with the remedy, for each difference and each setting that may not be read.
// See bucket.Inspected. It returns Unavailable if the server cannot be asked.
func (i *Instance) Condition(ctx context.Context,
	at bucket.Partition) (out bucket.Condition, err error) {
	const op = "check settings"
	where, err := i.locate(ctx, op, at)
	if err != nil {
		return bucket.Condition{}, err
	}
	find := func(f bucket.Finding, format string, args ...any) {
		f.Problem = i.nameOf(where) + ": " + fmt.Sprintf(format, args...)
		out.Findings = append(out.Findings, f)
	}
	conn, done := i.dial(where.addr)
	defer done()
	info, err := conn.Info(ctx, "server").Result()
	if err != nil {
		return bucket.Condition{}, where.judgeRead(op, err)
	}
	facts := infoFields(info)
	if out.Unfit = unfit(facts); out.Unfit != "" {
		out.Unfit = i.nameOf(where) + " is " + out.Unfit
		return out, nil
	}
	if version := facts["redis_version"]; !atLeast(version, oldestVersion) {
		find(bucket.Finding{Refused: true}, "Redis %s is too old; install %s or newer", version,
			oldestVersion)
	}
	out.Persistent = true
	for _, want := range settings {
		if want.clustered && !i.config.isCluster() {
			continue
		}
		value, err := readSetting(ctx, conn, want.name)
		word, _, answered := replyOf(err)
		kept := want.clustered || err == nil && value == want.want
		switch {
		case answered && refusals[word].advice != "" && word != "NOPERM":
			return bucket.Condition{}, where.judgeRead(op, err)
		case (answered || err == nil && value == "") && i.config.Vouched:
			kept = true
		case answered || err == nil && value == "":
			find(bucket.Finding{}, "%s cannot be read: allow CONFIG GET to its user "+
				"(ACL SETUSER … +config|get), or make sure that it is %q and set vouched: true",
				want.name, want.want)
		case err != nil:
			return bucket.Condition{}, where.judgeRead(op, err)
		case value != want.want:
			find(bucket.Finding{}, "%s is %q, so %s; set it: CONFIG SET %s %s, and in redis.conf",
				want.name, value, want.why, want.name, want.want)
		}
		out.Persistent = out.Persistent && kept
	}
	return out, nil
}

// strangers are servers that speak Redis's protocol but cannot hold the truth of a budget. Each is
// recognised by a field of INFO.
var strangers = []struct{ field, name, lacks string }{
	{"dragonfly_version", "Dragonfly", "it has no append-only file, so a crash takes back answers"},
	{"kvrocks_version", "Kvrocks", "it has no appendfsync and no replication id of Redis's kind"},
	{"garnet_version", "Garnet", "it has no appendfsync and no replication id of Redis's kind"},
}

// unfit returns the name of a server that cannot hold the truth, and what it lacks; "" for one that
// can. Valkey counts as Redis.
func unfit(facts map[string]string) string {
	for _, s := range strangers {
		if version, is := facts[s.field]; is {
			return fmt.Sprintf("%s %s, which is unsuitable for store mode: %s; store mode needs "+
				"Redis or Valkey", s.name, version, s.lacks)
		}
	}
	return ""
}

// readSetting returns the value of a parameter, or "" if the server does not have it.
func readSetting(ctx context.Context, conn *redis.Conn, name string) (string, error) {
	values, err := conn.ConfigGet(ctx, name).Result()
	return values[name], err
}

// atLeast compares dotted version numbers; anything else counts as 0.
func atLeast(version, least string) bool {
	have, want := strings.Split(version, "."), strings.Split(least, ".")
	for i := range want {
		h := 0
		if i < len(have) {
			h, _ = strconv.Atoi(have[i])
		}
		if w, _ := strconv.Atoi(want[i]); h != w {
			return h > w
		}
	}
	return true
}
