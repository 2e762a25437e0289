package redisstore

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Identity reads who serves the lane on a connection of its own: `<run id> <replication id>
// <role>`. It changes when the process restarts and when its data is or becomes another's: a
// replica that is promoted, a primary that gets its first replica or that has had none for
// repl-backlog-ttl. All of them are taken for a loss: in ledger mode that costs time and no units.
// Errors: Unavailable, also for a replica.
func (s *Store) Identity(ctx context.Context, at bucket.Lane) (string, error) {
	if err := s.known("identify", at); err != nil {
		return "", err
	}
	conn := s.control.EphemeralConn()
	defer conn.Close()
	return s.identify(ctx, "identify", conn)
}

// identify asks a connection who is at its other end.
func (s *Store) identify(ctx context.Context, op string, conn *redis.Conn) (string, error) {
	pipe := conn.Pipeline()
	server, replication := pipe.Info(ctx, "server"), pipe.Info(ctx, "replication")
	if _, err := pipe.Exec(ctx); err != nil {
		return "", s.judge(op, err, false).err
	}
	facts := infoFields(server.Val() + replication.Val())
	run, id, role := facts["run_id"], facts["master_replid"], facts["role"]
	switch {
	case role == "slave":
		return "", s.unavailable(op, nil, refusals["READONLY"].advice)
	case run == "" || id == "" || role == "":
		return "", s.unavailable(op, nil, "INFO does not name run id, replication id and role")
	}
	return run + " " + id + " " + role, nil
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

// Activate loads the scripts of an activation on a connection that meets the identity before and
// after, and lets the lane's later calls use them, on connections that meet it too. Errors:
// ErrMemoryLost when another identity is there; Unavailable. With an error the lane stays as it
// was.
func (s *Store) Activate(ctx context.Context, at bucket.Lane, identity string,
	activation int64) error {
	const op = "activate"
	if err := s.known(op, at); err != nil {
		return err
	}
	if !budget.ValidAmount(activation) {
		return budget.Refuse(budget.Invalid, op, "activation %d must be 1 to %d", activation,
			budget.MaxAmount)
	}
	conn := s.control.EphemeralConn()
	defer conn.Close()
	meets := func() error {
		met, err := s.identify(ctx, op, conn)
		if err == nil && met != identity {
			return bucket.ErrMemoryLost
		}
		return err
	}
	if err := meets(); err != nil {
		return err
	}
	scripts := scriptsOf(s.config.InstallationID, at, activation)
	for _, script := range scripts {
		// Loading twice is harmless, so whatever went wrong, nothing was done that matters.
		sha, err := conn.ScriptLoad(ctx, script.text).Result()
		if err == nil && sha != script.sha {
			err = errors.New("it names a script " + sha + " that we name " + script.sha)
		}
		if err != nil {
			return s.judge(op, err, false).err
		}
	}
	if err := meets(); err != nil {
		return err
	}
	return s.adopt(op, at, &lane{activation: activation, scripts: scripts,
		prefix: keyPrefix(s.config.InstallationID, at)}, identity)
}

// adopt puts a lane in its place with a session of the identity, and ends sessions that no lane
// uses any more.
func (s *Store) adopt(op string, at bucket.Lane, l *lane, identity string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions == nil {
		return s.unavailable(op, redis.ErrClosed, "it was disconnected")
	}
	for n := range s.sessions {
		if n.identity == identity && !n.lost.Load() {
			l.session = n
		}
	}
	if l.session == nil {
		l.session = s.newSession(identity)
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
