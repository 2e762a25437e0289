package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"
	_ "time/tzdata" // zones, also where the machine has none

	"github.com/budgetd/budgetd/allocation/naive"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/internal/sqlstore"
	"github.com/budgetd/budgetd/internal/storetest"
)

// year is the life of a daily budget, lived by services on a clock that the test moves, beside the naive
// books, which share no code with them.
type year struct {
	*testing.T
	w     *world
	clock *storetest.SQLClock
	s     *bucket.Service // nil: none runs
	d     budget.Definition
	ref   bucket.BudgetRef
	book  *naive.Book
	list  []naive.Event
	// idle counts stretches without a service, answers the answers.
	idle    int
	answers map[naive.Answer]int
}

// yearRule is a rule with a pace of events that suits it.
type yearRule struct {
	name string
	rule budget.Rule
	pace time.Duration
	use  int64
}

var yearRules = []yearRule{
	{"free", budget.Rule{Kind: budget.Free}, 60 * time.Hour, 1_500_000},
	{"windows", budget.Rule{Kind: budget.Windows, Windows: []budget.Window{{From: "00:00", To: "06:00", Quantity: 2_000},
		{From: "06:00", To: "12:00", Quantity: 3_000}, {From: "14:30", To: "24:00", Quantity: 6_000}}},
		3 * time.Hour, 30_000},
	{"hours", budget.Rule{Kind: budget.Calendar, Every: budget.Hour}, 30 * time.Minute, 3_000},
	{"hours of 500", budget.Rule{Kind: budget.Calendar, Every: budget.Hour, Quantity: 500}, 30 * time.Minute, 3_000},
	{"days", budget.Rule{Kind: budget.Calendar, Every: budget.Day}, 8 * time.Hour, 150_000},
	{"days of 11000", budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: 11_000}, 8 * time.Hour, 150_000},
	{"weeks", budget.Rule{Kind: budget.Calendar, Every: budget.Week}, 48 * time.Hour, 900_000},
	{"weeks of 80000", budget.Rule{Kind: budget.Calendar, Every: budget.Week, Quantity: 80_000}, 48 * time.Hour, 900_000},
	{"months", budget.Rule{Kind: budget.Calendar, Every: budget.Month}, 100 * time.Hour, 3_000_000},
	{"months of 300000", budget.Rule{Kind: budget.Calendar, Every: budget.Month, Quantity: 300_000}, 100 * time.Hour, 3_000_000},
}

func naively(rule budget.Rule) naive.Rule {
	to := naive.Rule{Kind: string(rule.Kind), Every: string(rule.Every), Quantity: rule.Quantity, Unused: string(rule.Unused)}
	for _, w := range rule.Windows {
		to.Windows = append(to.Windows, naive.Window{From: w.From, To: w.To, Quantity: w.Quantity})
	}
	return to
}

// TestAYearOfDailyMode: every rule, with every choice of what becomes of unused units and of late refunds,
// matches the naive books to the unit, whatever is asked when (I1, I2, I3, I8).
func TestAYearOfDailyMode(t *testing.T) {
	location, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2027, time.February, 10, 9, 30, 0, 0, location).UTC()
	end := start.AddDate(1, 0, 0)
	known := map[string][]naive.Period{} // the books ask the rule for a calendar period's quantity
	seed := uint64(0)
	for _, of := range yearRules {
		periods := known[string(of.rule.Kind+"/"+budget.RuleKind(of.rule.Every))]
		if periods == nil {
			periods = naive.Periods(naively(of.rule), location, start, end)
			known[string(of.rule.Kind+"/"+budget.RuleKind(of.rule.Every))] = periods
		}
		for _, unused := range []budget.Where{budget.Spread, budget.Next, budget.Forfeit} {
			for _, late := range []budget.Where{budget.ToTotal, budget.Next, budget.Forfeit} {
				rule := of.rule
				if rule.Unused = unused; rule.Kind == budget.Free {
					if unused != budget.Spread {
						continue
					}
					rule.Unused = ""
				}
				seed++
				y := &year{book: nil, d: budget.Definition{Tenant: budget.DefaultTenant, Name: "year", Unit: budget.Count,
					Durability: budget.Ledger, Type: budget.Daily, Rule: &rule, Timezone: "Europe/Berlin", LateRefund: late,
					StartAt: start, EndAt: end, TotalQuantity: 3_650_000, BucketQuantity: 2 + int(seed%2)}}
				r := rand.New(rand.NewPCG(seed, 5))
				y.list = naive.Events(r, naively(rule), periods, naive.Pace{Pause: of.pace, Gap: 60 * 24 * time.Hour,
					GapEvery: 12, Use: of.use, Append: 200_000, Shrink: 250_000})
				y.list = y.list[:min(len(y.list), 150)]
				t.Run(fmt.Sprintf("%s/unused %s/late %s", of.name, unused, late), func(t *testing.T) {
					for _, where := range yearWorlds(of.name, unused, late) {
						t.Run(where, func(t *testing.T) {
							t.Parallel()
							one := *y
							one.live(t, where, periods)
						})
					}
				})
			}
		}
	}
}

// yearWorlds are where a year is lived: all of them in memory, some in the others too.
func yearWorlds(name string, unused, late budget.Where) []string {
	worlds := []string{"memory"}
	switch fmt.Sprint(name, "/", unused, "/", late) {
	case "windows/next/forfeit", "days of 11000/spread/next", "months/forfeit/total":
		worlds = append(worlds, "sqlite")
	case "free/spread/next", "windows/spread/total", "hours/forfeit/next", "days/next/total", "days of 11000/forfeit/forfeit",
		"weeks of 80000/next/next":
		worlds = append(worlds, "memory in store mode")
	}
	return worlds
}

// live lives the year.
func (y *year) live(t *testing.T, where string, periods []naive.Period) {
	y.T, y.answers = t, map[naive.Answer]int{}
	y.clock = storetest.NewSQLClock()
	y.clock.Advance(y.d.StartAt.Sub(y.clock.Now()))
	y.w = &world{t: t}
	switch where {
	case "sqlite":
		db, err := sqlstore.Open(context.Background(), sqlstore.Config{Driver: "sqlite", Clock: y.clock.Now,
			DSN: filepath.Join(t.TempDir(), "budgetd.db")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		y.w.sql = db
		y.w.connect = func() map[string]bucket.Instance { return map[string]bucket.Instance{"rows": db.Rows("rows", 1)} }
	default:
		if where != "memory" {
			y.w.durability = budget.Store
		}
		y.w.sql = memstore.NewSQL(y.clock.Now)
		servers := map[string]*memstore.Server{}
		for _, name := range []string{"m0", "m1"} {
			servers[name] = memstore.NewServer(name, 1)
			servers[name].Now = y.clock.Now
		}
		y.w.connect = func() map[string]bucket.Instance {
			out := map[string]bucket.Instance{}
			for name, server := range servers {
				out[name] = server.Connect()
			}
			return out
		}
	}
	y.start()
	y.ref = y.w.create(y.s, y.d)
	y.book = naive.NewBook(naively(*y.d.Rule), periods, string(y.d.LateRefund), y.d.TotalQuantity)
	month := y.d.StartAt.Month()
	for i, e := range y.list {
		y.advance(i, e.At)
		if e.At.Month() != month {
			month = e.At.Month()
			y.book.TurnTo(e.At)
			y.compare(fmt.Sprintf("before event %d", i))
		}
		y.happen(i, e)
	}
	y.compare("after all events")
	y.expire()
	if y.answers[naive.Accepted] < 30 || y.answers[naive.PeriodExhausted]+y.answers[naive.BudgetExhausted] < 1 || y.idle < 1 {
		t.Errorf("too little happened: %v, %d stretches without a service", y.answers, y.idle)
	}
}

func (y *year) start() { y.s = y.w.node(quick) }

func (y *year) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := y.s.Stop(ctx); err != nil {
		y.Fatalf("stop: %v", err)
	}
	y.s = nil
}

// advance moves the clock to an instant. Over some of the long stretches no service runs. In store mode none
// does over any: one that runs would take the jump for a silence of its own, and its lanes would have to be
// recovered first, while a roll-over leaves what is out of reach to later.
func (y *year) advance(i int, to time.Time) {
	by := to.Sub(y.clock.Now())
	if y.w.durability != budget.Store && (by < 3*24*time.Hour || i%2 == 0) {
		y.clock.Advance(by)
		return
	}
	y.stop()
	y.clock.Advance(by)
	y.start()
	y.idle++
}

// happen lets an event happen on both sides and compares the answers.
func (y *year) happen(i int, e naive.Event) {
	want := y.book.Happen(e)
	y.answers[want.Answer]++
	var err error
	y.until(fmt.Sprintf("an answer to event %d", i), func() bool {
		err = y.ask(i, e)
		code := budget.CodeOf(err)
		// In store mode a node that was silent for days, as the jump of the clock makes it, has to prove itself anew.
		return y.w.durability != budget.Store || code != budget.Unavailable && code != budget.OutcomeUnknown
	})
	if e.Refund > 0 {
		y.swept()
	}
	got := naive.Reply{Answer: naive.Accepted}
	if err != nil {
		got = replyOf(err)
	}
	// A rollback names no figure. In store mode what was deducted may not be in the ledger yet.
	behind := y.w.durability == budget.Store && e.Use > 0 && got.Available > want.Available
	if e.Refund > 0 || behind {
		got.Available, want.Available = 0, 0
	}
	if got != want {
		y.Fatalf("event %d %+v: %+v (%v), want %+v", i, e, got, err, want)
	}
}

// ask lets an event happen at the service. Asking again is harmless.
func (y *year) ask(i int, e naive.Event) (err error) {
	ctx := context.Background()
	switch {
	case e.Use > 0:
		_, err = deduct(y.s, y.ref, fmt.Sprintf("use-%d", i), e.Use)
	case e.Refund > 0:
		_, err = y.s.Rollback(ctx, bucket.RollbackRequest{Budget: y.ref, RequestID: fmt.Sprintf("use-%d", e.Of),
			RollbackID: fmt.Sprintf("refund-%d", i), Amount: e.Refund})
	case e.Quantity > 0:
		rule := *y.d.Rule
		rule.Quantity = e.Quantity
		_, err = y.s.Change(ctx, y.ref, bucket.Change{Rule: &rule})
	default:
		_, err = y.s.Adjust(ctx, bucket.AdjustRequest{Budget: y.ref, RequestID: fmt.Sprintf("change-%d", i),
			Quantity: e.Change})
	}
	return err
}

// replyOf is an error in the words of the books.
func replyOf(err error) naive.Reply {
	var e *budget.Error
	if !errors.As(err, &e) {
		return naive.Reply{Answer: naive.Answer(err.Error())}
	}
	reply := naive.Reply{Answer: naive.Answer(e.Code)}
	switch e.Code {
	case budget.PeriodExhausted:
		reply.Answer = naive.PeriodExhausted
	case budget.BudgetExhausted:
		reply.Answer = naive.BudgetExhausted
	case budget.AmountExceedsRemaining, budget.AlreadyRolledBack, budget.DeductionNotFound, budget.BudgetExpired:
		reply.Answer = naive.Refused
	}
	if e.Available != nil {
		reply.Available = *e.Available
	}
	return reply
}

// until waits for a condition.
func (y *year) until(what string, is func() bool) {
	y.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			y.Fatalf("still not: %s", what)
		}
	}
}

// turned waits until the service has rolled the budget over.
func (y *year) turned() {
	y.Helper()
	y.until("rolled over", func() bool {
		ids, err := y.w.sql.Over(context.Background(), 10)
		if err != nil {
			y.Fatal(err)
		}
		return len(ids) == 0
	})
}

// swept waits until what was given back is where it belongs.
func (y *year) swept() {
	y.Helper()
	y.turned()
	if _, err := y.w.sql.Sweep(context.Background(), y.ref.ID); err != nil { // as any node may
		y.Fatal(err)
	}
}

// compare compares every figure of the budget and of its periods with the books.
func (y *year) compare(when string) {
	y.Helper()
	y.turned()
	used := int64(0)
	for i := range y.book.Pages {
		used += y.book.Pages[i].Used
	}
	y.w.settled(y.s, y.ref, used)
	a, err := y.w.sql.Accounts(context.Background(), y.ref.ID)
	if err != nil {
		y.Fatal(err)
	}
	if f := a.Figures; f.Unfunded != y.book.NotFunded || f.Forfeited != y.book.Forfeited || f.Total != y.book.Total {
		y.Fatalf("%s: F %d, X %d, T %d, want %d, %d, %d", when, f.Unfunded, f.Forfeited, f.Total, y.book.NotFunded,
			y.book.Forfeited, y.book.Total)
	}
	usedIn := map[int64]int64{}
	for i := range a.Epochs {
		usedIn[a.Epochs[i].Row.Period] += a.Epochs[i].Row.Used
	}
	rows := a.Periods
	if a.Current.Over {
		rows = rows[:len(rows)-1]
	}
	if len(rows) != len(y.book.Pages) || a.Current.Over != y.book.Over {
		y.Fatalf("%s: %d periods, over %v, want %d, %v", when, len(rows), a.Current.Over, len(y.book.Pages), y.book.Over)
	}
	for i, row := range rows {
		want := y.book.Pages[i]
		if !row.Start.Equal(want.Start) || !row.End.Equal(want.End) {
			y.Fatalf("%s: period %d is %s to %s, want %s to %s", when, i, row.Start, row.End, want.Start, want.End)
		}
		got := naive.Page{Start: want.Start, End: want.End, Period: want.Period, Funded: row.Funded, Carried: row.Carried,
			Used: usedIn[row.Number], Before: row.Before, Returned: row.Returned, Passed: row.Passed, Forfeited: row.Forfeited}
		if got != want {
			y.Fatalf("%s: period %d: %+v, want %+v", when, i, got, want)
		}
	}
}

// expire goes to the end: what was not used is back, or forfeited, and nothing can be deducted any more. What
// comes back then is in the books, too.
func (y *year) expire() {
	y.Helper()
	y.advance(0, y.d.EndAt)
	y.book.TurnTo(y.d.EndAt)
	y.compare("at the end")
	n := len(y.list)
	last := n - 1
	for last > 0 && (y.list[last].Use == 0 || y.book.Replies[last].Answer != naive.Accepted) {
		last--
	}
	y.list = append(slices.Clone(y.list), naive.Event{At: y.clock.Now(), Use: 1}, naive.Event{At: y.clock.Now(), Refund: 1, Of: last})
	y.happen(n, y.list[n])
	y.happen(n+1, y.list[n+1])
	y.compare("after the end")
	f := y.w.quiet(y.s, y.ref).Figures
	if f.Undistributed != 0 || f.Remaining != 0 || f.Unsettled != 0 || f.Returning != 0 || f.Online != 0 {
		y.Errorf("expired: %+v", f)
	}
	if _, err := deduct(y.s, y.ref, "late", 1); !budget.Is(err, budget.BudgetExpired) {
		y.Errorf("a deduction after the end: %v", err)
	}
}
