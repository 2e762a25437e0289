package driver

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
)

// Identity reads who serves the partition, on a connection of its own: `<run id> <replication id>
// <role>`, and on a Cluster the server's id there. It changes when the process restarts and when
// its data is or becomes another's: a replica is promoted, a primary gets its first replica or has
// had none for repl-backlog-ttl, or a partition moves to another master. It returns Unavailable
// also for a replica, and for a server of a Cluster that does not serve the partition's slot now.
func (i *Instance) Identity(ctx context.Context, at bucket.Partition) (string, error) {
	const op = "identify"
	where, err := i.locate(ctx, op, at)
	if err != nil {
		return "", err
	}
	met, err := i.meet(ctx, op, where, at)
	if err == nil {
		return met, nil
	}
	now, lookErr := i.locate(ctx, op, at) // after doubt: it asks
	if lookErr != nil || now == where {
		return "", err
	}
	return i.meet(ctx, op, now, at)
}

// meet asks a server for its identity, and on a Cluster whether it serves the partition.
func (i *Instance) meet(ctx context.Context, op string, where server,
	at bucket.Partition) (string, error) {
	conn, done := i.dial(where.addr)
	defer done()
	met, err := i.identify(ctx, op, where, conn, i.Prefix(at))
	if err != nil {
		i.topology.doubt()
	}
	return met, err
}

// identify asks a connection for the identity at its other end, and on a Cluster whether it serves
// the keys that begin with prefix; "" skips the latter.
func (i *Instance) identify(ctx context.Context, op string, at server, conn *redis.Conn,
	prefix string) (
	string, error) {
	pipe := conn.Pipeline()
	info, replication := pipe.Info(ctx, "server"), pipe.Info(ctx, "replication")
	var node *redis.StringCmd
	if i.config.isCluster() {
		node = askNode(ctx, pipe, prefix)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return "", at.judge(op, err, false).err
	}
	facts := infoFields(info.Val() + replication.Val())
	run, id, role := facts["run_id"], facts["master_replid"], facts["role"]
	if run == "" && i.config.Vouched {
		run = "vouched" // a service that hides it keeps the replication id apart
	}
	why := unfit(facts)
	switch {
	case why != "":
		return "", at.unavailable(op, nil, "it is "+why)
	case role == "slave":
		return "", at.unavailable(op, nil, refusals["READONLY"].advice)
	case !isPlain(run) || !isPlain(id) || !isPlain(role) || node != nil && !isPlain(node.Val()):
		return "", at.unavailable(op, nil, "INFO does not name run id, replication id and role")
	case node != nil:
		return run + " " + id + " " + role + " " + node.Val(), nil
	}
	return run + " " + id + " " + role, nil
}

// isPlain reports whether a text consists of one or more letters and digits, as all words of an
// identity do.
func isPlain(text string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return text != ""
}

// ReplicationID returns the second word of an identity.
func ReplicationID(identity string) string {
	_, rest, _ := strings.Cut(identity, " ")
	id, _, _ := strings.Cut(rest, " ")
	return id
}

// infoFields parses the lines `name:value` of an INFO reply.
func infoFields(info string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, found := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); found {
			fields[name] = value
		}
	}
	return fields
}

// Time reads the server's clock. It returns Unavailable if that fails.
func (i *Instance) Time(ctx context.Context, at bucket.Partition) (time.Time, error) {
	const op = "read the time"
	where, err := i.locate(ctx, op, at)
	if err != nil {
		return time.Time{}, err
	}
	conn, done := i.dial(where.addr)
	defer done()
	now, err := conn.Time(ctx).Result()
	if err != nil {
		i.topology.doubt()
		return time.Time{}, where.judge(op, err, false).err
	}
	return now, nil
}

// Scripts returns how many scripts the server that serves a partition keeps, those of others
// included. Errors: Unavailable.
func (i *Instance) Scripts(ctx context.Context, at bucket.Partition) (int, error) {
	const op = "count scripts"
	where, err := i.locate(ctx, op, at)
	if err != nil {
		return 0, err
	}
	conn, done := i.dial(where.addr)
	defer done()
	info, err := conn.Info(ctx, "memory").Result()
	if err != nil {
		return 0, where.judgeRead(op, err)
	}
	n, err := strconv.Atoi(infoFields(info)["number_of_cached_scripts"])
	if err != nil {
		return 0, where.unavailable(op, err, "INFO does not say how many scripts there are")
	}
	return n, nil
}
