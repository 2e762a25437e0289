package drill

import (
	"context"
	"strconv"
	"time"

	"github.com/budgetd/budgetd/client"
)

// introduce says what runs, and what the columns mean.
func (d *drill) introduce(with programs) {
	d.say("The sandbox: %d budgetd (%s)", len(d.nodes), with.budgetd)
	database := "SQLite, within budgetd"
	if d.mariadb != nil {
		database = "MariaDB (" + with.mariadbd + ")"
	}
	d.say("  on %s and %d redis-server, all of it on 127.0.0.1, its files in\n  %s.", database,
		len(d.redis), d.dir)
	d.say(`
Each budget has %s units. %d callers repeatedly deduct 1 to %d units from it, each order with its
own request id, and record the answers. While they do so, parts of the system break.

  accepted   the answer was yes
  refused    the answer was "sold out"
  not now    the answer was that nothing was done; the caller repeats the id
  unclear    the answer was lost, so the outcome is unknown; the caller repeats the id, which takes
             nothing twice
  settled    unclear orders whose outcome is known now
  used, remaining, quarantined   where the units are by the service; remaining can still be sold,
             quarantined is what a lost Redis may have sold (store mode only)
`, grouped(total), callers, mostUnits)
}

const layout = "%-36s %-7s %9v %8v %8v %8v %8v %10v %10v %12v"

func (d *drill) header() {
	d.say(layout, "", "mode", "accepted", "refused", "not now", "unclear", "settled", "used",
		"remaining", "quarantined")
}

// tallies returns the tallies of all books.
func (d *drill) tallies() (all []tally) {
	for _, b := range d.books {
		now, _ := b.read()
		all = append(all, now)
	}
	return all
}

// row reports what has happened since before, and where the units are now.
func (d *drill) row(ctx context.Context, what string, before []tally) {
	for i, b := range d.books {
		now, _ := b.read()
		was := before[i]
		units := []any{"?", "?", "?"}
		if v, err := d.asks.Budget(ctx, b.name); err == nil {
			units = []any{grouped(v.Used), grouped(client.Units(v.InBuckets) +
				client.Units(v.Undistributed) + client.Units(v.NotFunded) + v.InTransit),
				grouped(v.Quarantined)}
		}
		d.say(layout, append([]any{what, b.name, now.accepted - was.accepted,
			now.refused - was.refused, now.notNow - was.notNow, now.unclear - was.unclear,
			now.settled - was.settled}, units...)...)
		what = ""
	}
}

// verdict compares the books with the service's audit and ledger and reports the result.
func (d *drill) verdict(ctx context.Context) error {
	if d.Plant {
		const id = "planted"
		d.books[0].open(id, 1)
		d.books[0].close(id, true, 0, 0, false)
		d.say("\nPlanted: the book of the budget %s has 1 unit for an order that was never sent.",
			d.books[0].name)
	}
	d.say("\nThe service's audit, recounted from its rows, and the callers' book:")
	accounted := true
	for _, b := range d.books {
		audit, wrong, err := d.compare(ctx, b)
		if err != nil {
			return err
		}
		now, units := b.read()
		d.say("\n  %s mode: total %s = used %s + quarantined %s + left %s", b.name,
			grouped(client.Units(audit.Total)), grouped(audit.Used), grouped(audit.Quarantined),
			grouped(client.Units(audit.Total)-audit.Used-audit.Quarantined))
		d.say("    the book: %s units in %d accepted orders; %d of %d unclear orders are settled",
			grouped(units), now.accepted, now.settled, now.unclear)
		switch {
		case len(wrong) > 0:
			accounted = false
			d.complaints(wrong)
		case b.store:
			d.say("    %s of these units were lost with a Redis; at least as many are quarantined",
				grouped(max(0, units-audit.Used)))
		default:
			d.say("    the ledger has exactly these orders, each once and with its amount")
		}
	}
	if !accounted {
		d.say("\nVerdict: NOT accounted for.")
		return ErrNotAccountedFor
	}
	d.say("\nVerdict: every unit is accounted for.")
	return nil
}

// complaints lists the first few problems.
func (d *drill) complaints(wrong []string) {
	const most = 10
	for i, text := range wrong {
		if i == most {
			d.say("    WRONG: and %d more", len(wrong)-most)
			return
		}
		d.say("    WRONG: %s", text)
	}
}

// compare compares a book with the service, which may take a while to bring everything to its rows.
func (d *drill) compare(ctx context.Context, b *book) (
	audit *client.AuditReport, wrong []string, err error,
) {
	for deadline := time.Now().Add(d.Patience); ; {
		if audit, err = d.asks.Audit(ctx, b.name); err != nil {
			return nil, nil, err
		}
		ledger := map[string]int64{}
		if !b.store {
			if ledger, err = d.ledger(ctx, b.name); err != nil {
				return nil, nil, err
			}
		}
		wrong = b.compare(audit, ledger)
		if len(wrong) == 0 || time.Now().After(deadline) {
			return audit, wrong, nil
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return nil, nil, err
		}
	}
}

// ledger reads what each request id has taken, less what was rolled back.
func (d *drill) ledger(ctx context.Context, name string) (map[string]int64, error) {
	taken, after := map[string]int64{}, ""
	for {
		page, err := d.asks.Ledger(ctx, name, after, client.MaxLedgerPage, 0)
		if err != nil || len(page.Entries) == 0 {
			return taken, err
		}
		for _, e := range page.Entries {
			if e.Kind == "deduct" {
				taken[e.RequestID] += e.Amount
			} else {
				taken[e.RequestID] -= e.Amount
			}
		}
		after = page.Next
	}
}

// grouped writes a number with commas between thousands.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
