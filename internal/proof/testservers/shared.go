package testservers

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// The environment variables by which the test binaries of one run share servers. Lend sets them.
const (
	mariaDBVariable  = "BUDGETD_TEST_MARIADB"      // the address of the run's MariaDB
	redisVariable    = "BUDGETD_TEST_REDIS"        // the address of the run's Redis
	pristineVariable = "BUDGETD_TEST_MARIADB_DATA" // a directory with a fresh data directory
)

// SharedMariaDB returns the mariadbd that all tests of this run share, each with databases of its
// own (NewDatabase). BUDGETD_TEST_MARIADB has its address; without it, the first call starts a
// server that ends with this process. A test must not stop, pause or configure the server, end
// other tests' connections, or read their databases.
func SharedMariaDB(tb testing.TB) *MariaDBServer {
	tb.Helper()
	server, err := sharedMariaDB()
	if err != nil {
		tb.Fatal(err)
	}
	return server
}

var sharedMariaDB = sync.OnceValues(func() (*MariaDBServer, error) {
	if addr := os.Getenv(mariaDBVariable); addr != "" {
		server, err := borrowed("mariadb", addr)
		return &MariaDBServer{Server: server}, err
	}
	return startTestMariaDB(nil)
})

// SharedRedis returns the redis-server that all tests of this run share. It persists nothing. Each
// test uses keys under an installation id of its own (UniqueName). BUDGETD_TEST_REDIS has its
// address; without it, the first call starts a server that ends with this process. A test that
// stops, configures or empties its server must use Redis instead.
func SharedRedis(tb testing.TB) *RedisServer {
	tb.Helper()
	server, err := sharedRedis()
	if err != nil {
		tb.Fatal(err)
	}
	return server
}

var sharedRedis = sync.OnceValues(func() (*RedisServer, error) {
	if addr := os.Getenv(redisVariable); addr != "" {
		server, err := borrowed("redis", addr)
		return &RedisServer{Server: server}, err
	}
	dir, err := Directory("redis")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	return StartRedis(ctx, dir)
})

var names atomic.Int64

// UniqueName returns a name that no other running test on this machine has, such as "t4711n3".
func UniqueName() string { return fmt.Sprintf("t%dn%d", os.Getpid(), names.Add(1)) }

// borrowed returns a server that another process has started.
func borrowed(name, addr string) (*Server, error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("testservers: the run's %s: %w", name, err)
	}
	port, err := strconv.Atoi(text)
	if err != nil || host != "127.0.0.1" {
		return nil, fmt.Errorf("testservers: the run's %s: %q is not 127.0.0.1:PORT", name, addr)
	}
	return &Server{program: program{name: name}, port: port, borrowed: true}, nil
}

// Lend starts a MariaDB and a Redis with their files below dir, an existing directory, and returns
// environment variables ("NAME=VALUE"). Test binaries with these variables share the two servers,
// and copy a fresh data directory for further MariaDBs instead of creating one each. ctx bounds the
// start only. The servers end with this process.
func Lend(ctx context.Context, dir string) (environment []string, err error) {
	pristine, shared := filepath.Join(dir, "pristine"), filepath.Join(dir, "mariadb")
	redisDir := filepath.Join(dir, "redis")
	for _, d := range []string{pristine, shared, redisDir} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, err
		}
	}
	if err := initialise(ctx, pristine); err != nil {
		return nil, err
	}
	if err := os.CopyFS(dataDir(shared), os.DirFS(dataDir(pristine))); err != nil {
		return nil, err
	}
	mariaDB, err := StartMariaDB(ctx, shared, MariaDBArgs("--innodb-buffer-pool-size=256M"))
	if err != nil {
		return nil, err
	}
	redis, err := StartRedis(ctx, redisDir)
	if err != nil {
		return nil, err
	}
	return []string{
		mariaDBVariable + "=" + mariaDB.Addr(),
		redisVariable + "=" + redis.Addr(),
		pristineVariable + "=" + pristine,
	}, nil
}
