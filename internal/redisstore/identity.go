package redisstore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Identity reads who serves the lane on a connection of its own: `<run id> <replication id>
// <role>`, and on a Cluster the server's id there. It changes when the process restarts and when its
// data is or becomes another's: a replica that is promoted, a primary that gets its first replica or
// that has had none for repl-backlog-ttl, a lane that moved to another master. All of them are taken
// for a loss: in ledger mode that costs time and no units. Errors: Unavailable, also for a replica, and
// for a server of a Cluster that does not serve the lane's slot now.
func (s *Store) Identity(ctx context.Context, at bucket.Lane) (string, error) {
	const op = "identify"
	where, err := s.locate(ctx, op, at)
	if err != nil {
		return "", err
	}
	met, err := s.meet(ctx, op, where, at)
	if err == nil {
		return met, nil
	}
	now, lookErr := s.locate(ctx, op, at) // after doubt: it asks
	if lookErr != nil || now == where {
		return "", err
	}
	return s.meet(ctx, op, now, at)
}

// meet asks a server who it is, and on a Cluster whether it serves the lane.
func (s *Store) meet(ctx context.Context, op string, where server, at bucket.Lane) (string, error) {
	conn, done := s.dial(where.addr)
	defer done()
	met, err := s.identify(ctx, op, where, conn, s.prefix(at))
	if err != nil {
		s.atlas.doubt()
	}
	return met, err
}

// prefix returns what every key of a lane begins with.
func (s *Store) prefix(at bucket.Lane) string {
	return keyPrefix(s.config.InstallationID, s.tags[at.Index])
}

// identify asks a connection who is at its other end, and on a Cluster whether it serves the keys that
// begin with prefix; "" does not ask that.
func (s *Store) identify(ctx context.Context, op string, at server, conn *redis.Conn, prefix string) (
	string, error) {
	pipe := conn.Pipeline()
	info, replication := pipe.Info(ctx, "server"), pipe.Info(ctx, "replication")
	var node *redis.StringCmd
	if s.cluster() {
		node = askNode(ctx, pipe, prefix)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return "", at.judge(op, err, false).err
	}
	facts := infoFields(info.Val() + replication.Val())
	run, id, role := facts["run_id"], facts["master_replid"], facts["role"]
	switch {
	case role == "slave":
		return "", at.unavailable(op, nil, refusals["READONLY"].advice)
	case !isPlain(run) || !isPlain(id) || !isPlain(role) || node != nil && !isPlain(node.Val()):
		return "", at.unavailable(op, nil, "INFO does not name run id, replication id and role")
	case node != nil:
		return run + " " + id + " " + role + " " + node.Val(), nil
	}
	return run + " " + id + " " + role, nil
}

// isPlain reports whether a text is one or more letters and digits, as everything in an identity is.
func isPlain(text string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return text != ""
}

// replicationID returns the second word of an identity.
func replicationID(identity string) string {
	_, rest, _ := strings.Cut(identity, " ")
	id, _, _ := strings.Cut(rest, " ")
	return id
}

// infoFields reads the lines `name:value` of an INFO reply.
func infoFields(info string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, found := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); found {
			fields[name] = value
		}
	}
	return fields
}

// Time reads the server's clock. See bucket.Memory. Errors: Unavailable.
func (s *Store) Time(ctx context.Context, at bucket.Lane) (time.Time, error) {
	const op = "read the time"
	where, err := s.locate(ctx, op, at)
	if err != nil {
		return time.Time{}, err
	}
	conn, done := s.dial(where.addr)
	defer done()
	now, err := conn.Time(ctx).Result()
	if err != nil {
		s.atlas.doubt()
		return time.Time{}, where.judge(op, err, false).err
	}
	return now, nil
}

// Activate loads the scripts of an activation on a connection that meets the identity before and
// after, and lets the lane's later calls use them, on connections that meet it too. Errors:
// ErrMemoryLost when another identity is there; Unavailable. With an error the lane stays as it
// was.
func (s *Store) Activate(ctx context.Context, at bucket.Lane, identity string,
	activation int64) error {
	const op = "activate"
	where, err := s.locate(ctx, op, at)
	if err != nil {
		return err
	}
	if !budget.ValidAmount(activation) {
		return budget.Refuse(budget.Invalid, op, "activation %d must be 1 to %d", activation,
			budget.MaxAmount)
	}
	conn, done := s.dial(where.addr)
	defer done()
	meets := func() error {
		met, err := s.identify(ctx, op, where, conn, s.prefix(at))
		if err != nil {
			s.atlas.doubt()
			return err
		}
		if met != identity {
			return bucket.ErrMemoryLost
		}
		return nil
	}
	if err := meets(); err != nil {
		return err
	}
	scripts := scriptsOf(s.prefix(at), activation, replicationID(identity))
	for _, script := range scripts {
		// Loading twice is harmless, so whatever went wrong, nothing was done that matters.
		sha, err := conn.ScriptLoad(ctx, script.text).Result()
		if err == nil && sha != script.sha {
			err = errors.New("it names a script " + sha + " that we name " + script.sha)
		}
		if err != nil {
			s.atlas.doubt()
			return where.judge(op, err, false).err
		}
	}
	if err := meets(); err != nil {
		return err
	}
	return s.adopt(op, at, &lane{activation: activation, scripts: scripts, prefix: s.prefix(at)}, where, identity)
}

// adopt puts a lane in its place with a session of the server and the identity, and ends sessions that
// no lane uses any more.
func (s *Store) adopt(op string, at bucket.Lane, l *lane, where server, identity string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions == nil {
		return where.unavailable(op, redis.ErrClosed, "it was disconnected")
	}
	for n := range s.sessions {
		if n.server == where && n.identity == identity && !n.lost.Load() {
			l.session = n
		}
	}
	if l.session == nil {
		l.session = s.newSession(where, identity)
		s.sessions[l.session] = true
	}
	s.lanes[at.Index].Store(l)
	used := make(map[*session]bool)
	for i := range s.lanes {
		if other := s.lanes[i].Load(); other != nil {
			used[other.session] = true
		}
	}
	for n := range s.sessions {
		if !used[n] {
			delete(s.sessions, n)
			go n.end()
		}
	}
	return nil
}
