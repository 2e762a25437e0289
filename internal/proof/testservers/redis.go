package testservers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// RedisServer is a running or stopped redis-server. By default it persists nothing; see AppendOnly.
type RedisServer struct {
	*Server
}

// RedisOption changes how a redis-server is started, and restarted.
type RedisOption func(*redisSettings)

type redisSettings struct {
	args []string
}

// AppendOnly makes the server append every write to its log. fsync says when it flushes the log:
// "always" (before the answer), "everysec" or "no" (when the kernel decides).
func AppendOnly(fsync string) RedisOption {
	return RedisArgs("--appendonly", "yes", "--appendfsync", fsync)
}

// RedisArgs adds arguments to the command line of redis-server, such as RedisArgs("--maxmemory",
// "2mb") or RedisArgs("--user", "default on nopass ~* &* +@all"). The last value of a setting wins,
// except for address, port, directory and logging.
func RedisArgs(args ...string) RedisOption {
	return func(s *redisSettings) { s.args = append(s.args, args...) }
}

// Redis starts a redis-server for one test and returns once it accepts connections. When tb is
// over, the server is killed and its directory removed. Any failure is fatal, including a missing
// redis-server.
func Redis(tb testing.TB, options ...RedisOption) *RedisServer {
	tb.Helper()
	dir, err := Directory("redis")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	server, err := StartRedis(ctx, dir, options...)
	if err != nil {
		tb.Fatal(err)
	}
	server.cleanUp(tb)
	return server
}

// StartRedis starts a redis-server with its files in dir, an existing directory, and returns once
// it accepts connections. It loads an earlier server's data. ctx bounds the start only: the server
// runs until Stop or Kill, or until this process ends. dir is not removed.
func StartRedis(ctx context.Context, dir string, options ...RedisOption) (*RedisServer, error) {
	binary, err := findBinary("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var settings redisSettings
	for _, option := range options {
		option(&settings)
	}
	args := func(port int) []string {
		line := []string{"--save", "", "--appendonly", "no"}
		line = append(line, settings.args...)
		// The settings on which this package relies come last, where nothing overrides them.
		return append(line, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
			"--daemonize", "no", "--logfile", "", "--loglevel", "notice")
	}
	server, err := startServer(ctx, program{
		name:      "redis",
		binary:    binary,
		readyLine: "Ready to accept connections",
		args:      args,
	}, dir)
	if err != nil {
		return nil, err
	}
	return &RedisServer{Server: server}, nil
}

// Command sends one command on a connection of its own and returns the reply as text: a simple
// string, a number or a bulk string ("" for a null reply). It returns an error for an error reply,
// for an array, and after 30 s without an answer.
func (r *RedisServer) Command(args ...string) (string, error) {
	return askServer(r.Server, args...)
}

// askServer is Command for any server, including a sentinel.
func askServer(s *Server, args ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", s.Addr(), stopLimit)
	if err != nil {
		return "", fmt.Errorf("testservers: redis: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(stopLimit)); err != nil {
		return "", err
	}
	var request strings.Builder
	fmt.Fprintf(&request, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(conn, request.String()); err != nil {
		return "", fmt.Errorf("testservers: redis: %s: %w", args[0], err)
	}
	reply, err := readReply(bufio.NewReader(conn))
	if err != nil {
		return "", fmt.Errorf("testservers: redis: %s: %w", strings.Join(args, " "), err)
	}
	return reply, nil
}

// readReply reads one RESP2 reply that is not an array.
func readReply(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", errors.New("an empty reply")
	}
	switch kind, rest := line[0], line[1:]; kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "", errors.New(rest)
	case '$':
		size, err := strconv.Atoi(rest)
		if err != nil || size < 0 {
			return "", err
		}
		text := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(in, text); err != nil {
			return "", err
		}
		return string(text[:size]), nil
	}
	return "", fmt.Errorf("a reply that begins with %q", line[0])
}
