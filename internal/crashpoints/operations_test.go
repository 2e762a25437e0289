package crashpoints

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/ring"
)

// operation is what a node does when it is stopped, or when a call fails.
type operation struct {
	name   string
	shapes []shape
	total  int64
	// only, when set, is the one durability that the operation is about.
	only budget.Durability
	// loses: a store's memory goes back. In store mode units may be quarantined then, and nothing else
	// may be the end of a deduction that was accepted.
	loses bool
	// records: it is about what has become of a request id.
	records bool
	// keeps: its calls are about what is in quarantine.
	keeps bool
	// late: a deduction is on its way until one of the calls lets it arrive.
	late bool
	// bare: the budget does not exist before.
	bare bool
	// define changes the budget's definition before it is made.
	define func(*budget.Definition)
	// prepare brings the world to where the operation begins.
	prepare func(*world)
	// calls are made one after the other while they succeed, or all together, or as one call (DeductAll).
	calls    []call
	together bool
	asOne    bool
	// until, when set, is when what the node does by itself is done.
	until func(*world) bool
	// proof says what an undisturbed run did not show; "" when it showed what it is for.
	proof func(*world) string
	// base is what is used before; final is the total in the end.
	base, final int64
	// archives: entries of ended epochs leave the feed.
	archives bool
	// from, when set, is the name of the first step that counts: what comes before is of other operations.
	from string
	// reopen makes the budget sell again, or looks at what the operation was for when it was repeated.
	reopen func(*world)
}

// call is one call of a client.
type call struct {
	what string
	// do makes the call; replayed is what the answer says.
	do func(context.Context, *world) (replayed bool, err error)
	// want is the code of the right answer; "" for OK.
	want budget.Code
	// did tells from the rows whether it took effect; nil where it is to have none.
	did func(*memstore.BudgetRow) bool
	// worth is by how much it changes what is used.
	worth int64
	// replays: a repetition says so.
	replays bool
	// behind: in store mode the ledger follows the answer.
	behind bool
	// request is what do deducts, of a call that can be made as one with others.
	request func(*world) bucket.DeductRequest
	// on, when set, is the name of the budget that it is about, which is not the world's.
	on string
}

const name = "b"

func (w *world) definition() budget.Definition {
	d := budget.Definition{Tenant: budget.DefaultTenant, Name: name, Unit: budget.Count,
		Durability: w.durability, Type: budget.Promo, TotalQuantity: w.total, BucketQuantity: w.buckets}
	if w.define != nil {
		w.define(&d)
	}
	return d
}

func create() call {
	return call{what: "create", replays: true,
		do: func(ctx context.Context, w *world) (bool, error) {
			v, _, err := w.node.Create(ctx, w.definition())
			return v.Replayed, err
		},
		did: func(b *memstore.BudgetRow) bool { return b != nil }}
}

// deducting is a deduction through the bucket of that ordinal.
func deducting(id string, amount int64, ordinal int) call {
	return call{what: "deduct " + id, worth: amount, replays: true, behind: true,
		request: func(w *world) bucket.DeductRequest {
			return bucket.DeductRequest{Budget: w.budget, RequestID: id, Amount: amount, Key: w.key(ordinal)}
		},
		do: func(ctx context.Context, w *world) (bool, error) {
			answer, err := w.deduct(ctx, w.node, id, amount, w.key(ordinal))
			return answer.Replayed, err
		},
		did: func(b *memstore.BudgetRow) bool { return b != nil && b.Deductions[id].Amount > 0 }}
}

// answered is a call that is to be answered with that code and to do nothing.
func (c call) answered(code budget.Code) call {
	c.want, c.did, c.worth, c.replays = code, nil, 0, false
	return c
}

// again is a call that was made before: it changes nothing.
func (c call) again() call {
	c.worth, c.did, c.replays = 0, nil, false
	return c
}

func rollingBack(id, rollbackID string, amount, worth int64) call {
	return call{what: "rollback " + id, worth: -worth, replays: true,
		do: func(ctx context.Context, w *world) (bool, error) {
			v, err := w.node.Rollback(ctx, bucket.RollbackRequest{Budget: w.budget, RequestID: id,
				RollbackID: rollbackID, Amount: amount})
			return v.Replayed, err
		},
		did: func(b *memstore.BudgetRow) bool {
			for _, r := range b.Rollbacks {
				if r.RequestID == id && r.RollbackID == rollbackID {
					return true
				}
			}
			return false
		}}
}

func cancelling(id string, worth int64) call {
	return call{what: "cancel " + id, worth: -worth,
		do: func(ctx context.Context, w *world) (bool, error) {
			_, err := w.node.Cancel(ctx, w.budget, id)
			return false, err
		},
		did: func(b *memstore.BudgetRow) bool {
			d, found := b.Deductions[id]
			return found && d.Amount == d.RolledBack
		}}
}

func adjusting(id string, quantity int64) call {
	return call{what: "adjust " + id, replays: true,
		do: func(ctx context.Context, w *world) (bool, error) {
			v, err := w.node.Adjust(ctx, bucket.AdjustRequest{Budget: w.budget, RequestID: id,
				Quantity: quantity})
			return v.Replayed, err
		},
		did: func(b *memstore.BudgetRow) bool {
			for _, a := range b.Adjustments {
				if a.RequestID == id {
					return a.State == bucket.AdjustmentDone
				}
			}
			return false
		}}
}

func changing(what string, change bucket.Change, did func(budget.Definition) bool) call {
	return call{what: what,
		do: func(ctx context.Context, w *world) (bool, error) {
			_, err := w.node.Change(ctx, w.budget, change)
			return false, err
		},
		did: didChange(did)}
}

// didChange is did of a definition; nil where the rows do not tell.
func didChange(did func(budget.Definition) bool) func(*memstore.BudgetRow) bool {
	if did == nil {
		return nil
	}
	return func(b *memstore.BudgetRow) bool { return did(b.Definition) }
}

// handling is an operator's call about the bucket of that ordinal.
func handling(what string, ordinal int, did func(*memstore.BucketRow) bool) call {
	return call{what: what,
		do: func(ctx context.Context, w *world) (bool, error) {
			key := fmt.Sprintf("%s:bucket-%d", name, ordinal)
			var err error
			switch what {
			case "offline":
				_, err = w.node.Offline(ctx, w.budget, key)
			case "online":
				_, err = w.node.Online(ctx, w.budget, key)
			case "apply":
				_, err = w.node.ApplyTo(ctx, w.budget, key)
			}
			return false, err
		},
		did: func(b *memstore.BudgetRow) bool { return did(&b.Buckets[ordinal]) }}
}

// keys has, for each number of buckets, a routing key for each ordinal.
var keys = sync.OnceValue(func() map[int][]string {
	out := map[int][]string{}
	for _, n := range []int{1, 3} {
		nodes := make([]string, n)
		for i := range nodes {
			nodes[i] = fmt.Sprint(i)
		}
		r, err := ring.New(nodes, points)
		if err != nil {
			panic(err)
		}
		out[n] = make([]string, n)
		for i, found := 0, 0; found < n; i++ {
			key := fmt.Sprint("key", i)
			if at := r.LocateIndex(key, func(int) bool { return false }); out[n][at] == "" {
				out[n][at], found = key, found+1
			}
		}
	}
	return out
})

// key is a routing key whose first choice is the bucket of that ordinal.
func (w *world) key(ordinal int) string { return keys()[w.buckets][ordinal%w.buckets] }

// must makes a call that is to succeed before the operation begins.
func (w *world) must(c call) {
	_, err := c.do(w.life, w)
	if budget.CodeOf(err) != c.want {
		w.fault("prepare: %s: %v", c.what, err)
	}
}

// other lets a second node do something while the first one sleeps.
func (w *world) other(do func()) {
	first, life, end := w.node, w.life, w.end
	w.start()
	do()
	w.leave()
	w.node, w.life, w.end = first, life, end
}

// onServer is the ordinal of a bucket that lies on that instance.
func (w *world) onServer(instance string) int {
	for i := range w.row().Buckets {
		if w.row().Buckets[i].Bucket.Lane.Instance == instance {
			return i
		}
	}
	w.Fatalf("no bucket lies on %s", instance)
	return 0
}

// ref names the newest epoch of a bucket.
func (w *world) ref(ordinal int) bucket.Ref {
	e := w.row().Buckets[ordinal].Newest()
	return bucket.Ref{Bucket: e.Bucket, Epoch: e.Number, Activation: e.Activation}
}

func (w *world) quiet() bool { return len(w.pending()) == 0 }

func unpause(w *world) {
	no := false
	if _, err := w.node.Change(context.Background(), w.budget, bucket.Change{Paused: &no}); err != nil {
		w.fault("resume: %v", err)
	}
	time.Sleep(time.Second)
}
