package crashpoints

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// act is a verb's call.
type act = func(ctx context.Context, n *node, b *bucket.Budget) (string, *bool, error)

// deducts deducts under an id. change, if not nil, changes the request.
func deducts(id string, amount int64, change func(r *bucket.DeductRequest)) act {
	return func(ctx context.Context, n *node, b *bucket.Budget) (string, *bool, error) {
		r := bucket.DeductRequest{Budget: bucket.BudgetRef{ID: b.ID}, RequestID: id, Amount: amount}
		if change != nil {
			change(&r)
		}
		a, err := n.Deduct(ctx, r)
		return fmt.Sprintf("%d %s %s", a.Amount, a.State, a.Receipt), &a.Replayed, err
	}
}

// batch deducts 10 units under each of three ids.
func batch(ctx context.Context, n *node, b *bucket.Budget) (told string, replayed *bool, err error) {
	var list []bucket.DeductRequest
	for i := range 3 {
		list = append(list, bucket.DeductRequest{Budget: bucket.BudgetRef{ID: b.ID},
			RequestID: fmt.Sprint("a", i), Amount: 10})
	}
	some := false
	for _, r := range n.DeductAll(ctx, list) {
		told += fmt.Sprintf("%d %s %s, ", r.Answer.Amount, r.Answer.State, r.Answer.Receipt)
		some = some || r.Answer.Replayed
		if r.Err != nil {
			err = r.Err
		}
	}
	if budget.CodeOf(err).Kind() == budget.NotDone {
		err = &budget.Error{Code: budget.OutcomeUnknown} // other items may be done
	}
	return told, &some, err
}

// back rolls back an amount; 0 means all that is left.
func back(amount int64) act {
	return func(ctx context.Context, n *node, b *bucket.Budget) (string, *bool, error) {
		v, err := n.Rollback(ctx, bucket.RollbackRequest{NoKey: true, Budget: bucket.BudgetRef{ID: b.ID},
			RequestID: "a", RollbackID: "r", Amount: amount})
		return fmt.Sprintf("%d of %d", v.RolledBack, v.Amount), &v.Replayed, err
	}
}

// cancel cancels an id.
func cancel(id string) act {
	return func(ctx context.Context, n *node, b *bucket.Budget) (string, *bool, error) {
		v, err := n.Cancel(ctx, bucket.RollbackRequest{NoKey: true, Budget: bucket.BudgetRef{ID: b.ID}, RequestID: id})
		return string(v.State), nil, err
	}
}

func confirm(r bucket.ConfirmRequest) act {
	return func(ctx context.Context, n *node, b *bucket.Budget) (string, *bool, error) {
		r := r
		r.Budget = bucket.BudgetRef{ID: b.ID}
		list, err := n.holds.Confirm(ctx, r)
		told, replayed := "", false
		for _, v := range list {
			told += fmt.Sprintf("%s %d %d %d, ", v.State, v.Confirmed, v.Extra, v.Uncollected)
			replayed = replayed || v.Replayed
		}
		return told, &replayed, err
	}
}

// renew makes the first step of a hold.
func renew(used, hold int64) act {
	return func(ctx context.Context, n *node, b *bucket.Budget) (string, *bool, error) {
		r, err := n.holds.Renew(ctx, bucket.RenewRequest{Budget: bucket.BudgetRef{ID: b.ID}, RequestID: "a", Step: 1,
			Used: used, Hold: hold, HoldTTL: time.Hour})
		return fmt.Sprint(r.UsedTotal, r.Held, r.IsFinal, r.Uncollected), &r.Replayed, err
	}
}

// adjust appends a quantity, or shrinks if it is negative.
func adjust(quantity int64) act {
	return func(ctx context.Context, n *node, b *bucket.Budget) (string, *bool, error) {
		v, err := n.Adjust(ctx, bucket.AdjustRequest{Budget: bucket.BudgetRef{ID: b.ID}, RequestID: "adj",
			Quantity: quantity})
		return fmt.Sprint(v.Definition.TotalQuantity), &v.Replayed, err
	}
}

// loop runs loops by name.
func loop(names ...string) act {
	return func(ctx context.Context, n *node, _ *bucket.Budget) (string, *bool, error) {
		for _, name := range names {
			if err := n.loop(ctx, name); err != nil {
				return "", nil, &budget.Error{Code: budget.OutcomeUnknown, Err: err}
			}
		}
		return "", nil, nil
	}
}

// done returns an act that has no id and no answer.
func done(do func(ctx context.Context, n *node, b *bucket.Budget) error) act {
	return func(ctx context.Context, n *node, b *bucket.Budget) (string, *bool, error) {
		return "", nil, do(ctx, n, b)
	}
}

// prepare executes acts through the other node before the verb.
func prepare(acts ...act) func(w *world) {
	return func(w *world) {
		for _, do := range acts {
			_, _, err := do(w.Context(), w.other, w.b)
			w.ok(err)
			w.b = w.reload(w.b.ID)
		}
	}
}

func user(r *bucket.DeductRequest) { r.Dimensions = map[string]string{"user": "u"} }

// holding turns a request into a hold.
func holding(ttl time.Duration, group string) func(r *bucket.DeductRequest) {
	return func(r *bucket.DeductRequest) { r.HoldTTL, r.Group = ttl, group }
}

// settling makes a hold of which more may be confirmed.
func settling(r *bucket.DeductRequest) { r.HoldTTL, r.Above = time.Hour, ledger.AboveAvailable }

// expired makes a hold of which more may be confirmed, and which is due.
func expired(w *world) {
	prepare(deducts("a", 10, settling))(w)
	w.exec(`UPDATE hold SET hold_until_ms = 1, due_ms = 1 WHERE budget_id = ?`, w.b.ID)
}

// expiredAsUsed makes a hold that is due and whose expiry confirms it.
func expiredAsUsed(w *world) {
	prepare(deducts("a", 10, func(r *bucket.DeductRequest) {
		r.HoldTTL, r.ExpiresAs = time.Hour, ledger.ExpiresUsed
	}))(w)
	w.exec(`UPDATE hold SET hold_until_ms = 1, due_ms = 1 WHERE budget_id = ?`, w.b.ID)
}

// daily gives a third of the total to each of three days.
func daily(d *budget.Definition) {
	today := time.Now().UTC().Truncate(24 * time.Hour)
	d.Type, d.Rule = budget.Daily, &budget.Rule{Kind: budget.Calendar, Every: budget.Day,
		Unused: budget.Next}
	d.StartAt, d.EndAt = today, today.Add(72*time.Hour)
}

// aDayLater moves a budget a day into the past, so that its first day is over.
func aDayLater(w *world) {
	const day = 24 * 60 * 60 * 1000
	w.exec(`UPDATE budget_management_bucket SET start_ms = start_ms - ?, end_ms = end_ms - ?,
		period_start_ms = period_start_ms - ?, period_end_ms = period_end_ms - ?,
		roll_over_ms = roll_over_ms - ? WHERE id = ?`, day, day, day, day, day, w.b.ID)
	w.exec(`UPDATE budget_period SET start_ms = start_ms - ?, end_ms = end_ms - ?
		WHERE budget_id = ?`, day, day, w.b.ID)
	w.exec(`UPDATE bucket_epoch SET period_end_ms = period_end_ms - ? WHERE budget_id = ?`, day, w.b.ID)
}

// TestLedger executes every verb of ledger mode.
func TestLedger(t *testing.T) {
	offline := func(ctx context.Context, n *node, b *bucket.Budget) error {
		_, err := n.moves.Offline(ctx, bucket.BudgetRef{ID: b.ID}, b.Buckets[0].Key)
		return err
	}
	ten := deducts("a", 10, nil)
	crash(t, budget.Ledger, []verb{
		{name: "deduct", call: ten, used: 10, rest: true},
		{name: "batch", call: batch, used: 30, rest: true},
		{name: "limits", define: limited, call: deducts("a", 10, user), used: 10},
		{name: "gather", call: deducts("a", 90, nil), used: 90, rest: true},
		{name: "hold", call: deducts("a", 10, holding(time.Hour, "")), held: 10, rest: true},
		{name: "join", before: prepare(deducts("b", 5, holding(time.Hour, "g"))),
			call: deducts("a", 10, holding(time.Hour, "g")), held: 15, rest: true},
		{name: "confirm", before: prepare(deducts("a", 10, holding(time.Hour, ""))),
			call: confirm(bucket.ConfirmRequest{RequestID: "a", Amount: 6}), used: 6, rest: true},
		{name: "confirm above", before: prepare(deducts("a", 10, settling)),
			call: confirm(bucket.ConfirmRequest{RequestID: "a", Amount: 14}), used: 14, rest: true},
		{name: "confirm above its bucket", before: prepare(deducts("a", 10, settling)),
			call: confirm(bucket.ConfirmRequest{RequestID: "a", Amount: 90}), used: 90, rest: true},
		{name: "confirm above the budget", before: prepare(deducts("a", 10, settling)),
			call: confirm(bucket.ConfirmRequest{RequestID: "a", Amount: 1000}), used: units, rest: true},
		{name: "confirm above with limits", define: limited, before: prepare(deducts("a", 10,
			func(r *bucket.DeductRequest) { user(r); settling(r) })),
			call: confirm(bucket.ConfirmRequest{RequestID: "a", Amount: 90}), used: 90},
		{name: "confirm late", before: expired,
			call: confirm(bucket.ConfirmRequest{RequestID: "a", Amount: 14}), used: 14, rest: true},
		{name: "confirm late of other buckets", before: expired,
			call: confirm(bucket.ConfirmRequest{RequestID: "a", Amount: 90}), used: 90, rest: true},
		{name: "rollback of an extra", before: prepare(deducts("a", 10, settling),
			confirm(bucket.ConfirmRequest{RequestID: "a", Amount: 90})), call: back(84), used: 6, rest: true},
		{name: "confirm group", before: prepare(deducts("a", 10, holding(time.Hour, "g")),
			deducts("b", 5, holding(time.Hour, "g"))),
			call: confirm(bucket.ConfirmRequest{Group: "g"}), used: 15, rest: true},
		{name: "expire", before: func(w *world) {
			prepare(deducts("a", 10, holding(time.Hour, "")))(w)
			w.exec(`UPDATE hold SET hold_until_ms = 1, due_ms = 1 WHERE budget_id = ?`, w.b.ID)
		}, call: loop("holds"), rest: true},
		{name: "expire as used", before: expiredAsUsed, call: loop("holds"), used: 10, rest: true},
		{name: "correct an expiry", before: expiredAsUsed,
			call: confirm(bucket.ConfirmRequest{RequestID: "a", Amount: 6}), used: 6, rest: true},
		{name: "renew", before: prepare(deducts("a", 10, settling)), call: renew(12, 20), used: 12, held: 20},
		{name: "renew with less", before: prepare(deducts("a", 10, settling)), call: renew(6, 0), used: 6, rest: true},
		{name: "renew with units of others", before: prepare(deducts("a", 10, settling)), call: renew(60, 20),
			used: 60, held: 20},
		{name: "renew late", before: expired, call: renew(12, 0), used: 12, rest: true},
		{name: "renew after an expiry as used", before: expiredAsUsed, call: renew(6, 3), used: 6, held: 3},
		{name: "rollback", before: prepare(ten), call: back(4), used: 6, rest: true},
		{name: "rollback with limits", define: limited, before: prepare(deducts("a", 10, user)),
			call: back(4), used: 6},
		{name: "rollback after the epoch", before: prepare(deducts("a", 10, nil), func(ctx context.Context,
			n *node, b *bucket.Budget) (string, *bool, error) {
			_, err := n.moves.Recycle(ctx, bucket.BudgetRef{ID: b.ID})
			return "", nil, err
		}), call: back(0), rest: true},
		{name: "cancel", before: prepare(ten), call: cancel("a"), rest: true},
		{name: "cancel before", call: cancel("never"), rest: true},
		{name: "offline", call: done(offline), rest: true},
		{name: "online", before: prepare(done(offline)), call: done(func(ctx context.Context, n *node,
			b *bucket.Budget) error {
			_, err := n.moves.Online(ctx, bucket.BudgetRef{ID: b.ID}, b.Buckets[0].Key)
			return err
		}), rest: true},
		{name: "apply", before: prepare(done(offline)), call: done(func(ctx context.Context, n *node,
			b *bucket.Budget) error {
			_, err := n.moves.ApplyTo(ctx, bucket.BudgetRef{ID: b.ID}, b.Buckets[1].Key)
			return err
		}), rest: true},
		{name: "recycle", before: prepare(ten), call: done(func(ctx context.Context, n *node,
			b *bucket.Budget) error {
			_, err := n.moves.Recycle(ctx, bucket.BudgetRef{ID: b.ID})
			return err
		}), used: 10, rest: true},
		{name: "rollover", define: daily, before: func(w *world) { prepare(ten)(w); aDayLater(w) },
			call: done(func(ctx context.Context, n *node, b *bucket.Budget) error {
				return n.moves.RollOver(ctx, b.ID)
			}), used: 10},
		{name: "append", call: adjust(7), rest: true},
		{name: "shrink", call: adjust(-7), rest: true},
		{name: "carve", call: carve(40), check: family(40)},
		{name: "append to a child", before: prepare(carve(40)), call: adjustChild(20), check: family(60)},
		{name: "close", before: prepare(carve(40), ofChild(ten)), call: closes, check: closed(10)},
		{name: "close of two levels", before: prepare(carve(40), ofChild(carve(30)), ofChild(ofChild(ten))), call: closes,
			check: closed(10)},
		{name: "deduct of what an ended child has left", before: prepare(carve(40), ofChild(ten), closes, ofChild(back(4))),
			call: deducts("all", units-6, nil), used: units - 6, check: closed(6)},
		{name: "shrink of a child", before: prepare(carve(40)), call: adjustChild(-15), check: family(25)},
	})
}

// TestStore executes every verb of store mode.
func TestStore(t *testing.T) {
	move := func(ctx context.Context, n *node, b *bucket.Budget) error {
		to := bucket.Partition{Instance: "n"}
		return n.store.Move(ctx, b.ID, b.Buckets[0].ID, to)
	}
	offline := func(ctx context.Context, n *node, b *bucket.Budget) error {
		_, err := n.moves.Offline(ctx, bucket.BudgetRef{ID: b.ID}, b.Buckets[0].Key)
		return err
	}
	ten := deducts("a", 10, nil)
	crash(t, budget.Store, []verb{
		{name: "deduct", call: ten, used: 10, rest: true},
		{name: "batch", call: batch, used: 30, rest: true},
		{name: "limits", define: limited, call: deducts("a", 10, user), used: 10},
		{name: "supply", call: deducts("a", 90, nil), used: 90, rest: true},
		{name: "rollback", returns: true, before: prepare(ten), call: back(4), used: 6, rest: true},
		{name: "rollback after the epoch", returns: true, before: prepare(ten, done(func(ctx context.Context, n *node,
			b *bucket.Budget) error {
			_, err := n.moves.Recycle(ctx, bucket.BudgetRef{ID: b.ID})
			return err
		})), call: back(0), rest: true},
		{name: "cancel", before: prepare(ten), call: cancel("a"), rest: true},
		{name: "sync", before: prepare(ten), call: loop("store sync"), used: 10, rest: true},
		{name: "offline", call: done(offline)},
		{name: "online", before: prepare(done(offline)), call: done(func(ctx context.Context, n *node,
			b *bucket.Budget) error {
			_, err := n.moves.Online(ctx, bucket.BudgetRef{ID: b.ID}, b.Buckets[0].Key)
			return err
		}), rest: true},
		{name: "apply", before: prepare(done(offline)), call: done(func(ctx context.Context, n *node,
			b *bucket.Budget) error {
			_, err := n.moves.ApplyTo(ctx, bucket.BudgetRef{ID: b.ID}, b.Buckets[1].Key)
			return err
		})},
		{name: "recycle", before: prepare(ten), call: done(func(ctx context.Context, n *node,
			b *bucket.Budget) error {
			_, err := n.moves.Recycle(ctx, bucket.BudgetRef{ID: b.ID})
			return err
		}), used: 10, rest: true},
		{name: "rollover", define: daily, before: func(w *world) { prepare(ten)(w); aDayLater(w) },
			call: loop("store rollover"), used: 10},
		{name: "move", call: done(move), rest: true},
		{name: "append", call: adjust(7), rest: true},
		{name: "shrink", call: adjust(-7), rest: true},
	})
}
