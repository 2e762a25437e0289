package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// dailyWorld is one or more nodes and an operator who uses budgetctl. Each call goes to the next
// node.
type dailyWorld struct {
	*testing.T
	nodes []*node
	ctl   string
	turn  int
}

// eachWorld runs a test on the embedded server, and in both modes on two nodes with MariaDB and
// three Redis.
func eachWorld(t *testing.T, test func(w *dailyWorld, mode string)) {
	t.Helper()
	ctl := testservers.Program(t, "budgetctl")
	t.Run("embedded", func(t *testing.T) {
		test(&dailyWorld{T: t, nodes: []*node{start(t, t.TempDir())}, ctl: ctl}, "ledger")
	})
	t.Run("cluster", func(t *testing.T) {
		c := newCluster(t)
		nodes := []*node{c.start(t), c.start(t)}
		for _, mode := range []string{"ledger", "store"} {
			t.Run(mode, func(t *testing.T) { test(&dailyWorld{T: t, nodes: nodes, ctl: ctl}, mode) })
		}
	})
}

func (w *dailyWorld) next() *node {
	w.turn++
	return w.nodes[w.turn%len(w.nodes)]
}

// run runs budgetctl and returns its exit status and its output.
func (w *dailyWorld) run(line string, args ...any) (status int, said string) {
	w.Helper()
	command := exec.Command(w.ctl, strings.Fields(fmt.Sprintf(line, args...))...)
	command.Env = append(command.Environ(), "BUDGETCTL_SERVER=http://"+w.next().addr)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.Fatal(err)
	}
	return command.ProcessState.ExitCode(), out.String()
}

// does runs budgetctl, which must succeed.
func (w *dailyWorld) does(line string, args ...any) {
	w.Helper()
	if status, said := w.run(line, args...); status != 0 {
		w.Fatalf("budgetctl "+line+": status %d\n%s", append(args, status, said)...)
	}
}

func (w *dailyWorld) view(name string) *client.Budget {
	w.Helper()
	b, err := w.next().client().Budget(context.Background(), name)
	if err != nil {
		w.Fatal(err)
	}
	return b
}

// sells deducts until the period is exhausted, the rest one unit at a time, and returns what was
// sold. The refusal must say how much is left, and that the next period begins within that time.
func (w *dailyWorld) sells(name, prefix string, within time.Duration) (sold int64) {
	w.Helper()
	amount := int64(7)
	for i := 0; ; i++ {
		answer, err := w.next().client().Deduct(context.Background(), name,
			client.DeductRequest{RequestID: fmt.Sprintf("%s-%d", prefix, i), Amount: amount})
		if err == nil {
			sold += amount
			if answer.PeriodRemaining == nil || answer.BudgetRemaining == nil ||
				*answer.PeriodRemaining > *answer.BudgetRemaining {
				w.Fatalf("%s: answer %+v", name, answer)
			}
			continue
		}
		p := problem(err)
		if p.Code != budget.PeriodExhausted || p.Status != 409 || p.Available == nil || *p.Available >= amount ||
			p.RetryAfter <= 0 || p.RetryAfter > within {
			w.Fatalf("%s, %d units after %d: %v", name, amount, sold, err)
		}
		if amount == 1 {
			return sold
		}
		amount = 1
	}
}

// refused checks what budgetctl says when the period is exhausted: status 3, and when to try again.
func (w *dailyWorld) refused(name string) {
	w.Helper()
	status, said := w.run("deduct %s 1 --request-id refused", name)
	for _, text := range []string{"period_exhausted", "available: 0", "retry after: ", "next period"} {
		if !strings.Contains(said, text) {
			w.Errorf("budgetctl does not say %q:\n%s", text, said)
		}
	}
	if status != 3 {
		w.Errorf("status %d of a deduct in an exhausted period", status)
	}
}

// agrees checks a budget's total, its used units and its period, and audits it.
func (w *dailyWorld) agrees(name string, total, used, notFunded, periodTotal, periodUsed int64) {
	w.Helper()
	eventually(w.T, time.Minute, name+" is in the ledger", func() error { // in store mode after a sync
		b := w.view(name)
		got := []int64{*b.TotalQuantity, b.Used, *b.NotFunded, -1, -1}
		if b.Period != nil {
			got[3], got[4] = b.Period.Total, b.Period.Used
		}
		if want := []int64{total, used, notFunded, periodTotal, periodUsed}; fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("total, used, not funded, total and used of the period %v, want %v", got, want)
		}
		return nil
	})
	w.audited(name, total, used)
}

// audited audits a budget through each node.
func (w *dailyWorld) audited(name string, total, used int64) {
	w.Helper()
	for range w.nodes {
		if status, said := w.run("audit %s", name); status != 0 {
			w.Errorf("audit of %s: status %d\n%s", name, status, said)
		}
		checkBooks(w.T, w.next().client(), name, total, used)
	}
}

// quietHour returns a zone in which no hour begins or ends within the next quarter of an hour, and
// the end of its present hour.
func quietHour() (zone string, ends time.Time) {
	now := time.Now().UTC()
	if m := now.Minute(); m >= 15 && m < 45 {
		return "UTC", now.Truncate(time.Hour).Add(time.Hour)
	}
	shifted := now.Add(30 * time.Minute) // Kolkata is 5:30 ahead
	return "Asia/Kolkata", shifted.Truncate(time.Hour).Add(30 * time.Minute)
}

// noonZone returns a zone in which it is between 12:00 and 13:00.
func noonZone() string {
	ahead := 12 - time.Now().UTC().Hour() // Etc/GMT-3 is 3 hours ahead
	return fmt.Sprintf("Etc/GMT%+d", -ahead)
}

// TestHourlyBudget checks that exactly a fixed quantity an hour is sold, even if the quantity is
// raised and lowered within the hour, and that units that were given back are sold again.
func TestHourlyBudget(t *testing.T) {
	eachWorld(t, func(w *dailyWorld, mode string) {
		name := "hourly-" + mode
		zone, _ := quietHour()
		w.does("create %s --total 10000 --every hour --quantity 300 --buckets 4 --timezone %s --durability %s",
			name, zone, mode)
		if sold := w.sells(name, "a", time.Hour); sold != 300 {
			w.Fatalf("sold %d of 300", sold)
		}
		w.refused(name)
		w.agrees(name, 10_000, 300, 9_700, 300, 300)

		for i := range 3 {
			w.does("rollback %s a-%d --key=", name, i)
		}
		if sold := w.sells(name, "b", time.Hour); sold != 21 {
			w.Fatalf("sold %d of the 21 units that came back", sold)
		}
		w.does("append %s 500", name) // the hour's quantity stays
		if sold := w.sells(name, "c", time.Hour); sold != 0 {
			w.Fatalf("sold %d after an append", sold)
		}
		w.agrees(name, 10_500, 300, 10_200, 300, 300)

		number := w.view(name).Period.Number
		w.does("set %s --every hour --quantity 500", name)
		if sold := w.sells(name, "raised", time.Hour); sold != 200 || w.view(name).Period.Number != number {
			w.Fatalf("sold %d in period %+v, want 200 more in period %d", sold, w.view(name).Period, number)
		}
		w.agrees(name, 10_500, 500, 10_000, 500, 500)

		w.does("set %s --every hour --quantity 100", name)
		if sold := w.sells(name, "lowered", time.Hour); sold != 0 {
			w.Fatalf("sold %d under a rule that the hour has exceeded", sold)
		}
		w.refused(name)
		w.agrees(name, 10_500, 500, 10_000, 500, 500)

		w.does("set %s --every hour --quantity 620", name)
		if sold := w.sells(name, "again", time.Hour); sold != 120 {
			w.Fatalf("sold %d of the 120 units that are left of 620", sold)
		}
		w.agrees(name, 10_500, 620, 9_880, 620, 620)
		if status, said := w.run("deduct %s 10000 --request-id more", name); status != 3 ||
			!strings.Contains(said, "budget_exhausted") {
			w.Errorf("more than the budget will ever have: status %d\n%s", status, said)
		}
		w.lowered("lowered-"+mode, zone, mode)
	})
}

// lowered checks that after a lower quantity that is not used up, the open period shows the hour's
// figures, in the budget and in the list, and that exactly the rest of that quantity is sold.
func (w *dailyWorld) lowered(name, zone, mode string) {
	w.Helper()
	w.does("create %s --total 10000 --every hour --quantity 1000 --buckets 4 --timezone %s --durability %s",
		name, zone, mode)
	w.does("deduct %s 600 --request-id first", name)
	w.agrees(name, 10_000, 600, 9_000, 1000, 600)
	w.does("set %s --every hour --quantity 800", name)
	w.agrees(name, 10_000, 600, 9_200, 800, 600)
	page, err := w.next().client().List(context.Background(), client.Filter{})
	must(w.T, err)
	for _, b := range page.Budgets {
		if b.Name == name && (b.Period == nil || b.Period.Total != 800 || b.Period.Used != 600) {
			w.Errorf("the list has period %+v", b.Period)
		}
	}
	if sold := w.sells(name, "rest", time.Hour); sold != 200 {
		w.Errorf("sold %d of the 200 units that are left of 800", sold)
	}
	w.agrees(name, 10_000, 800, 9_200, 800, 800)
}

// TestEqualParts checks that a total over four hours is released in quarters, and that a quarter of
// an append is released at once.
func TestEqualParts(t *testing.T) {
	eachWorld(t, func(w *dailyWorld, mode string) {
		name := "parts-" + mode
		zone, ends := quietHour()
		w.does("create %s --total 1202 --every hour --end %s --buckets 3 --timezone %s --durability %s", name,
			ends.Add(3*time.Hour).Format(time.RFC3339), zone, mode)
		if p := w.view(name).Period; p == nil || !p.End.Equal(ends) || p.Number != 1 || p.Total != 300 {
			w.Fatalf("period %+v, want 300 units until %s", p, ends)
		}
		if sold := w.sells(name, "a", time.Hour); sold != 300 {
			w.Fatalf("sold %d of 300", sold)
		}
		w.does("append %s 400", name) // 1602 over 4: 400
		if sold := w.sells(name, "b", time.Hour); sold != 100 {
			w.Fatalf("sold %d of the 100 units of an append", sold)
		}
		w.agrees(name, 1_602, 400, 1_202, 400, 400)
		w.does("shrink %s 1202", name) // all that is not funded
		if status, said := w.run("deduct %s 1 --request-id last", name); status != 3 ||
			!strings.Contains(said, "budget_exhausted") {
			w.Errorf("no later period has units: status %d\n%s", status, said)
		}
		w.agrees(name, 400, 400, 0, 400, 400)
	})
}

// TestWindows checks that the present window of the day has its own units, and that those of other
// windows are not sold.
func TestWindows(t *testing.T) {
	eachWorld(t, func(w *dailyWorld, mode string) {
		name := "windows-" + mode
		zone := noonZone()
		w.does("create %s --total 1000 --window 00:00-06:00=50 --window 06:00-20:00=210 --window 20:00-24:00=40"+
			" --unused next --late-refund next --timezone %s --buckets 2 --durability %s", name, zone, mode)
		b := w.view(name)
		if b.Period == nil || b.Period.End.Sub(b.Period.Start) != 14*time.Hour || b.Timezone != zone ||
			len(b.TypeRule.Windows) != 3 || b.TypeRule.Unused != budget.Next || b.LateRefund != budget.Next {
			w.Fatalf("view %+v, period %+v", b, b.Period)
		}
		if sold := w.sells(name, "a", 8*time.Hour); sold != 210 {
			w.Fatalf("sold %d of 210", sold)
		}
		w.refused(name)
		w.agrees(name, 1_000, 210, 790, 210, 210)

		// Between two windows nothing is released, and the next one is shown.
		w.does("set %s --window 00:00-06:00=50 --window 20:00-24:00=40", name)
		if sold := w.sellsNothing(name, "gap", 8*time.Hour); sold != 0 {
			w.Fatalf("sold %d between two windows", sold)
		}
		if p := w.view(name).Period; p == nil || !p.Start.After(time.Now()) || p.Total != 40 {
			w.Errorf("between two windows: period %+v", p)
		}
		w.agrees(name, 1_000, 210, 750, 40, 0)
	})
}

// sellsNothing returns how many units are sold, which should be 0. A refusal must say that the next
// period begins within that time.
func (w *dailyWorld) sellsNothing(name, id string, within time.Duration) (sold int64) {
	w.Helper()
	for range w.nodes {
		_, err := w.next().client().Deduct(context.Background(), name, client.DeductRequest{RequestID: id, Amount: 1})
		p := problem(err)
		if err == nil {
			sold++
		} else if p.Code != budget.PeriodExhausted || p.RetryAfter <= 0 || p.RetryAfter > within {
			w.Fatalf("%s: %v", name, err)
		}
	}
	return sold
}

// TestEndOfABudget checks that after its end a budget has all unused units in the total and none in
// its buckets, and that a later end makes it effective again.
func TestEndOfABudget(t *testing.T) {
	eachWorld(t, func(w *dailyWorld, mode string) {
		rules := map[string]*budget.Rule{"promo": nil, "free": {Kind: budget.Free},
			"daily": {Kind: budget.Calendar, Every: budget.Day}}
		for kind, rule := range rules {
			w.short("end-"+kind+"-"+mode, rule, budget.Durability(mode))
		}
		for kind := range rules {
			name := "end-" + kind + "-" + mode
			eventually(w.T, time.Minute, name+" ends", func() error {
				b := w.view(name)
				switch {
				case b.Status != budget.Expired:
					return fmt.Errorf("status %s", b.Status)
				case *b.Undistributed != 0 || *b.NotFunded != 900 || b.Used != 100,
					*b.InBuckets != 0 || b.InTransit != 0:
					return fmt.Errorf("view %+v", b)
				case b.Buckets.Online != 0 || b.Period != nil:
					return fmt.Errorf("%d buckets online, period %+v", b.Buckets.Online, b.Period)
				}
				return nil
			})
			status, said := w.run("deduct %s 1 --request-id late", name)
			if status != 3 || !strings.Contains(said, "budget_expired") {
				w.Errorf("after the end: status %d\n%s", status, said)
			}
			w.audited(name, 1000, 100)
			w.does("rollback %s a --key=", name)
			eventually(w.T, time.Minute, name+" has everything back", func() error {
				if b := w.view(name); *b.NotFunded+*b.Undistributed != 1000 || b.Used != 0 {
					return fmt.Errorf("view %+v", b)
				}
				return nil
			})
			w.does("set %s --end never", name+revive(kind))
			// I8: within 1 s on every node.
			eventually(w.T, time.Minute, name+" is effective through the other node", func() error {
				if status, said := w.run("deduct %s 1000 --request-id again", name); status != 0 {
					return fmt.Errorf("status %d: %s", status, said)
				}
				return nil
			})
			w.audited(name, 1000, 1000)
		}
	})
}

// short creates a budget of 1,000 that ends within seconds, and deducts 100.
func (w *dailyWorld) short(name string, rule *budget.Rule, mode budget.Durability) {
	w.Helper()
	request := client.CreateRequest{Name: name, Unit: budget.Count, Type: budget.Promo, TypeRule: rule,
		TotalQuantity: 1000, BucketQuantity: 4, Durability: mode, EndAt: time.Now().Add(10 * time.Second)}
	if rule != nil {
		request.Type = budget.Daily
	}
	ctx, c := context.Background(), w.next().client()
	if _, err := c.Create(ctx, request); err != nil {
		w.Fatal(err)
	}
	if _, err := c.Deduct(ctx, name, client.DeductRequest{RequestID: "a", Amount: 100}); err != nil {
		w.Fatal(err)
	}
}

// revive returns flags for a kind of budget that loses its end: a rule without a quantity requires
// one.
func revive(kind string) string {
	if kind == "daily" {
		return " --every day --quantity 1000"
	}
	return ""
}
