package auditor

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/budgetd/budgetd"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// done are rows of a budget without unfinished work.
var done = []string{
	`INSERT INTO store_partition (instance, partition_number, incarnation, since_incarnation) VALUES ('r', 0, 3, 3)`,
	`INSERT INTO budget_management_bucket (id, name, durability, total_quantity, out_quantity,
		roll_over_ms) VALUES (1, 'b', 'store', 10, 10, 0)`,
	`INSERT INTO sharding_budget_management_bucket (id, budget_id, instance, status, epoch)
		VALUES (7, 1, 'r', 'online', 2)`,
	`INSERT INTO bucket_epoch (bucket_id, epoch, budget_id, status, incarnation, outstanding_quantity)
		VALUES (7, 1, 1, 'closed', 2, 0), (7, 2, 1, 'open', 3, 10)`,
	`INSERT INTO grant_log (bucket_id, epoch, number, budget_id, kind, amount, status)
		VALUES (7, 2, 1, 1, 'apply', 10, 'done')`,
	`INSERT INTO adjustment (budget_id, request_id, quantity, status) VALUES (1, 'a', -3, 'done')`,
}

// halves are statements by the kind of work that each of them leaves unfinished.
var halves = map[string]string{
	"epochs opening or closing": `UPDATE bucket_epoch SET status = 'closing' WHERE epoch = 2`,
	"halted epochs":             `UPDATE bucket_epoch SET halted = 'why' WHERE epoch = 2`,
	"buckets without an epoch": `UPDATE budget_management_bucket t,
		sharding_budget_management_bucket b SET t.durability = 'ledger', b.epoch = 1`,
	"pending grants":                         `UPDATE grant_log SET status = 'pending'`,
	"pending shrinks":                        `UPDATE adjustment SET status = 'pending'`,
	"units of shrinks":                       `UPDATE budget_management_bucket SET pending_shrink_quantity = 1`,
	"returning units":                        `UPDATE bucket_epoch SET returning_quantity = 1 WHERE epoch = 1`,
	"units of ended epochs":                  `UPDATE bucket_epoch SET outstanding_quantity = 1 WHERE epoch = 1`,
	"epochs of an older incarnation":         `UPDATE store_partition SET incarnation = 4, since_incarnation = 4`,
	"buckets on partitions that are drained": `UPDATE store_partition SET is_draining = 1`,
	"budgets with units and all buckets retired": `UPDATE budget_management_bucket t,
		sharding_budget_management_bucket b SET t.undistributed_quantity = 1, t.out_quantity = 9,
		b.status = 'offline', b.offline_by = 'service'`,
}

// TestHalfDone checks that exactly the unfinished work in a ledger is found, by its name.
func TestHalfDone(t *testing.T) {
	dsn := testservers.SharedMariaDB(t).NewDatabase(t)
	// Columns without a value are 0 or empty.
	ledger, err := sql.Open("mysql", dsn+"?multiStatements=true&sql_mode=%27%27")
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	exec := func(statement string) {
		t.Helper()
		if _, err := ledger.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	plant := func() {
		for _, table := range []string{"store_partition", "budget_management_bucket", "sharding_budget_management_bucket",
			"bucket_epoch", "grant_log", "adjustment"} {
			exec("DELETE FROM " + table)
		}
		for _, statement := range done {
			exec(statement)
		}
	}
	want := func(what string) {
		t.Helper()
		found, err := HalfDone(context.Background(), ledger)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(found, "; "); what == "" && got != "" || what != "" && (len(found) != 1 ||
			got != "1 "+what) {
			t.Errorf("found %v, want 1 %s", found, what)
		}
	}
	exec(budgetd.Schema)
	plant()
	want("")
	for what, half := range halves {
		plant()
		exec(half)
		want(what)
	}
	for what := range unfinished {
		if halves[what] == "" {
			t.Errorf("no statement leaves %s", what)
		}
	}
}
