package e2e

import (
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestUnknownZone changes zones in the database to one that the node lacks, as a node of another
// release would know. Nothing is decided in another zone: calls are unavailable with a reason, which
// /readyz and the log name, and a budget of which nothing depends on it goes on. An audit of all
// budgets fails at its end. Once an operator gives a zone, everything goes on.
func TestUnknownZone(t *testing.T) {
	folder, world := t.TempDir(), newCluster(t)
	single, cluster := start(t, folder), world.start(t)
	for _, on := range []struct {
		name, driver, dsn string
		node              *node
		durability        budget.Durability
	}{
		{"sqlite", "sqlite", filepath.Join(folder, "data", "budgetd.db"), single, budget.Ledger},
		{"mariadb", "mysql", world.dsn, cluster, budget.Ledger},
		{"mariadb and redis", "mysql", world.dsn, cluster, budget.Store},
	} {
		t.Run(on.name, func(t *testing.T) {
			db, err := sql.Open(on.driver, on.dsn)
			must(t, err)
			defer db.Close()
			w := &zoneWorld{T: t, node: on.node, db: db, mode: string(on.durability)}
			w.create(on.durability)
			w.corrupt()
			w.refused()
			w.audited()
			w.repaired()
		})
	}
}

// zoneWorld is a node and its database. Its budgets are "day-", whose periods are in a zone,
// "limit-", with a limit in one, and "plain-", each with the mode.
type zoneWorld struct {
	*testing.T
	node *node
	db   *sql.DB
	mode string
}

func (w *zoneWorld) create(durability budget.Durability) {
	c := w.node.client()
	createBudget(w.T, c, client.CreateRequest{Name: "day-" + w.mode, Unit: budget.Count,
		Type: budget.Daily, Timezone: "Europe/Berlin", TotalQuantity: 100, BucketQuantity: 1,
		Durability: durability, TypeRule: &budget.Rule{Kind: budget.Calendar, Every: budget.Day,
			Quantity: 10, Unused: budget.Next}})
	createBudget(w.T, c, client.CreateRequest{Name: "limit-" + w.mode, Unit: budget.Count,
		Type: budget.Promo, TotalQuantity: 100, BucketQuantity: 1, Durability: durability,
		RoutingDimension: "user", Limits: []client.Limit{{Name: "daily", Dimension: "user", Max: 5,
			Measure: budget.MeasureCount, Window: client.Window{Kind: budget.WindowCalendar,
				Every: budget.Day, Timezone: "Europe/Berlin"}}}})
	createBudget(w.T, c, client.CreateRequest{Name: "plain-" + w.mode, Unit: budget.Count,
		Type: budget.Promo, TotalQuantity: 100, BucketQuantity: 1, Durability: durability})
	for _, name := range []string{"day-", "limit-", "plain-"} {
		must(w.T, w.deduct(name, "before"))
	}
}

// corrupt changes the zones, and makes the node read the budgets again.
func (w *zoneWorld) corrupt() {
	limited := hex.EncodeToString([]byte("limit-" + w.mode))
	for _, statement := range []string{
		`UPDATE budget_management_bucket SET timezone = 'Mars/Olympus', version = version + 1,
			roll_over_ms = 1 WHERE name = x'` + hex.EncodeToString([]byte("day-"+w.mode)) + `'`,
		`UPDATE budget_limit SET definition = REPLACE(definition, 'Europe/Berlin', 'Mars/Olympus')
			WHERE budget_id = (SELECT id FROM budget_management_bucket WHERE name = x'` + limited + `')`,
		`UPDATE budget_management_bucket SET version = version + 1, limits_version = limits_version + 1
			WHERE name = x'` + limited + `'`,
	} {
		eventually(w.T, 30*time.Second, "the row is changed", func() error {
			done, err := w.db.ExecContext(w.Context(), statement)
			if err != nil {
				return err
			}
			if n, err := done.RowsAffected(); err != nil || n != 1 {
				w.Fatalf("%s: %d rows, %v", statement, n, err)
			}
			return nil
		})
	}
	time.Sleep(1100 * time.Millisecond) // after which no node uses the former definition (I8)
}

func (w *zoneWorld) deduct(name, id string) error {
	c := w.node.clientWith(client.Retry{Attempts: 1})
	_, err := c.Deduct(w.Context(), name+w.mode, client.DeductRequest{RequestID: id,
		Amount: 1, Key: "u", Dimensions: map[string]string{"user": "u"}})
	return err
}

// refused checks what is refused while the zone is unknown.
func (w *zoneWorld) refused() {
	c, ctx := w.node.clientWith(client.Retry{Attempts: 1}), w.Context()
	unknown := func(what string, err error) {
		w.Helper()
		var p *client.Problem
		if !errors.As(err, &p) || p.Code != budget.Unavailable || p.Reason != "unknown_zone" ||
			!strings.Contains(p.Error(), "Mars/Olympus") {
			w.Errorf("%s: %v; want unavailable, unknown_zone", what, err)
		}
	}
	for _, name := range []string{"day-", "limit-"} {
		unknown(name+"deduct", w.deduct(name, "after"))
		answers, err := c.Check(ctx, []client.CheckItem{{Budget: name + w.mode, Amount: 1,
			Dimensions: map[string]string{"user": "u"}}})
		must(w.T, err)
		unknown(name+"check", answers[0].Err)
		_, err = c.Patch(ctx, name+w.mode, client.PatchRequest{Status: budget.Paused})
		unknown(name+"pause", err)
		if err := w.deduct(name, "before"); err != nil {
			w.Errorf("%srepeat of an accepted deduction: %v", name, err)
		}
		if b, err := c.Budget(ctx, name+w.mode); err != nil || b.Used != 1 || !b.NextResetAt.IsZero() {
			w.Errorf("%sget: %+v, %v", name, b, err)
		}
	}
	_, err := c.Append(ctx, "day-"+w.mode, client.AppendRequest{RequestID: "more", Quantity: 5})
	unknown("append", err)
	must(w.T, w.deduct("plain-", "after"))
	eventually(w.T, 30*time.Second, "/readyz names both zones", func() error {
		answer, err := http.Get("http://" + w.node.addr + "/readyz")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err == nil && (answer.StatusCode != http.StatusOK ||
			strings.Count(string(body), "Mars/Olympus") < 2) {
			err = fmt.Errorf("%d %s", answer.StatusCode, body)
		}
		return err
	})
	if !strings.Contains(w.node.log.String(), "Mars/Olympus") {
		w.Error("the log does not name the zone")
	}
}

// audited checks that an audit of all budgets fails after it has audited those that it can.
func (w *zoneWorld) audited() {
	ctl := &dailyWorld{T: w.T, nodes: []*node{w.node}, ctl: testservers.Program(w.T, "budgetctl")}
	status, said := ctl.run("audit --all")
	want, failed := 5, "budget limit-ledger was not audited"
	if w.mode == string(budget.Store) { // SQL has no counters that the audit would compare
		want, failed = 0, "limit-store"
	}
	if status != want || !strings.Contains(said, "plain-"+w.mode) || !strings.Contains(said, failed) {
		w.Errorf("audit --all: status %d\n%s", status, said)
	}
}

// repaired gives known zones, and checks that everything goes on.
func (w *zoneWorld) repaired() {
	c, ctx := w.node.client(), w.Context()
	_, err := c.Patch(ctx, "day-"+w.mode, client.PatchRequest{Timezone: "Europe/Berlin"})
	must(w.T, err)
	b, err := c.Budget(ctx, "limit-"+w.mode)
	must(w.T, err)
	b.Limits[0].Window.Timezone = "Europe/Berlin"
	_, err = c.Patch(ctx, "limit-"+w.mode, client.PatchRequest{Limits: b.Limits})
	must(w.T, err)
	for _, name := range []string{"day-", "limit-"} {
		must(w.T, w.deduct(name, "after"))
		checkBooks(w.T, c, name+w.mode, 100, 2)
	}
	if b, err = c.Budget(ctx, "day-"+w.mode); err != nil || b.Timezone != "Europe/Berlin" ||
		b.NextResetAt.IsZero() {
		w.Errorf("%+v, %v", b, err)
	}
	if answer, err := c.Deduct(ctx, "limit-"+w.mode, client.DeductRequest{RequestID: "last", Amount: 1,
		Key: "u", Dimensions: map[string]string{"user": "u"}}); err != nil || answer.Limits[0].Used < 2 {
		w.Errorf("%+v, %v", answer, err)
	}
}
