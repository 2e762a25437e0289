package transfer_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/budgetd/budgetd/allocation/reference"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/iana"
	"github.com/budgetd/budgetd/ledger"
)

// yearRule is a rule with a suitable pace of events.
type yearRule struct {
	name string
	rule budget.Rule
	pace time.Duration
	use  int64
}

var yearRules = []yearRule{
	{"free", budget.Rule{Kind: budget.Free}, 60 * time.Hour, 1_500_000},
	{"windows", budget.Rule{Kind: budget.Windows, Windows: []budget.Window{
		{From: "00:00", To: "06:00", Quantity: 2_000}, {From: "06:00", To: "12:00", Quantity: 3_000},
		{From: "14:30", To: "24:00", Quantity: 6_000}}}, 3 * time.Hour, 30_000},
	{"hours", budget.Rule{Kind: budget.Calendar, Every: budget.Hour}, 30 * time.Minute, 3_000},
	{"hours of 500", budget.Rule{Kind: budget.Calendar, Every: budget.Hour, Quantity: 500},
		30 * time.Minute, 3_000},
	{"days", budget.Rule{Kind: budget.Calendar, Every: budget.Day}, 8 * time.Hour, 150_000},
	{"days of 11000", budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: 11_000},
		8 * time.Hour, 150_000},
	{"weeks of 80000", budget.Rule{Kind: budget.Calendar, Every: budget.Week, Quantity: 80_000},
		48 * time.Hour, 900_000},
	{"months", budget.Rule{Kind: budget.Calendar, Every: budget.Month}, 100 * time.Hour, 3_000_000},
}

func referenceRule(rule budget.Rule) reference.Rule {
	to := reference.Rule{Kind: string(rule.Kind), Every: string(rule.Every), Quantity: rule.Quantity,
		Unused: string(rule.Unused)}
	for _, w := range rule.Windows {
		to.Windows = append(to.Windows, reference.Window{From: w.From, To: w.To, Quantity: w.Quantity})
	}
	return to
}

// year is the life of a daily budget beside the reference books, which share no code with it.
type year struct {
	*world
	id   int64
	d    budget.Definition
	book *reference.Book
	// accepted and refused count deductions.
	accepted, refused int
}

// TestAYearOfDailyMode checks that every rule, with every destination of unused units and late
// refunds, matches the reference books to the unit at any instant, on days of 23, 24 and 25 hours (I1,
// I2, I3).
func TestAYearOfDailyMode(t *testing.T) {
	location, err := iana.Zone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2027, time.February, 10, 9, 30, 0, 0, location).UTC()
	end := start.AddDate(1, 0, 0)
	wheres := []budget.Where{budget.Spread, budget.Next, budget.Forfeit}
	lates := []budget.Where{budget.ToTotal, budget.Next, budget.Forfeit}
	seed, refused := uint64(0), 0
	for k, of := range yearRules {
		periods := reference.Periods(referenceRule(of.rule), location, start, end)
		for i, unused := range wheres {
			rule, late := of.rule, lates[(i+k)%3]
			if rule.Unused = unused; rule.Kind == budget.Free {
				rule.Unused = ""
			}
			seed++
			d := promo("year", 3_650_000, 2+int(seed%2))
			d.Type, d.Rule, d.Timezone, d.LateRefund = budget.Daily, &rule, "Europe/Berlin", late
			d.StartAt, d.EndAt = start, end
			events := reference.Events(rand.New(rand.NewPCG(seed, 5)), referenceRule(rule), periods,
				reference.Pace{Pause: of.pace, Gap: 60 * dayLong, GapEvery: 12, Use: of.use,
					Append: 200_000, Shrink: 250_000})
			driver := "sqlite"
			if i == k%3 && k%4 == 1 {
				driver = "mysql"
			}
			t.Run(fmt.Sprintf("%s/unused %s/late %s/%s", of.name, unused, late, driver),
				func(t *testing.T) {
					y := &year{world: newWorld(t, driver), d: d}
					y.live(events[:min(len(events), 45)], periods)
					refused += y.refused
				})
		}
	}
	if refused < len(yearRules) {
		t.Errorf("too little was refused: %d deductions", refused)
	}
}

// live plays the year.
func (y *year) live(events []reference.Event, periods []reference.Period) {
	y.at(y.d.StartAt)
	y.id = y.create(y.d).ID
	y.book = reference.NewBook(referenceRule(*y.d.Rule), periods, string(y.d.LateRefund), y.d.TotalQuantity)
	for i, e := range events {
		y.at(e.At)
		must(y.rolledOver(y.id))(y.world)
		y.happen(i, e)
		if i%8 == 7 {
			y.compare(fmt.Sprintf("after event %d %+v", i, e))
		}
		if y.Failed() {
			return
		}
	}
	y.at(y.d.EndAt)
	must(y.rolledOver(y.id))(y.world)
	y.book.RollTo(y.d.EndAt)
	y.compare("at the end")
	f := y.figures(y.id)
	if f.Undistributed != 0 || f.InBuckets != 0 || f.Returning != 0 || f.Online != 0 {
		y.Errorf("expired: %+v", f)
	}
	if y.accepted < 15 {
		y.Errorf("too little happened: %d accepted", y.accepted)
	}
}

// happen applies an event on both sides.
func (y *year) happen(i int, e reference.Event) {
	y.Helper()
	reply := y.book.Apply(e)
	accepted := reply.Answer == reference.Accepted
	switch {
	case e.Use > 0 && accepted:
		y.accepted++
		y.take(fmt.Sprint("use-", i), e.Use)
	case e.Use > 0:
		y.refused++
		f := y.figures(y.id)
		if left := f.Undistributed + f.InBuckets; f.Period.Start.After(e.At) || f.Period.Over {
			return
		} else if left != reply.Available || left >= e.Use {
			y.Errorf("event %d asks for %d: %d are left, want %d", i, e.Use, left, reply.Available)
		}
	case e.Refund > 0 && accepted:
		y.refund(i, e)
	case e.Refund > 0:
	case e.Quantity > 0:
		rule := *y.d.Rule
		rule.Quantity = e.Quantity
		y.d.Rule = &rule
		_, err := y.defs.Change(y.ctx, y.id, bucket.Change{Rule: &rule})
		y.ok(err)
		must(y.rolledOver(y.id))(y.world)
	default:
		_, err := y.defs.Adjust(y.ctx, manage.Adjustment{Budget: y.id, Quantity: e.Change,
			RequestID: fmt.Sprint("change-", i), Nonce: "n"})
		if (err == nil) != accepted {
			y.Errorf("event %d %+v: %v, want %+v", i, e, err, reply)
		}
	}
}

// take deducts units as a bringing flight does, a part from each bucket with units.
func (y *year) take(id string, units int64) {
	y.Helper()
	must(y.part.Distribute(y.ctx, y.id))(y.world)
	for part := 0; units > 0 && part < 20; {
		b := y.read(y.id)
		for i := range b.Buckets {
			if n := min(units, b.Buckets[i].Epoch.Outstanding); n > 0 {
				y.use(b.Buckets[i].ID, fmt.Sprintf("%s/%d", id, part), n)
				units, part = units-n, part+1
			}
		}
		if units > 0 && y.apply(y.id, b.Buckets[0].ID, units) == 0 {
			break
		}
	}
	if units > 0 {
		y.Errorf("%d units of %s cannot be deducted", units, id)
	}
}

// refund gives units of a deduction back, part by part, and sweeps them.
func (y *year) refund(i int, e reference.Event) {
	y.Helper()
	left := e.Refund
	for part := 0; left > 0 && part < 20; part++ {
		id := fmt.Sprintf("use-%d/%d", e.Of, part)
		units, ended := y.returnable(id)
		if n := min(left, units); n > 0 {
			y.giveBack(y.id, id, fmt.Sprint("refund-", i), n, ended)
			left -= n
		}
	}
	if left > 0 {
		y.Errorf("event %d: %d units of event %d could not be given back", i, left, e.Of)
	}
	must(y.part.Sweep(y.ctx, []int64{y.id}))(y.world)
}

// compare compares every figure of the budget and of its periods with the books.
func (y *year) compare(when string) {
	y.Helper()
	f := y.figures(y.id)
	if f.Unfunded != y.book.NotFunded || f.Forfeited != y.book.Forfeited || f.Total != y.book.Total {
		y.Fatalf("%s: F %d, X %d, T %d, want %d, %d, %d", when, f.Unfunded, f.Forfeited, f.Total,
			y.book.NotFunded, y.book.Forfeited, y.book.Total)
	}
	usedIn, epochs := map[int64]int64{}, y.epochs(y.id)
	for i := range epochs {
		usedIn[epochs[i].Row.Period] += epochs[i].Row.Used
	}
	list := y.periods(y.id)
	if f.Period.Over {
		list = list[:len(list)-1]
	}
	if len(list) != len(y.book.Pages) || f.Period.Over != y.book.Over {
		y.Fatalf("%s: %d periods, over %v, want %d, %v", when, len(list), f.Period.Over,
			len(y.book.Pages), y.book.Over)
	}
	for i, row := range list {
		page := y.book.Pages[i]
		got := reference.Page{Start: page.Start, End: page.End, Period: page.Period, Funded: row.Funded,
			Carried: row.Carried, Used: usedIn[row.Number], Before: row.Before,
			Returned: row.Returned, Passed: row.Passed, Forfeited: row.Forfeited}
		if got != page || !row.Start.Equal(page.Start) || !row.End.Equal(page.End) {
			y.Fatalf("%s: period %d: %+v (%s to %s), want %+v", when, i, got, row.Start, row.End, page)
		}
	}
	found := ledger.CheckPeriods(f, f.Period, y.periods(y.id), epochs)
	for _, d := range append(found, ledger.CheckBudget(f, f.Total, 0)...) {
		y.Errorf("%s: %s", when, d)
	}
}
