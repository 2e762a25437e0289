package drill

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// sandbox holds the servers of a drill, all on 127.0.0.1, and the directory with their files.
type sandbox struct {
	dir     string
	mariadb *process // nil with SQLite
	redis   []*process
	nodes   []*process
}

var (
	redisReady   = regexp.MustCompile(`Ready to accept connections`)
	mariadbReady = regexp.MustCompile(`ready for connections`)
	nodeReady    = regexp.MustCompile(`listening.*addr=(127\.0\.0\.1:\d+)`)
)

// programs are the paths of the programs that the sandbox runs; "" for those it leaves out.
type programs struct{ budgetd, mariadbd, installer, redis string }

// find looks for the programs. It returns notes about those that are missing and left out.
func find(o Options) (found programs, notes []string, err error) {
	beside, _ := os.Executable() // if that fails, only PATH is searched
	names := []string{filepath.Join(filepath.Dir(beside), "budgetd"), "budgetd"}
	if o.Budgetd != "" {
		names = []string{o.Budgetd}
	}
	if found.budgetd = firstProgram(names...); found.budgetd == "" {
		return found, nil, fmt.Errorf("none of %s is a program: name budgetd with --budgetd PATH",
			strings.Join(names, ", "))
	}
	if !o.SQLite {
		found.mariadbd = firstProgram("mariadbd", "/usr/sbin/mariadbd", "/usr/local/sbin/mariadbd")
		found.installer = firstProgram("mariadb-install-db")
		if found.mariadbd == "" || found.installer == "" {
			found.mariadbd = ""
			notes = append(notes, "mariadbd is not installed (Debian: apt-get install mariadb-server): "+
				"the drill uses SQLite and one budgetd instead.")
		}
	}
	if !o.NoRedis {
		if found.redis = firstProgram("redis-server"); found.redis == "" {
			notes = append(notes, "redis-server is not installed (Debian: apt-get install redis-server): "+
				"no Redis is wiped or set back, and store mode is left out.")
		}
	}
	return found, notes, nil
}

// firstProgram returns the absolute path of the first of the programs that exists, or "".
func firstProgram(names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			if path, err = filepath.Abs(path); err == nil {
				return path
			}
		}
	}
	return ""
}

// build starts all servers. Close the sandbox also after an error.
func (s *sandbox) build(ctx context.Context, with programs) error {
	var config strings.Builder
	fmt.Fprintf(&config, "listen: 127.0.0.1:0\nlog: {format: text}\ndatabase:\n")
	nodes := []string{"budgetd-a"}
	if with.mariadbd == "" {
		fmt.Fprintf(&config, "  dsn: %q\n", filepath.Join(s.dir, "budgetd.db"))
	} else {
		nodes = append(nodes, "budgetd-b")
		if err := s.startMariaDB(ctx, with); err != nil {
			return err
		}
		fmt.Fprintf(&config, "  driver: mysql\n  dsn: root@tcp(%s)/budgetd\n", s.mariadb.wire.address())
	}
	if with.redis != "" {
		config.WriteString("instances:\n")
		for _, name := range []string{"redis-a", "redis-b"} {
			p, err := s.start(ctx, &s.redis, name, redisReady, func(port int) []string {
				return []string{with.redis, "--bind", "127.0.0.1", "--port", strconv.Itoa(port),
					"--save", "", "--appendonly", "yes", "--appendfsync", "always",
					// Without automatic rewrites, a copy of the file is consistent.
					"--auto-aof-rewrite-percentage", "0"}
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(&config, "  - {name: %s, driver: redis, addrs: [%q]}\n", name, p.wire.address())
		}
	}
	file := filepath.Join(s.dir, "budgetd.yaml")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		return err
	}
	for _, name := range nodes {
		if _, err := s.start(ctx, &s.nodes, name, nodeReady, func(int) []string {
			return []string{with.budgetd, "--config", file}
		}); err != nil {
			return err
		}
	}
	return nil
}

// start starts a server. It first adds it to a list, because the server may run even if start
// fails.
func (s *sandbox) start(ctx context.Context, list *[]*process, name string, ready *regexp.Regexp,
	command func(port int) []string,
) (*process, error) {
	wire, err := newWire()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, dir: filepath.Join(s.dir, name), wire: wire, ready: ready,
		command: command}
	*list = append(*list, p)
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, err
	}
	return p, p.start(ctx)
}

func (s *sandbox) startMariaDB(ctx context.Context, with programs) error {
	var asRoot []string
	if os.Geteuid() == 0 {
		asRoot = []string{"--user=root"} // otherwise MariaDB refuses to run as root
	}
	data, first := filepath.Join(s.dir, "mariadb", "data"), filepath.Join(s.dir, "first.sql")
	if err := os.MkdirAll(filepath.Dir(data), 0o700); err != nil {
		return err
	}
	install := exec.CommandContext(ctx, with.installer, append([]string{"--no-defaults",
		"--datadir=" + data, "--auth-root-authentication-method=normal", "--skip-name-resolve",
		"--skip-test-db"}, asRoot...)...)
	install.SysProcAttr = apart()
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w\n%s", err, lastLines(string(out)))
	}
	err := os.WriteFile(first, []byte("CREATE DATABASE IF NOT EXISTS budgetd;\n"), 0o600)
	if err != nil {
		return err
	}
	var list []*process
	_, err = s.start(ctx, &list, "mariadb", mariadbReady, func(port int) []string {
		return append([]string{with.mariadbd, "--no-defaults", "--datadir=" + data,
			"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(port), "--socket=mariadb.sock",
			"--skip-name-resolve", "--innodb-flush-log-at-trx-commit=1",
			"--innodb-buffer-pool-size=64M", "--init-file=" + first, "--lc-messages=en_US"}, asRoot...)
	})
	if len(list) > 0 {
		s.mariadb = list[0]
	}
	return err
}

// all returns every started server, the nodes first.
func (s *sandbox) all() []*process {
	all := append(append([]*process{}, s.nodes...), s.redis...)
	if s.mariadb != nil {
		all = append(all, s.mariadb)
	}
	return all
}

// close kills all servers. It removes their files unless keep is set.
func (s *sandbox) close(keep bool) error {
	for _, p := range s.all() {
		p.kill()
		_ = p.wire.listener.Close() // all callers have stopped
	}
	if keep {
		return nil
	}
	return os.RemoveAll(s.dir)
}
