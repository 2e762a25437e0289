package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/config"
	"github.com/budgetd/budgetd/internal/metrics"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestReadyMeansAsked checks that a node is ready only when every store was asked once, whatever it
// answered, and that a budget in store mode can be created then.
func TestReadyMeansAsked(t *testing.T) {
	for name, test := range map[string]struct {
		addr string
		up   bool
	}{"a Redis": {testservers.Redis(t).Addr(), true}, "a Redis that is down": {"127.0.0.1:1", false}} {
		t.Run(name, func(t *testing.T) {
			ctx, log, file := t.Context(), slog.New(slog.DiscardHandler), filepath.Join(t.TempDir(), "budgetd.yaml")
			ok := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			ok(os.WriteFile(file, []byte("database: {dsn: "+filepath.Join(t.TempDir(), "budgetd.db")+
				"}\ninstances: [{name: r1, driver: redis, addrs: ['"+test.addr+"']}]\n"), 0o600))
			c, err := config.Load(file, nil)
			ok(err)
			b, err := open(ctx, c, log)
			ok(err)
			defer b.close(log)
			n, err := b.service(c, log, metrics.New("test"), nil)
			ok(err)
			if reasons := n.Ready(ctx); len(reasons) != 1 || !strings.Contains(reasons[0], "stores") {
				t.Errorf("no store was asked yet, and it is not ready for %q", reasons)
			}
			sync := slices.IndexFunc(n.work, func(l loop) bool { return l.name == "store sync" })
			if err := n.work[sync].once(ctx); (err == nil) != test.up {
				t.Error(err)
			}
			if reasons := n.Ready(ctx); len(reasons) != 0 {
				t.Errorf("every store was asked, and it is not ready for %q", reasons)
			}
			_, _, err = n.Create(ctx, budget.Definition{Tenant: "default", Name: "sale", Type: budget.Promo, Unit: budget.Count,
				Durability: budget.Store, TotalQuantity: 100})
			if (err == nil) != test.up {
				t.Errorf("a create in store mode: %v", err)
			}
		})
	}
}
