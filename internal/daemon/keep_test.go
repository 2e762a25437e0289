package daemon

import (
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/config"
	"github.com/budgetd/budgetd/internal/metrics"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/secret"
	"github.com/budgetd/budgetd/internal/sql/access"
)

// TestAuditLogIsKept checks that audit_log.keep removes only older rows, the oldest first, and that
// 0 keeps all of them.
func TestAuditLogIsKept(t *testing.T) {
	db, err := openDatabase(t.Context(), config.Database{Driver: config.SQLite,
		DSN: secret.New(filepath.Join(t.TempDir(), "budgetd.db"))}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	b := &access.AuditLog{DB: db, Refusals: new(auditlog.Refusals)}
	now := db.Now()
	for n, age := range []time.Duration{3 * time.Hour, 2 * time.Hour, time.Minute} {
		row := auditlog.Row{AtMS: now.Add(-age).UnixMilli(), Principal: "p", Op: []string{"old", "older", "young"}[n],
			Outcome: auditlog.Done}
		if err := b.Append(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		keep  time.Duration
		first string
	}{{0, "old"}, {4 * time.Hour, "old"}, {time.Hour, "young"}} {
		b.Keep = step.keep
		if err := b.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		page, err := b.Read(t.Context(), auditlog.Query{Limit: 10})
		if err != nil || len(page.Rows) == 0 || page.Rows[0].Op != step.first {
			t.Errorf("keep %s: %+v, %v", step.keep, page.Rows, err)
		}
	}
}

// TestScriptsAreCounted checks the metric of how many scripts a server keeps, and that 20
// incarnations need one script.
func TestScriptsAreCounted(t *testing.T) {
	server := testservers.Redis(t)
	redis, err := redisstore.New(redisstore.Config{Name: "r", Addr: server.Addr(), Partitions: 1, InstallationID: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = redis.Disconnect() }()
	m, partition := metrics.New("test"), bucket.Partition{Instance: "r"}
	count := (&backends{stores: map[string]*redisstore.Store{"r": redis}, partitions: []bucket.Partition{partition}}).countScripts(m)
	shown := func() string {
		if err := count(t.Context()); err != nil {
			t.Fatal(err)
		}
		answer := httptest.NewRecorder()
		m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
		_, text, _ := strings.Cut(answer.Body.String(), `budgetd_store_scripts{partition="0",store="r"} `)
		text, _, _ = strings.Cut(text, "\n")
		return text
	}
	if got := shown(); got != "0" {
		t.Errorf("%q scripts before the first call, want 0", got)
	}
	identity, err := redis.Identity(t.Context(), partition)
	if err != nil {
		t.Fatal(err)
	}
	for n := range int64(20) {
		if err := redis.Mark(t.Context(), bucket.Memory{Partition: partition, Identity: identity, Incarnation: n + 1}, n+1); err != nil {
			t.Fatal(err)
		}
	}
	if got := shown(); got != "1" {
		t.Errorf("%q scripts after 20 incarnations, want 1", got)
	}
}
