package daemon_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/internal/daemon"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestCheckConfigConnects checks that --check-config --connect connects to the database and every
// instance, and that it accepts the parameters that tutorials put into a DSN.
func TestCheckConfigConnects(t *testing.T) {
	redis := testservers.Redis(t)
	weak := testservers.MariaDB(t, testservers.FlushLogAtTrxCommit(2))
	dsn := testservers.SharedMariaDB(t).NewDatabase(t) + "?charset=utf8mb4&parseTime=True&loc=Local"
	config := func(text string) string {
		file := filepath.Join(t.TempDir(), "budgetd.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	instances := func(second string) string {
		return fmt.Sprintf("database: {driver: mysql, dsn: %q, connect_timeout: 0s}\ninstances:\n"+
			"  - {name: here, driver: redis, addrs: [%q]}\n  - {name: there, driver: redis, addrs: [%q]}\n",
			dsn, redis.Addr(), second)
	}
	for _, test := range []struct {
		name, config string
		args         []string
		status       int
		says         string
	}{
		{"everything is up", instances(redis.Addr()), []string{"--connect"}, 0, "config ok"},
		{"what a start would warn of", fmt.Sprintf("database: {driver: mysql, dsn: %q}\n", weak.NewDatabase(t)),
			[]string{"--connect"}, 0, `msg="setting of the database"`},
		{"an instance is down", instances("127.0.0.1:1"), []string{"--connect"}, 1, "instance there/0"},
		{"an instance is down, without --connect", instances("127.0.0.1:1"), nil, 0, "config ok"},
		{"the database is down", "database: {driver: mysql, dsn: 'u:p@tcp(127.0.0.1:1)/d', connect_timeout: 0s}",
			[]string{"--connect"}, 1, "database"},
		{"no database in the DSN", "database: {driver: mysql, dsn: 'u:p@tcp(h:3306)/'}", nil, 2, "names no database"},
		{"open on purpose", "listen: 0.0.0.0:8080\nauth: none", []string{"--insecure-listen"}, 0,
			"warning: listen 0.0.0.0:8080 is open: everybody who reaches it may do everything"},
		{"open by mistake", "listen: 0.0.0.0:8080\nauth: none", nil, 2, "--insecure-listen"},
	} {
		file := config(test.config)
		var out, log testservers.Text
		args := append([]string{"--config", file, "--check-config"}, test.args...)
		status := daemon.Run(t.Context(), args, nil, &out, &log)
		if said := out.String() + log.String(); status != test.status || !strings.Contains(said, test.says) {
			t.Errorf("%s: exit status %d, %s", test.name, status, said)
		}
	}
}

// TestOpenToEverybody checks that a start with --insecure-listen logs a warning.
func TestOpenToEverybody(t *testing.T) {
	p := start(t, []string{"--insecure-listen"}, "BUDGETD_AUTH=none", "BUDGETD_LISTEN=0.0.0.0:0")
	if said := p.log.String(); !strings.Contains(said, "level=WARN msg=\"unsafe configuration\"") ||
		!strings.Contains(said, "is open: everybody who reaches it may do everything") {
		t.Error("the start logs no warning")
	}
}

// TestFirstAdministratorFromAFile checks that the key in keys.first_admin_file becomes an
// administrator's if the database has no keys, and is ignored if it has.
func TestFirstAdministratorFromAFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "first")
	environ := []string{"BUDGETD_AUTH=keys", "BUDGETD_KEYS_FIRST_ADMIN_FILE=" + file,
		"BUDGETD_DATABASE_DSN=" + filepath.Join(dir, "budgetd.db")}
	keep := func() string {
		token, err := access.NewToken(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(token.Reveal()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return token.Reveal()
	}
	status := func(p *process, token string) int {
		request, err := http.NewRequest("GET", p.url+"/v1/keys", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	first := keep()
	p := start(t, nil, environ...)
	if got := status(p, first); got != 200 {
		t.Errorf("the first key gets %d, want 200", got)
	}
	p.signal()
	p.ended()
	second := keep()
	p = start(t, nil, environ...)
	if a, b := status(p, first), status(p, second); a != 200 || b != 401 {
		t.Errorf("with another file: the first key gets %d, the second %d; want 200, 401", a, b)
	}
	if strings.Contains(p.log.String(), second) {
		t.Error("the key is logged")
	}
	p.signal()
	p.ended()
	if err := os.WriteFile(file, []byte("bdg_nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := launch(t, nil, environ...).ended(); got != 1 {
		t.Errorf("with an invalid key in the file: exit status %d, want 1", got)
	}
}
