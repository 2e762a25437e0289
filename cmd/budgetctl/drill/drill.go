// Package drill runs budgetd in a sandbox, breaks its parts one after the other while callers
// deduct, and then compares the answers with the service's books. Everything listens on 127.0.0.1
// and keeps its files in one temporary directory.
package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// Options are the choices of a drill.
type Options struct {
	// Budgetd is the path of budgetd; "" means beside this program, or on PATH.
	Budgetd string
	// SQLite and NoRedis leave out MariaDB and Redis even if they are installed.
	SQLite, NoRedis bool
	// Rounds is how often each fault happens. Each is how many deductions of each budget are
	// accepted before, during and after a fault.
	Rounds, Each int
	// Caller is a command that makes the calls of one caller, or "". Each caller runs its own.
	Caller string
	// Plant enters a deduction that never happened in a book. The verdict must then be a failure.
	Plant bool
	// Keep keeps the files.
	Keep bool
	// Patience is how long the service may take at the end to bring everything to its ledger.
	Patience time.Duration
}

// ErrNotAccountedFor means that units are missing or exist twice, or that the outcome of an order
// is still unknown.
var ErrNotAccountedFor = errors.New("not every unit is accounted for")

// The size of the budgets and of the load.
const (
	total     = 200_000
	buckets   = 8
	part      = 500 // units that a bucket takes at a time
	callers   = 3   // per budget
	mostUnits = 5   // per deduction
)

// drill is the state of a drill.
type drill struct {
	Options
	sandbox
	out   io.Writer
	end   func()         // ends the drill early
	url   string         // of all nodes
	calls *client.Client // makes one attempt per call, because the drill itself repeats
	asks  *client.Client
	books []*book
	// broken is why a program of a caller failed; nil if none has.
	broken atomic.Pointer[error]

	sellOut atomic.Bool
	// memories grows when a Redis begins and when it has ended to lose its memory; it is odd
	// between.
	memories atomic.Int64
}

// Run carries out a drill and writes a report to out. It returns ErrNotAccountedFor if the books do
// not agree, the context's error if ctx ended, and another error if the sandbox failed. It always
// stops all servers, and removes their files unless Keep is set.
func Run(ctx context.Context, o Options, out io.Writer) (err error) {
	with, notes, err := find(o)
	if err != nil {
		return err
	}
	d := &drill{Options: o, out: out}
	if d.dir, err = os.MkdirTemp("", "budgetd-drill-"); err != nil {
		return err
	}
	ctx, d.end = context.WithCancel(ctx)
	var load sync.WaitGroup
	defer func() {
		interrupted := ctx.Err()
		d.end()
		load.Wait()
		left := d.close(o.Keep)
		if broken := d.broken.Load(); broken != nil {
			err = errors.Join(*broken, left)
		} else if err = errors.Join(err, left); interrupted != nil {
			err = errors.Join(interrupted, left)
			d.say("\nInterrupted: every server of the sandbox was stopped. There is no verdict.")
		}
	}()
	for _, note := range notes {
		d.say("%s", note)
	}
	if err := d.build(ctx, with); err != nil {
		return err
	}
	if err := d.open(ctx); err != nil {
		return err
	}
	d.introduce(with)
	for _, b := range d.books {
		for number := range callers {
			c, err := d.caller(b, number)
			if err != nil {
				return err
			}
			load.Go(func() {
				defer c.close()
				d.call(ctx, b, c, number)
			})
		}
	}
	if err := d.faults(ctx); err != nil {
		return err
	}
	before := d.tallies()
	d.sellOut.Store(true)
	sold := make(chan struct{})
	go func() { load.Wait(); close(sold) }()
	if err := eventually(ctx, "everything is sold", func() error {
		select {
		case <-sold:
			return nil
		default:
			return errors.New("callers still get units, or are told to come again")
		}
	}); err != nil {
		return err
	}
	d.row(ctx, "callers go on until nothing is left", before)
	return d.verdict(ctx)
}

// say writes a line. If that fails, the drill ends.
func (d *drill) say(format string, args ...any) {
	if _, err := fmt.Fprintf(d.out, format+"\n", args...); err != nil {
		d.end()
	}
}

// open creates the clients and the budgets.
func (d *drill) open(ctx context.Context) (err error) {
	var addresses []string
	for _, n := range d.nodes {
		addresses = append(addresses, n.wire.address())
	}
	transport := client.WithTransport(&http.Transport{MaxIdleConnsPerHost: 2 * callers})
	d.url = strings.Join(addresses, ",")
	if d.calls, err = client.New(d.url, transport,
		client.WithRetry(client.Retry{Attempts: 1})); err != nil {
		return err
	}
	if d.asks, err = client.New(d.url, transport,
		client.WithRetry(client.Retry{Within: startLimit})); err != nil {
		return err
	}
	modes := []budget.Durability{budget.Ledger}
	if len(d.redis) > 0 {
		modes = append(modes, budget.Store)
	}
	for _, mode := range modes {
		if _, err := d.asks.Create(ctx, client.CreateRequest{Name: string(mode), Unit: budget.Count,
			Type: budget.Promo, Durability: mode, TotalQuantity: total, BucketQuantity: buckets,
			ShardingQuantity: part}); err != nil {
			return fmt.Errorf("budget in %s mode: %w", mode, err)
		}
		d.books = append(d.books, &book{name: string(mode), store: mode == budget.Store,
			total: total, orders: map[string]*order{}})
	}
	return nil
}

// caller returns what makes the calls of one caller of a budget.
func (d *drill) caller(b *book, number int) (caller, error) {
	if d.Caller == "" {
		return own{d.calls}, nil
	}
	name := fmt.Sprintf("caller-%s-%d", b.name, number)
	return startProgram(d.Caller, d.url, d.dir, name, number)
}

// call sends one order after the other until the drill stops or the budget is sold out.
func (d *drill) call(ctx context.Context, b *book, by caller, number int) {
	selling := int64(mostUnits) // the amount per deduction once the budget is being sold out
	if number == 0 {
		selling = 1000
	}
	for i := 0; ctx.Err() == nil && selling > 0; i++ {
		id, amount := fmt.Sprintf("order-%d-%d", number, i), int64(i%mostUnits+1)
		last := d.sellOut.Load()
		if last {
			amount = selling
		}
		switch accepted := d.order(ctx, b, by, id, amount); {
		case accepted:
		case last:
			selling /= 10
		case !d.sellOut.Load() && ctx.Err() == nil:
			b.complain("%s of %d units was refused while there were plenty", id, amount)
		}
		if !last {
			_ = pause(ctx, 5*time.Millisecond) // the loop ends with the context
		}
	}
}

// order sends one order and repeats its id until its outcome is known.
func (d *drill) order(ctx context.Context, b *book, by caller, id string, amount int64,
) (accepted bool) {
	b.open(id, amount)
	unclear, memories := 0, d.memories.Load()
	for ctx.Err() == nil {
		err := by.deduct(ctx, b.name, id, amount)
		if why := (broken{}); errors.As(err, &why) {
			d.broken.CompareAndSwap(nil, &why.error)
			d.end()
			return false
		}
		switch kind := kindOf(err); {
		case err == nil, refused(err, unclear) && d.settled(ctx, b, by, id, err, unclear):
			lost := memories%2 == 1 || memories != d.memories.Load()
			again := unclear
			if by.repeats() {
				again++ // attempts that it made by itself
			}
			b.close(id, err == nil, unclear, again, lost)
			return err == nil
		case ctx.Err() != nil:
		case kind == budget.MayBeDone:
			if unclear++; unclear == 1 {
				b.count(func(t *tally) { t.unclear++ })
			}
		case kind == budget.NotDone:
			b.count(func(t *tally) { t.notNow++ })
		case kind != budget.Refused:
			b.complain("%s: %v", id, err)
			return false
		}
		_ = pause(ctx, 20*time.Millisecond) // the loop ends with the context
	}
	return false
}

// refused reports whether an order takes nothing. After an attempt without an answer its id may
// have been cancelled, by a cancel whose own answer was lost.
func refused(err error, unclear int) bool {
	code := codeOf(err)
	return kindOf(err) == budget.Refused ||
		unclear > 0 && (code == budget.RequestVoid || code == budget.AlreadyRolledBack)
}

// settled cancels an order that was refused after attempts without an answer, unless the caller
// has done so. The refusal does not concern those attempts; the cancel ensures that they have no
// effect.
func (d *drill) settled(
	ctx context.Context, b *book, by caller, id string, refusal error, unclear int,
) bool {
	return unclear == 0 || isCancelled(refusal) || by.cancel(ctx, b.name, id) == nil
}
