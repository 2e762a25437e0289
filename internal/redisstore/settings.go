package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// oldestVersion is the first Redis with XTRIM MINID.
const oldestVersion = "6.2"

// setting is a configuration parameter that decides what a Redis may lose.
type setting struct {
	name, want string
	// why says what happens with another value.
	why string
}

var settings = []setting{
	{"maxmemory-policy", "noeviction",
		"balances may be evicted, and every bucket that loses its balance has to be recovered"},
	{"appendonly", "yes",
		"a restart empties the instance, and every bucket on it has to be recovered"},
	{"appendfsync", "always",
		"a crash of the machine takes back what was done last (everysec: up to 2 s), and every " +
			"bucket on it has to be recovered; budgets with durability \"store\" quarantine those units"},
	{"no-appendfsync-on-rewrite", "no",
		"nothing is flushed while the log is rewritten, so a crash takes back everything since"},
}

// Settings compares the server's settings with what budgetd needs and returns one sentence for each
// that differs, saying how to fix it. A setting that may not be read is such a difference too.
// Errors: Unavailable.
func (s *Store) Settings(ctx context.Context) (warnings []string, err error) {
	const op = "check settings"
	warn := func(format string, args ...any) {
		warnings = append(warnings, "instance "+s.config.Name+": "+fmt.Sprintf(format, args...))
	}
	conn := s.control.EphemeralConn()
	defer conn.Close()
	info, err := conn.Info(ctx, "server").Result()
	if err != nil {
		return nil, s.judgeRead(op, err)
	}
	if version := infoFields(info)["redis_version"]; !atLeast(version, oldestVersion) {
		warn("Redis %s is too old; install %s or newer", version, oldestVersion)
	}
	for _, want := range settings {
		value, err := readSetting(ctx, conn, want.name)
		word, _, answered := replyOf(err)
		switch {
		case answered && refusals[word].advice != "" && word != "NOPERM":
			return nil, s.judgeRead(op, err)
		case answered || err == nil && value == "":
			warn("%s cannot be read (allow CONFIG GET to its user: ACL SETUSER … +config|get); "+
				"make sure that it is %q", want.name, want.want)
		case err != nil:
			return nil, s.judgeRead(op, err)
		case value != want.want:
			warn("%s is %q, so %s; set it: CONFIG SET %s %s, and in redis.conf", want.name, value,
				want.why, want.name, want.want)
		}
	}
	return warnings, nil
}

// readSetting returns the value of a parameter, "" for one that the server does not have.
func readSetting(ctx context.Context, conn *redis.Conn, name string) (string, error) {
	values, err := conn.ConfigGet(ctx, name).Result()
	return values[name], err
}

// atLeast compares dotted version numbers; what is not a number counts as 0.
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
