package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestRedisSettings checks that unsafe settings of a Redis are warned of once, with the remedy.
// Strict does not refuse them, because what they lose is quarantined.
func TestRedisSettings(t *testing.T) {
	redis := testservers.Redis(t) // without an append-only file
	file := filepath.Join(t.TempDir(), "redis.yaml")
	text := fmt.Sprintf("instances:\n  - {name: redis-a, driver: redis, addrs: [%q]}\n", redis.Addr())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, strict := range []string{"false", "true"} {
		const mend = "CONFIG SET appendonly yes"
		dsn := "BUDGETD_DATABASE_DSN=" + filepath.Join(t.TempDir(), "data", "budgetd.db")
		p := start(t, []string{"--config", file}, "BUDGETD_STRICT="+strict, dsn)
		p.create("sale")
		for n := range 2 {
			status, body := 503, ""
			for tries := 0; status == 503 && tries < 100; tries++ { // until the partition is verified
				time.Sleep(100 * time.Millisecond)
				status, body = p.ask("POST", "/v1/budgets", fmt.Sprintf(`{"name":"stored-%d","unit":"count",`+
					`"type":"promo","total_quantity":10,"durability":"store"}`, n))
			}
			if status != 201 {
				t.Errorf("create: %d %s", status, body)
			}
		}
		if n := strings.Count(p.log.String(), mend); n != 1 {
			t.Errorf("%d warnings:\n%s", n, p.log)
		}
		if status, body := p.ask("POST", "/v1/budgets/sale/deduct", `{"request_id":"o1","amount":7}`); status != 200 {
			t.Errorf("deduct: %d %s", status, body)
		}
		if _, body := p.ask("GET", "/v1/instances", ""); !strings.Contains(body, `"driver":"redis","health":"up"`) {
			t.Error(body)
		}
		p.signal()
		p.ended()
		again := start(t, []string{"--config", file}, dsn)
		if n := strings.Count(again.log.String(), mend); n != 1 {
			t.Errorf("%d warnings at the next start:\n%s", n, again.log)
		}
		again.signal()
		again.ended()
	}
}

// TestDatabaseSettings checks that a database that does not flush at every commit is warned of, and
// refused with strict.
func TestDatabaseSettings(t *testing.T) {
	server := testservers.MariaDB(t, testservers.FlushLogAtTrxCommit(2))
	environ := []string{"BUDGETD_DATABASE_DRIVER=mysql", "BUDGETD_DATABASE_DSN=" + server.NewDatabase(t)}
	const mend = "innodb_flush_log_at_trx_commit=2: a crash of the server may lose commits"
	if p := start(t, nil, environ...); !strings.Contains(p.log.String(), mend) {
		t.Error("no warning")
	}
	strict := launch(t, nil, append(environ, "BUDGETD_STRICT=true")...)
	if status := strict.ended(); status != 1 || !strings.Contains(strict.log.String(), "strict: "+mend) {
		t.Errorf("exit status %d: %s", status, strict.log)
	}
}

// TestInstanceDown checks that ledger mode and the other instances serve while one instance is down,
// and that a budget is placed on the others.
func TestInstanceDown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "redis.yaml")
	text := fmt.Sprintf("instances: [{name: redis-a, addrs: ['127.0.0.1:1']}, {name: redis-b, addrs: [%q]}]\n",
		testservers.Redis(t).Addr())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, []string{"--config", file})
	p.create("sale")
	if status, body := p.ask("POST", "/v1/budgets/sale/deduct", `{"request_id":"o1","amount":7}`); status != 200 {
		t.Errorf("deduct: %d %s", status, body)
	}
	_, body := p.ask("GET", "/v1/instances", "")
	if !strings.Contains(body, `"redis-a","driver":"redis","health":"down"`) || !strings.Contains(body, `"redis-b","driver":"redis","health":"up"`) {
		t.Error(body)
	}
}
