package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/budgetd/budgetd/client"
)

// fault breaks a part of the sandbox and repairs it, while the callers continue.
type fault struct {
	name string
	do   func(ctx context.Context) error
}

// list returns the faults that the sandbox can have.
func (d *drill) list() []fault {
	list := []fault{
		{"nothing is broken", func(context.Context) error { return nil }},
		{"a budgetd is killed", d.killNode},
		{"replies are cut", d.cutReplies},
	}
	if len(d.redis) > 0 {
		replace := fault{"what is quarantined is replaced", d.replace}
		list = append(list, fault{"a Redis comes back empty", d.wipeRedis}, replace,
			fault{"a Redis comes back old", d.oldRedis}, replace)
	}
	if d.mariadb == nil {
		return append(list, fault{"budgetd with SQLite is killed", d.killNode})
	}
	return append(list, fault{"MariaDB is killed", d.killMariaDB})
}

// faults causes all faults, round by round, and reports the figures after each.
func (d *drill) faults(ctx context.Context) error {
	d.header()
	for round := range d.Rounds {
		for _, f := range d.list() {
			before := d.tallies()
			err := f.do(ctx)
			if err == nil {
				err = errors.Join(d.awaitStores(ctx), d.awaitAccepted(ctx))
			}
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, f.name, err)
			}
			d.row(ctx, f.name, before)
		}
	}
	return ctx.Err()
}

// awaitAccepted waits until each budget has accepted so many more deductions.
func (d *drill) awaitAccepted(ctx context.Context) error {
	for _, b := range d.books {
		before, _ := b.read()
		err := eventually(ctx, "deductions from the budget "+b.name+" are accepted", func() error {
			if now, _ := b.read(); now.accepted < before.accepted+d.Each {
				return fmt.Errorf("%d of %d", now.accepted-before.accepted, d.Each)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitStores waits until budgetd reaches every Redis again.
func (d *drill) awaitStores(ctx context.Context) error {
	return eventually(ctx, "every store is up", func() error {
		list, err := d.asks.Instances(ctx)
		if err != nil {
			return err
		}
		for _, i := range list.Instances {
			if i.Health != "up" {
				return fmt.Errorf("%s is %s", i.Name, i.Health)
			}
		}
		return nil
	})
}

// replace appends as many units as were quarantined since its last call, as an operator may.
func (d *drill) replace(ctx context.Context) error {
	b := d.books[len(d.books)-1]
	v, err := d.asks.Budget(ctx, b.name)
	if err != nil {
		return err
	}
	missing := total + v.Quarantined - b.total
	if missing == 0 {
		return nil
	}
	b.total += missing
	_, err = d.asks.Append(ctx, b.name, client.AppendRequest{
		RequestID: fmt.Sprint("replace-", b.total), Quantity: missing})
	return err
}

// eventually repeats a check until it returns nil, for two minutes at most.
func eventually(ctx context.Context, what string, look func() error) error {
	deadline := time.Now().Add(startLimit)
	for {
		err := look()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %s: %s: %w", startLimit, what, err)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// killNode kills one budgetd and restarts it after the other has served for a while.
func (d *drill) killNode(ctx context.Context) error {
	d.nodes[0].kill()
	var err error
	if len(d.nodes) > 1 {
		err = d.awaitAccepted(ctx)
	}
	return errors.Join(err, d.nodes[0].start(ctx))
}

// killMariaDB kills the database and restarts it after a second.
func (d *drill) killMariaDB(ctx context.Context) error {
	d.mariadb.kill()
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	return d.mariadb.start(ctx)
}

// cutReplies drops some replies of every server, after the server has carried out the request.
func (d *drill) cutReplies(ctx context.Context) error {
	const oneIn = 15
	before := map[*process]int64{}
	for _, p := range d.all() {
		before[p] = p.wire.cut.Load()
		p.wire.oneIn.Store(oneIn)
		defer p.wire.oneIn.Store(0)
	}
	return errors.Join(d.awaitAccepted(ctx), eventually(ctx, "a reply of every server is cut",
		func() error {
			for p, cut := range before {
				if p.wire.cut.Load() == cut {
					return errors.New("none of " + p.name)
				}
			}
			return nil
		}))
}

func (d *drill) wipeRedis(ctx context.Context) error {
	r := d.redis[0]
	return d.loseMemory(ctx, r, func() error {
		return errors.Join(os.RemoveAll(r.dir), os.Mkdir(r.dir, 0o700))
	})
}

// oldRedis restarts a Redis with a copy of its data from before the last deductions.
func (d *drill) oldRedis(ctx context.Context) error {
	r := d.redis[len(d.redis)-1]
	copied := r.dir + "-copy"
	if err := os.CopyFS(copied, os.DirFS(r.dir)); err != nil {
		return err
	}
	if err := d.awaitAccepted(ctx); err != nil {
		return err
	}
	return d.loseMemory(ctx, r, func() error {
		return errors.Join(os.RemoveAll(r.dir), os.Rename(copied, r.dir))
	})
}

// loseMemory kills a Redis, changes its files and starts it again.
func (d *drill) loseMemory(ctx context.Context, r *process, change func() error) error {
	d.memories.Add(1)
	defer d.memories.Add(1)
	r.kill()
	if err := change(); err != nil {
		return err
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	return errors.Join(d.awaitStores(ctx), d.awaitAccepted(ctx))
}
