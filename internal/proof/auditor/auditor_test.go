package auditor

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/budgetd/budgetd"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// sound are the rows of two budgets without an error: "ledger" of 120 units with a closed and
// an open epoch, and "store" of 100 units with a lost and an open one.
const sound = `
INSERT INTO budget_management_bucket (id, name, tenant, durability, total_quantity,
	undistributed_quantity, quarantined_quantity, out_quantity) VALUES
	(1, 'ledger', 'a', 'ledger', 120, 60, 0, 60), (2, 'store', 'a', 'store', 100, 35, 15, 65);
INSERT INTO adjustment (budget_id, request_id, quantity, status) VALUES
	(1, '', 100, 'done'), (1, 'more', 20, 'done'), (1, 'no', -90, 'refused'), (2, '', 100, 'done');
INSERT INTO sharding_budget_management_bucket (id, budget_id, ordinal, instance, status, epoch) VALUES
	(7, 1, 0, 'r', 'online', 2), (8, 2, 0, 'r', 'online', 2);
INSERT INTO bucket_epoch (bucket_id, epoch, budget_id, status, outstanding_quantity, held_quantity,
	used_quantity, returning_quantity, closed_quantity, swept_quantity, next_grant, next_entry,
	taken_quantity, given_back_quantity) VALUES
	(7, 1, 1, 'closed', 0, 0, 20, 0, 10, 0, 2, 2, 0, 0),
	(7, 2, 1, 'open', 24, 3, 12, 1, 0, 0, 3, 9, 0, 0),
	(8, 1, 2, 'lost', 0, 0, 10, 0, 20, 0, 2, 1, 12, 2),
	(8, 2, 2, 'open', 30, 0, 10, 0, 0, 0, 2, 1, 15, 5);
INSERT INTO grant_log (bucket_id, epoch, number, budget_id, kind, amount, status) VALUES
	(7, 1, 1, 1, 'apply', 30, 'done'), (7, 2, 1, 1, 'apply', 25, 'done'),
	(7, 2, 2, 1, 'apply', 15, 'done'), (8, 1, 1, 2, 'apply', 30, 'done'),
	(8, 2, 1, 2, 'apply', 40, 'done');
INSERT INTO deduction (budget_id, request_id, bucket_id, epoch, amount) VALUES
	(1, 'old', 7, 1, 20), (1, 'plain', 7, 2, 5), (1, 'part', 7, 2, 6), (1, 'held', 7, 2, 3),
	(1, 'back', 7, 2, 4), (1, 'void', 0, 0, 0), (1, x'0273', 7, 2, 0);
INSERT INTO deduction (budget_id, request_id, note) VALUES (0, x'610073', x'04000000000003010708');
INSERT INTO hold (budget_id, request_id, state, due_ms, bucket_id, epoch) VALUES
	(1, 'held', 'held', 9, 7, 2);
INSERT INTO give_back (budget_id, request_id, kind, rollback_id, amount, is_direct, bucket_id, epoch)
	VALUES (1, 'part', 'rollback', 'x', 2, 1, 7, 2), (1, 'back', 'rollback', 'x', 1, 0, 7, 2);
INSERT INTO feed (bucket_id, first_entry, entries, units) VALUES (7, 1, 1, 20), (7, 2, 7, 15);
INSERT INTO quarantine (bucket_id, epoch, budget_id, quantity, released_quantity) VALUES
	(8, 1, 2, 20, 5);
INSERT INTO quarantine_release (budget_id, request_id, bucket_id, epoch, quantity, goes_to) VALUES
	(2, 'free', 8, 1, 5, 'total')`

const extraOfPart = `INSERT INTO extra (budget_id, request_id, number, bucket_id, epoch, amount,
	back_quantity) VALUES`

// planted are statements that each plant one error, and a part of the message that must report it.
var planted = []struct{ name, statement, found string }{
	{"nothing", "", ""},
	{"a unit too many in O", `UPDATE bucket_epoch SET outstanding_quantity = 25 WHERE status = 'open'
		AND budget_id = 1`, "ledger: O of epoch 2 of bucket 7 is 25, by the rows 24"},
	{"a unit is lost", `UPDATE bucket_epoch SET used_quantity = 11 WHERE bucket_id = 7 AND epoch = 2`,
		"ledger: S of epoch 2 of bucket 7 is 11, by the rows 12"},
	{"a hold is lost", `DELETE FROM hold`, "ledger: H of epoch 2 of bucket 7 is 3, by the rows 0"},
	{"a unit moves from used to held", `UPDATE bucket_epoch SET used_quantity = 11, held_quantity = 4
		WHERE bucket_id = 7 AND epoch = 2`, "ledger: H of epoch 2 of bucket 7 is 4, by the rows 3"},
	{"a returning unit is lost", `UPDATE bucket_epoch SET returning_quantity = 0`,
		"ledger: R of epoch 2 of bucket 7 is 0, by the rows 1"},
	{"a duplicate deduction", `INSERT INTO deduction (budget_id, request_id, bucket_id, epoch,
		amount) VALUES (1, 'plain again', 7, 2, 5)`, "ledger: S of epoch 2 of bucket 7 is 12, by the rows 17"},
	{"a deduction is lost", `DELETE FROM deduction WHERE request_id = 'plain'`,
		"ledger: S of epoch 2 of bucket 7 is 12, by the rows 7"},
	{"a deduction moves to a closed epoch", `UPDATE deduction SET epoch = 1
		WHERE request_id = 'plain'`, "ledger: O of epoch 1 of bucket 7 is 0, by the rows -5"},
	{"a deduction of no epoch", `UPDATE deduction SET epoch = 9 WHERE request_id = 'plain'`,
		`deduction "plain" of ledger has no parent row`},
	{"a deduction of no budget", `UPDATE deduction SET budget_id = 9 WHERE request_id = 'plain'`,
		`deduction "plain" has no parent row`},
	{"a tombstone with units", `UPDATE deduction SET amount = 1 WHERE request_id = 'void'`,
		`ledger: the tombstone "void" has 1 units`},
	{"a duplicate rollback", `INSERT INTO give_back (budget_id, request_id, kind, rollback_id,
		amount, is_direct, bucket_id, epoch) VALUES (1, 'part', 'rollback', 'y', 2, 1, 7, 2)`,
		"ledger: S of epoch 2 of bucket 7 is 12, by the rows 10"},
	{"more is given back than was taken", `UPDATE give_back SET amount = 7 WHERE request_id = 'part'`,
		`ledger: 7 units of "part" were given back, it took 6`},
	{"units are given back to another epoch", `UPDATE give_back SET epoch = 1 WHERE request_id = 'part'`,
		`ledger: units of "part" were given back to {7 1}`},
	{"units of an unknown deduction are given back", `UPDATE give_back SET request_id = 'x' WHERE request_id = 'part'`,
		`the refund of "x" has no parent row`},
	{"an extra without a taking", extraOfPart + ` (1, 'part', 1, 7, 2, 4, 0)`,
		"ledger: S of epoch 2 of bucket 7 is 12, by the rows 16"},
	{"an extra of which nobody knows what came back", extraOfPart + ` (1, 'part', 1, 7, 2, 4, 1)`,
		`ledger: what came back of extra 1 of "part" is 1, by the rows 0`},
	{"an extra of a hold", extraOfPart + ` (1, 'held', 1, 7, 2, 4, 0)`, `ledger: H of epoch 2 of bucket 7 is 3, by the rows 7`},
	{"an extra that is neither held nor used", extraOfPart + ` (1, 'part', 1, 7, 2, 4, 0)`,
		`ledger: extra 1 of "part" is not held, and 0 of its 4 are used`},
	{"a unit of a hold is used", `UPDATE hold SET used = 1, confirmed = 1`,
		`ledger: H of epoch 2 of bucket 7 is 3, by the rows 2`},
	{"a unit is used that was not confirmed", `UPDATE hold SET used = 1`,
		`ledger: of the hold "held" 3 are left, 1 used of 0 confirmed, held: true`},
	{"an extra without a deduction", extraOfPart + ` (1, 'x', 1, 7, 2, 4, 0)`, `extra 1 of "x" has no parent row`},
	{"units of no extra", `UPDATE give_back SET number = 3 WHERE request_id = 'part'`,
		`ledger: units of "part" were given back from an extra 3`},
	{"a hold ends without a state", `UPDATE hold SET due_ms = NULL`,
		`ledger: the hold "held" is held, and due_ms is set: false`},
	{"a leg is lost", `DELETE FROM deduction WHERE request_id = x'0273'`, `a leg of the set "a\x00s" is missing in budget 1`},
	{"a set is lost", `DELETE FROM deduction WHERE budget_id = 0`, `ledger: the leg "\x02s" is of no set`},
	{"a set of another tenant", `UPDATE deduction SET request_id = x'620073' WHERE budget_id = 0`,
		`ledger: a leg of the set "b\x00s" is of another tenant`},
	{"a leg elsewhere", `UPDATE deduction SET note = x'04000000000003010704' WHERE budget_id = 0`,
		`ledger: a leg of the set "a\x00s" is at 7 2`},
	{"a set is held and its leg is not", `INSERT INTO hold (budget_id, request_id, state, due_ms)
		VALUES (0, x'610073', 'held', 9)`, `the set "a\x00s" is held: false, and due_ms is set: true`},
	{"a leg ends by itself", `INSERT INTO hold (budget_id, request_id, state, due_ms, bucket_id, epoch)
		VALUES (1, x'0273', 'held', 9, 7, 2)`, `ledger: the hold "\x02s" is held, and due_ms is set: true`},
	{"a leg in a charged budget is lost", `UPDATE deduction SET note = x'04000000000003020808' WHERE request_id = 'plain'`,
		`store: a leg of request "plain" of budget 1 is missing`},
	{"a leg in a charged budget of nothing", `UPDATE deduction SET request_id = x'01000000000000000178' WHERE request_id = x'0273'`,
		`is of no set`},
	{"a leg in a charged budget of another amount", `UPDATE deduction SET
		request_id = CASE WHEN request_id = 'part' THEN x'010000000000000001706C61696E' ELSE request_id END,
		note = CASE WHEN request_id = 'plain' OR amount = 5 THEN x'04000000000003010708' ELSE note END`,
		`ledger: a leg of request "plain" is 6-0, and its owner 5-0`},
	{"more is confirmed than was held", `UPDATE hold SET confirmed = 4`, `of the hold "held" 3 are left, 0 used of 4 confirmed`},
	{"a hold without a deduction", `UPDATE hold SET request_id = 'x'`, `hold "x" has no parent row`},
	{"a grant twice", `INSERT INTO grant_log (bucket_id, epoch, number, budget_id, kind, amount, status)
		VALUES (7, 2, 3, 1, 'apply', 15, 'done')`,
		"ledger: the number of grants of epoch 2 of bucket 7 is 2, by the rows 3"},
	{"a grant is lost", `DELETE FROM grant_log WHERE bucket_id = 7 AND epoch = 2 AND number = 1`,
		"grant 2 of {7 2} follows number 0"},
	{"a grant of more", `UPDATE grant_log SET amount = 16 WHERE amount = 15`,
		"ledger: F + U is 60, by the rows 59"},
	{"a grant of no epoch", `INSERT INTO grant_log (bucket_id, epoch, number, amount) VALUES (7, 9, 1, 1)`,
		"grant 1 of {7 9} has no parent row"},
	{"a unit vanishes from the total", `UPDATE budget_management_bucket SET total_quantity = 119
		WHERE id = 1`, "ledger: T is 119, by the rows 120"},
	{"an append is lost", `DELETE FROM adjustment WHERE request_id = 'more'`,
		"ledger: T is 120, by the rows 100"},
	{"an append of no budget", `UPDATE adjustment SET budget_id = 9 WHERE request_id = 'more'`,
		`adjustment "more" has no parent row`},
	{"a unit appears in U", `UPDATE budget_management_bucket SET undistributed_quantity = 61
		WHERE id = 1`, "ledger: T as the sum of its parts is 120, by the rows 121"},
	{"a unit with no child", `UPDATE budget_management_bucket SET allocated_quantity = 1
		WHERE id = 1`, "ledger: A is 1, by the rows 0"},
	{"a pending quantity without a shrink", `UPDATE budget_management_bucket SET pending_shrink_quantity = 3`,
		"ledger: pending shrinks is 3, by the rows 0"},
	{"more is used than the total", `UPDATE budget_management_bucket SET total_quantity = 30 WHERE id = 1`,
		"ledger: oversold: 32 used, 3 held, total 30"},
	{"a closed epoch has units", `UPDATE bucket_epoch SET outstanding_quantity = 1
		WHERE bucket_id = 7 AND epoch = 1`, "ledger: O after the end of epoch 1 of bucket 7 is 1"},
	{"two epochs of a bucket are open", `UPDATE bucket_epoch SET status = 'open'
		WHERE bucket_id = 7 AND epoch = 1`, "O of a live epoch that is not the newest,"},
	{"an epoch of no budget", `UPDATE bucket_epoch SET budget_id = 9 WHERE bucket_id = 8 AND epoch = 1`,
		"epoch {8 1} has no parent row"},
	{"a feed entry is lost", `DELETE FROM feed WHERE first_entry = 1`,
		"ledger: the units of the feed of epoch 2 of bucket 7 is 15, by the rows 35"},
	{"a duplicate feed entry", `UPDATE feed SET entries = 2 WHERE first_entry = 1`,
		"bucket 7: feed entry 2 (7 entries) follows 2"},
	{"the feed is ahead", `UPDATE bucket_epoch SET next_entry = 7 WHERE bucket_id = 7 AND epoch = 2`,
		"ledger: the next entry of the feed of epoch 2 of bucket 7 is 7, by the rows 9"},
	{"store mode: a unit too many is used", `UPDATE bucket_epoch SET used_quantity = 11,
		outstanding_quantity = 29 WHERE bucket_id = 8 AND epoch = 2`,
		"store: S of epoch 2 of bucket 8 is 11, by the rows 10"},
	{"store mode: a unit is lost", `UPDATE bucket_epoch SET outstanding_quantity = 29
		WHERE bucket_id = 8 AND epoch = 2`,
		"store: the sum of all parts of epoch 2 of bucket 8 is 39, by the rows 40"},
	{"a release without a row", `DELETE FROM quarantine_release`,
		"store: the released sum of epoch 1 of bucket 8 is 0, by the rows 5"},
	{"a unit leaves quarantine", `UPDATE budget_management_bucket SET quarantined_quantity = 14
		WHERE id = 2`, "store: Q is 14, by the rows 15"},
	{"a quarantine of no epoch", `UPDATE quarantine SET epoch = 9`, "quarantine of {8 9} has no parent row"},
	{"a release of no epoch", `UPDATE quarantine_release SET epoch = 9`, "release of {8 9} has no parent row"},
}

// inStore are changes of the fields of bucket 8 in Redis, and a part of the message that must
// report them.
var inStore = []struct{ name, key, value, found string }{
	{"a unit appears", "balance", "31", "bucket 8: balance 31 and taken 15, granted 40 and given back 5"},
	{"a unit was given back twice", "given", "6", "bucket 8: balance 30 and taken 15"},
	{"the store returned to an earlier state", "taken", "14", "bucket 8: SQL has 15 taken and 5 given back, the store 14 and 5"},
	{"a number is unreadable", "taken", "x", `bucket 8: the store's taken is "x"`},
	{"the entry is of an older epoch", "epoch", "1", "bucket 8: its store has no entry of its open epoch 2"},
}

// TestAudit plants every kind of error in correct rows and checks that it is found.
func TestAudit(t *testing.T) {
	redis, installation := testservers.SharedRedis(t), testservers.UniqueName()
	// Columns without a value are 0 or empty, and constraints are off, so that errors can be planted.
	db, err := sql.Open("mysql", testservers.SharedMariaDB(t).NewDatabase(t)+
		"?multiStatements=true&sql_mode=%27%27&check_constraint_checks=0")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec := func(statement string) {
		t.Helper()
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	set := func(name, value string) {
		t.Helper()
		key := "budgetd:" + installation + ":{r/0}:" + name
		if _, err := redis.Command("HSET", key, "8", value); err != nil {
			t.Fatal(err)
		}
	}
	plant := func() {
		for _, table := range []string{"installation", "budget_management_bucket", "adjustment",
			"sharding_budget_management_bucket", "bucket_epoch", "grant_log", "deduction", "hold",
			"extra", "give_back", "feed", "quarantine", "quarantine_release"} {
			exec("DELETE FROM " + table)
		}
		exec(sound)
		exec("INSERT INTO installation (only_row, installation_id) VALUES (1, '" + installation + "')")
		for name, value := range map[string]string{"epoch": "2", "balance": "30", "taken": "15",
			"given": "5"} {
			set(name, value)
		}
	}
	finds := func(name, want string) {
		t.Helper()
		report, err := Audit(context.Background(), db, map[string]Redis{"r": Server(redis.Addr())})
		if err != nil {
			t.Fatal(err)
		}
		found := strings.Join(report.Wrong, "\n")
		if want == "" && found != "" || !strings.Contains(found, want) {
			t.Errorf("%s: found %q, want %q", name, found, want)
		}
	}
	exec(budgetd.Schema)
	for _, p := range planted {
		plant()
		if p.statement != "" {
			exec(p.statement)
		}
		finds(p.name, p.found)
	}
	for _, p := range inStore {
		plant()
		set(p.key, p.value)
		finds("store: "+p.name, p.found)
	}
}
