package testservers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// SentinelName is the name of the group that RedisSentinels' sentinels watch.
const SentinelName = "budgets"

// SentinelServers is a group of a master and its replicas, and the sentinels that watch it.
type SentinelServers struct {
	// Nodes are the initial master, then its replicas.
	Nodes     []*RedisServer
	Sentinels []*Server
}

// RedisSentinels starts a master with two replicas and three sentinels for one test, and returns
// once all know each other. A master that does not answer for downAfter is replaced; an hour
// prevents that even on a busy machine. options are those of the Redis. When tb is over, the
// servers are killed and their directories removed. Any failure is fatal.
func RedisSentinels(
	tb testing.TB, downAfter time.Duration, options ...RedisOption,
) *SentinelServers {
	tb.Helper()
	s := &SentinelServers{}
	options = append(options, RedisArgs("--repl-diskless-sync-delay", "0", "--repl-backlog-ttl", "0"))
	for range 3 {
		node := Redis(tb, options...)
		s.Nodes = append(s.Nodes, node)
		if node == s.Nodes[0] {
			continue
		}
		if err := node.Follow(s.Nodes[0]); err != nil {
			tb.Fatal(err)
		}
	}
	for range 3 {
		sentinel, err := startSentinel(s.Nodes[0], downAfter)
		if err != nil {
			tb.Fatal(err)
		}
		sentinel.cleanUp(tb)
		s.Sentinels = append(s.Sentinels, sentinel)
	}
	if err := await("the sentinels know all", s.allKnown); err != nil {
		tb.Fatal(err)
	}
	return s
}

// startSentinel starts one sentinel.
func startSentinel(master *RedisServer, downAfter time.Duration) (*Server, error) {
	binary, err := findBinary("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	dir, err := Directory("sentinel")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "sentinel.conf") // the sentinel rewrites this file
	text := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 2\nsentinel down-after-milliseconds "+
		"%[1]s %[3]d\n"+
		"sentinel failover-timeout %[1]s 5000\n", SentinelName, master.Port(), downAfter.Milliseconds())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	return startServer(ctx, program{
		name:      "sentinel",
		binary:    binary,
		readyLine: "+monitor master",
		args: func(port int) []string {
			return []string{file, "--sentinel", "--bind", "127.0.0.1", "--port", strconv.Itoa(port),
				"--dir", dir, "--daemonize", "no", "--logfile", "", "--loglevel", "notice"}
		},
	}, dir)
}

// Addrs returns the sentinels' addresses.
func (s *SentinelServers) Addrs() (addrs []string) {
	for _, sentinel := range s.Sentinels {
		addrs = append(addrs, sentinel.Addr())
	}
	return addrs
}

func (s *SentinelServers) allKnown() error {
	for _, sentinel := range s.Sentinels {
		info, err := askServer(sentinel, "INFO", "sentinel")
		if err != nil {
			return err
		}
		if !strings.Contains(info, "slaves=2,sentinels=3") {
			return fmt.Errorf("%s: %s", sentinel.Addr(), info)
		}
	}
	return nil
}

// Master returns the server that all running sentinels consider the master.
func (s *SentinelServers) Master() (master *RedisServer, err error) {
	for _, sentinel := range s.Sentinels {
		if sentinel.Pid() == 0 {
			continue
		}
		info, err := askServer(sentinel, "INFO", "sentinel")
		if err != nil {
			return nil, err
		}
		var named *RedisServer
		for _, node := range s.Nodes {
			if strings.Contains(info, "address="+node.Addr()+",") {
				named = node
			}
		}
		if named == nil || master != nil && master != named {
			return nil, errors.New("testservers: the sentinels do not agree: " + info)
		}
		master = named
	}
	return master, nil
}

// FailOver makes the sentinels promote a replica, and returns the old and the new master.
func (s *SentinelServers) FailOver() (was, is *RedisServer, err error) {
	if was, err = s.Master(); err != nil {
		return nil, nil, err
	}
	if _, err = askServer(s.Sentinels[0], "SENTINEL", "FAILOVER", SentinelName); err != nil {
		return nil, nil, err
	}
	is, err = s.AwaitMoved(was)
	return was, is, err
}

// AwaitMoved waits until a server other than from is the master and accepts writes.
func (s *SentinelServers) AwaitMoved(from *RedisServer) (is *RedisServer, err error) {
	err = await("a master other than "+from.Addr(), func() error {
		if is, err = s.Master(); err != nil {
			return err
		}
		if is == from {
			return errors.New("not yet")
		}
		role, err := is.Command("INFO", "replication")
		if err == nil && !strings.Contains(role, "role:master") {
			err = errors.New(role)
		}
		return err
	})
	return is, err
}
