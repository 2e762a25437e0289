package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// audited is two nodes on MariaDB and three Redis. A test changes rows in the database by hand.
type audited struct {
	*cluster
	nodes   []*node
	clients []*client.Client
	rows    *sql.DB
	ctl     string
	// callers do not retry. loads counts the loads, so that their ids differ.
	callers []*client.Client
	loads   atomic.Int64
}

func newAudited(t *testing.T) *audited {
	t.Helper()
	t.Setenv("BUDGETD_DEDUCT_DEADLINE", "1s") // the duration of calls to the halted bucket
	w := &audited{cluster: newCluster(t), ctl: testservers.Program(t, "budgetctl")}
	var err error
	dsn := regexp.MustCompile(`dsn: "([^"]+)"`).FindStringSubmatch(w.text)[1]
	if w.rows, err = sql.Open("mysql", dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.rows.Close() })
	for range 2 {
		n := w.start(t)
		w.nodes, w.clients = append(w.nodes, n), append(w.clients, n.client())
		w.callers = append(w.callers, n.clientWith(client.Retry{Attempts: 1}))
	}
	return w
}

// halted lists the keys of a budget's buckets that are or were halted.
func (w *audited) halted(t *testing.T, name string) string {
	t.Helper()
	var keys string
	err := w.rows.QueryRow(`SELECT COALESCE(GROUP_CONCAT(DISTINCT b.sharding_bucket_key), '')
		FROM sharding_budget_management_bucket b JOIN budget_management_bucket u ON u.id = b.budget_id
		JOIN bucket_epoch e ON e.bucket_id = b.id WHERE u.name = ? AND LENGTH(e.halted) > 0`, name).Scan(&keys)
	must(t, err)
	return keys
}

// audit runs `budgetctl audit` and returns its exit status.
func (w *audited) audit(t *testing.T, name string) int {
	t.Helper()
	out, err := exec.Command(w.ctl, "audit", name, "--server", "http://"+w.nodes[0].addr).CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("budgetctl audit %s:\n%s", name, out)
	if ended != nil {
		return ended.ExitCode()
	}
	return 0
}

// load deducts from a budget through both nodes until stop is called.
func (w *audited) load(t *testing.T, name string) (accepted *atomic.Int64, stop func()) {
	accepted, stopped, run := new(atomic.Int64), make(chan struct{}), w.loads.Add(1)
	var all sync.WaitGroup
	for caller := range 2 {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stopped:
					return
				default:
				}
				id := fmt.Sprintf("load-%d-%d-%d", run, caller, i)
				_, err := w.callers[(caller+i)%2].Deduct(context.Background(), name,
					client.DeductRequest{RequestID: id, Amount: int64(1 + i%5)})
				switch code := client.CodeOf(err); {
				case err == nil:
					accepted.Add(1)
				case code != budget.Unavailable && code != budget.OutcomeUnknown:
					t.Errorf("%s: %v", id, err)
				}
			}
		})
	}
	return accepted, func() { close(stopped); all.Wait() }
}

// scraped returns the sum of a metric over the nodes.
func (w *audited) scraped(t *testing.T, name string) (sum float64) {
	t.Helper()
	for _, n := range w.nodes {
		answer, err := http.Get("http://" + n.addr + "/metrics")
		must(t, err)
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		must(t, err)
		for line := range strings.Lines(string(text)) {
			if value, found := strings.CutPrefix(line, name+" "); found {
				v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				must(t, err)
				sum += v
			}
		}
	}
	return sum
}

// TestAuditHaltsOneBucket checks, under load, that a unit changed by hand in a column or in a row
// of the ledger halts its bucket and no other. The bucket stays halted until an operator has
// repaired the figure and lifted the halt. The documents promise a halt within 2 s; the bound
// here leaves room for a busy machine.
func TestAuditHaltsOneBucket(t *testing.T) {
	w := newAudited(t)
	t.Run("column", func(t *testing.T) {
		const plus = `UPDATE bucket_epoch SET used_quantity = used_quantity + ? WHERE ` + newestOf
		w.tampered(t, "column", func(key string) { w.exec(t, plus, 1, key) })
		w.repaired(t, "column", func(key string) { w.exec(t, plus, -1, key) })
	})
	t.Run("row", func(t *testing.T) {
		w.tampered(t, "row", func(key string) {
			w.exec(t, `DELETE FROM deduction WHERE `+newestOf+` ORDER BY counted_at DESC LIMIT 1`, key)
		})
	})
}

// tampered changes a figure of a bucket under load and checks what an operator sees.
func (w *audited) tampered(t *testing.T, name string, change func(key string)) {
	t.Helper()
	create(t, w.clients[0], name, 1_000_000, 6)
	accepted, stop := w.load(t, name)
	defer stop()
	key := name + ":bucket-0"
	eventually(t, time.Minute, "rows in the bucket", func() error { return w.hasRows(key) })
	change(key)
	began := time.Now()
	eventually(t, 15*time.Second, "the bucket is halted", func() error {
		if w.halted(t, name) == "" {
			return errors.New("not halted")
		}
		return nil
	})
	t.Logf("halted after %s", time.Since(began))
	sold := accepted.Load()
	eventually(t, time.Minute, "the other buckets continue to serve", func() error {
		if n := accepted.Load() - sold; n < 30 {
			return fmt.Errorf("%d accepted", n)
		}
		return nil
	})
	if got := w.halted(t, name); got != key {
		t.Errorf("the halted buckets are %q, want %s alone", got, key)
	}
	for _, name := range []string{"budgetd_audit_discrepancies", "budgetd_conservation_gap_units"} {
		if got := w.scraped(t, name); got < 1 {
			t.Errorf("%s is %v", name, got)
		}
	}
	list, err := w.clients[1].Buckets(context.Background(), name)
	must(t, err)
	for _, b := range list.Buckets {
		if (b.Halted != "") != (b.Key == key) {
			t.Errorf("%s: halted %q", b.Key, b.Halted)
		}
	}
	if status := w.audit(t, name); status != 4 {
		t.Errorf("budgetctl audit exits with %d, want 4", status)
	}
}

// repaired repairs a halted bucket as docs/OPERATIONS.md says: first the figure, then the halt.
func (w *audited) repaired(t *testing.T, name string, repair func(key string)) {
	t.Helper()
	key := name + ":bucket-0"
	before := w.bucket(t, name, key)
	repair(key)
	if status := w.audit(t, name); status != 0 {
		t.Errorf("budgetctl audit exits with %d after the repair", status)
	}
	if b := w.bucket(t, name, key); b.Halted == "" {
		t.Errorf("the halt was lifted without an operator: %+v", b)
	}
	w.exec(t, `UPDATE bucket_epoch SET halted = '' WHERE `+newestOf, key)
	_, stop := w.load(t, name)
	defer stop()
	eventually(t, time.Minute, "the repaired bucket serves again", func() error {
		if b := w.bucket(t, name, key); b.Halted != "" || b.Epoch != before.Epoch || b.Used <= before.Used {
			return fmt.Errorf("%+v, before %+v", b, before)
		}
		return nil
	})
}

// bucket reads one bucket.
func (w *audited) bucket(t *testing.T, name, key string) client.Bucket {
	t.Helper()
	list, err := w.clients[1].Buckets(context.Background(), name)
	must(t, err)
	for _, b := range list.Buckets {
		if b.Key == key {
			return b
		}
	}
	t.Fatalf("no bucket %s in %+v", key, list.Buckets)
	return client.Bucket{}
}

// newestOf is the condition for rows of the present epoch of a bucket.
const newestOf = `(bucket_id, epoch) = (SELECT b.id, b.epoch FROM sharding_budget_management_bucket b
	WHERE b.sharding_bucket_key = ?)`

func (w *audited) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	done, err := w.rows.Exec(query, args...)
	must(t, err)
	if n, err := done.RowsAffected(); n != 1 || err != nil {
		t.Fatalf("%s: %d rows, %v", query, n, err)
	}
}

func (w *audited) hasRows(key string) error {
	var n int
	err := w.rows.QueryRow(`SELECT COUNT(*) FROM deduction WHERE `+newestOf, key).Scan(&n)
	if err != nil || n < 5 {
		return fmt.Errorf("%d rows, %v", n, err)
	}
	return nil
}
