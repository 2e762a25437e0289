package testservers

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// errRunning is returned instead of changing the files of a running server.
var errRunning = errors.New("testservers: redis still runs")

// Snapshot saves the data of a running server as an RDB file and returns its content, for
// RestartFrom.
func (r *RedisServer) Snapshot() (rdb []byte, err error) {
	if _, err := r.Command("SAVE"); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(r.dir, "dump.rdb"))
}

// RestartEmpty kills the server if it still runs and starts it again without any data.
func (r *RedisServer) RestartEmpty() error {
	if err := r.Kill(); err != nil {
		return err
	}
	if err := r.removeData(); err != nil {
		return err
	}
	return r.Restart()
}

// RestartFrom kills the server if it still runs and restarts it with the data of a Snapshot, as if
// an older backup was restored. A server with a log keeps writing a log.
func (r *RedisServer) RestartFrom(rdb []byte) error {
	if err := r.Kill(); err != nil {
		return err
	}
	if err := r.removeData(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.dir, "dump.rdb"), rdb, 0o600); err != nil {
		return err
	}
	// A server with a log would load its data only from there.
	logging := keepsLog(r.program.args(r.port))
	r.setExtra("--appendonly", "no")
	err := r.Restart()
	r.setExtra()
	if err != nil || !logging {
		return err
	}
	if _, err := r.Command("CONFIG", "SET", "appendonly", "yes"); err != nil {
		return err
	}
	// Until the log is complete, a crash would lose everything.
	return r.await("persistence", "aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0")
}

// keepsLog reports whether a command line turns the append-only log on. The last value counts.
func keepsLog(args []string) (on bool) {
	for i, arg := range args[:len(args)-1] {
		if arg == "--appendonly" {
			on = args[i+1] == "yes"
		}
	}
	return on
}

// TruncateLog cuts the last n bytes off a stopped server's append-only log, as a crash of the
// machine may, and returns their number. If the last file of the log has fewer bytes, all of them
// are cut. Redis loads such a log up to the last whole command (aof-load-truncated yes, its
// default). TruncateLog returns an error while the server runs, or if it has no log.
func (r *RedisServer) TruncateLog(n int64) (cut int64, err error) {
	if r.Pid() != 0 {
		return 0, errRunning
	}
	files, err := filepath.Glob(filepath.Join(r.dir, "appendonlydir", "*.incr.aof"))
	if err != nil {
		return 0, err
	}
	if len(files) == 0 {
		files = []string{filepath.Join(r.dir, "appendonly.aof")} // Redis 6
	}
	// The names end in an increasing number, ".9.incr.aof" before ".10.incr.aof".
	last := slices.MaxFunc(files, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	info, err := os.Stat(last)
	if err != nil {
		return 0, err
	}
	cut = min(n, info.Size())
	return cut, os.Truncate(last, info.Size()-cut)
}

// removeData removes the persisted data of a stopped server.
func (r *RedisServer) removeData() error {
	if r.Pid() != 0 {
		return errRunning
	}
	for _, name := range []string{"dump.rdb", "appendonly.aof", "appendonlydir"} {
		if err := os.RemoveAll(filepath.Join(r.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// Follow makes the server a replica of another, and returns once it has the master's data. Its own
// data is lost.
func (r *RedisServer) Follow(master *RedisServer) error {
	port := fmt.Sprint(master.Port())
	if _, err := r.Command("REPLICAOF", "127.0.0.1", port); err != nil {
		return err
	}
	return r.await("replication", "master_link_status:up")
}

// await waits until a section of INFO has all lines.
func (r *RedisServer) await(section string, lines ...string) error {
	deadline := time.Now().Add(startLimit)
	for {
		info, err := r.Command("INFO", section)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(lines,
			func(line string) bool { return !strings.Contains(info, line+"\r\n") }) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("testservers: redis: not %q after %s:\n%s", lines, startLimit, info)
		}
		time.Sleep(pollInterval)
	}
}

// Promote makes a replica a master with its present data. It does not change a master.
func (r *RedisServer) Promote() error {
	_, err := r.Command("REPLICAOF", "NO", "ONE")
	return err
}
