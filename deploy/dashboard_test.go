package deploy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/deploy"
	"github.com/budgetd/budgetd/internal/daemon"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

var update = flag.Bool("update", false, "write grafana/budgetd.json")

const dashboardFile = "grafana/budgetd.json"

// TestDashboardIsCurrent checks that the committed dashboard is what the generator makes.
func TestDashboardIsCurrent(t *testing.T) {
	made := deploy.Dashboard()
	if *update {
		if err := os.WriteFile(dashboardFile, made, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, committed) {
		t.Errorf("%s is not what the generator makes: go test ./deploy -update", dashboardFile)
	}
}

// TestEachPanelHasData runs the queries of the committed dashboard against a Prometheus that scrapes
// a budgetd with two Redis, one of which has died, while callers deduct.
func TestEachPanelHasData(t *testing.T) {
	server := serve(t)
	prometheus := scrape(t, server)
	for title, queries := range panelsOf(t) {
		for _, query := range queries {
			prometheus.await(t, title, query)
		}
	}
}

// panelsOf reads the queries of each panel.
func panelsOf(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			out[p.Title] = append(out[p.Title], strings.NewReplacer("$__rate_interval", "10s",
				"$budget", "sale|tickets").Replace(target.Expr))
		}
		if p.Type != "row" && len(out[p.Title]) == 0 {
			t.Errorf("panel %q has no query", p.Title)
		}
	}
	if len(out) < 25 {
		t.Errorf("only %d panels", len(out))
	}
	return out
}

// written is the output of a process.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

// await waits for a match of a pattern in the output and returns its first group.
func (w *written) await(t *testing.T, pattern *regexp.Regexp) string {
	t.Helper()
	for range 1200 {
		w.mu.Lock()
		found := pattern.FindSubmatch(w.text.Bytes())
		w.mu.Unlock()
		if found != nil {
			return string(found[1])
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("the output has no %s:\n%s", pattern, w.text.String())
	return ""
}

// serve runs a budgetd with a budget in each mode and callers who deduct, and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	dying := testservers.Redis(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	config := fmt.Sprintf(`listen: 127.0.0.1:0
database: {driver: sqlite, dsn: %s}
instances:
  - {name: redis-a, driver: redis, addrs: [%q]}
  - {name: redis-b, driver: redis, addrs: [%q]}
`, filepath.Join(dir, "budgetd.db"), testservers.SharedRedis(t).Addr(), dying.Addr())
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	log, status := new(written), make(chan int, 1)
	go func() { status <- daemon.Run(ctx, []string{"--config", file}, nil, io.Discard, log) }()
	t.Cleanup(func() { cancel(); <-status })
	addr := log.await(t, regexp.MustCompile(`msg=listening addr=(\S+)`))
	c, err := client.New("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]budget.Durability{"sale": budget.Ledger, "tickets": budget.Store} {
		if _, err := c.Create(ctx, client.CreateRequest{Name: name, Unit: budget.Count, Type: budget.Promo,
			Durability: mode, TotalQuantity: 1_000_000, BucketQuantity: 4}); err != nil {
			t.Fatal(err)
		}
	}
	if err := dying.Kill(); err != nil {
		t.Fatal(err)
	}
	call(ctx, t, c)
	return addr
}

// call deducts in both modes until the test ends: one unit, and more than the budget has.
func call(ctx context.Context, t *testing.T, c *client.Client) {
	ctx, cancel := context.WithCancel(ctx)
	var callers sync.WaitGroup
	t.Cleanup(func() { cancel(); callers.Wait() })
	callers.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			id := strconv.Itoa(i)
			for suffix, amount := range map[string]int64{"": 1, "-too-much": 2_000_000} {
				// On a busy machine the answer may be "unavailable"; the panels show what was counted.
				for _, name := range []string{"sale", "tickets"} {
					_, _ = c.Deduct(ctx, name, client.DeductRequest{RequestID: id + suffix, Amount: amount, Key: id})
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// prometheus is a running Prometheus.
type prometheus struct{ url string }

// scrape runs a Prometheus that scrapes an address.
func scrape(t *testing.T, addr string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	config := fmt.Sprintf(`global: {scrape_interval: 1s}
scrape_configs: [{job_name: budgetd, static_configs: [{targets: [%q]}]}]
`, addr)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	log := new(written)
	process := exec.Command("prometheus", "--config.file="+file, "--storage.tsdb.path="+dir,
		"--web.listen-address=127.0.0.1:0", "--enable-feature=exemplar-storage")
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	return &prometheus{"http://" + log.await(t, regexp.MustCompile(`Listening on"? address=(127\.0\.0\.1:[1-9]\d*)`))}
}

// await waits until a query finds a number.
func (p *prometheus) await(t *testing.T, title, query string) {
	t.Helper()
	var last string
	for range 300 {
		var found bool
		if found, last = p.finds(query); found {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Errorf("%s: the query %s has no result: %s", title, query, last)
}

// finds reports whether a query finds a number, and returns the number or else the answer.
func (p *prometheus) finds(query string) (bool, string) {
	answer, err := http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return false, err.Error()
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	var got struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if json.Unmarshal(text, &got) != nil {
		return false, string(text)
	}
	for _, r := range got.Data.Result {
		value, _ := r.Value[1].(string)
		if n, err := strconv.ParseFloat(value, 64); err == nil && !math.IsNaN(n) {
			return true, value
		}
	}
	return false, string(text)
}
