package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/cmd/budgetctl/workload"
)

// ending sells small budgets one after the other from the first unit to the last, in single calls
// through one node or several. Most of the time buckets have little and requests ask for much. CPU
// time and calls a second are those of all calls with an outcome, accepted or refused; latency is
// that of attempts. It is compared with the middle: the same calls to a budget that does not end.
type ending struct {
	durability string
	nodes      int
	away       *time.Duration // SQL, and in store mode each Redis
}

// Each budget has endingUnits in endingBuckets, and endingCalls for up to endingMost units each:
// about twice as much is asked for as there is. No call is sent after endingSeconds.
const (
	endingBudgets = 200
	endingBuckets = 16
	endingUnits   = 2_000
	endingMost    = 50
	endingCalls   = 160
	endingCallers = 32
	endingRedis   = 3
	endingSeconds = 20
	endless       = 1_000_000_000_000
)

func (e ending) measure(s *stage) (measurement, error) {
	b, err := s.budgetd(ours{durability: e.durability, nodes: e.nodes, instances: endingRedis,
		sqlAway: e.away, redisAway: e.away})
	if err != nil {
		return measurement{}, err
	}
	c, err := client.New("http://" + b.address)
	if err != nil {
		return measurement{}, err
	}
	middle, err := newSale(s, c, "middle", e.durability, endingBuckets, 1, endless)
	if err != nil {
		return measurement{}, err
	}
	mid, _, err := middle.sell(s.ctx, b, endingCallers, s.seconds(2), s.seconds(5))
	if err != nil {
		return measurement{}, err
	}
	end, err := newSale(s, c, "ending", e.durability, endingBuckets, max(s.scaled(endingBudgets), 2),
		endingUnits)
	if err != nil {
		return measurement{}, err
	}
	m, longest, err := end.sell(s.ctx, b, endingCallers, 0, s.seconds(endingSeconds))
	if err == nil && end.accepted.Load() == 0 {
		err = errors.New("no call was accepted")
	}
	if err != nil {
		return m, err
	}
	begun := min(int(end.drawn.Load()-1)/endingCalls+1, len(end.budgets))
	m.note = fmt.Sprintf("%d of %d budgets; ", begun, len(end.budgets))
	end.conclude(&m, mid, longest)
	return m, errors.Join(middle.settle(0), end.settle(begun))
}

// conclude makes calls a second and CPU time those of the calls with an outcome, and adds the
// figures that only endings have.
func (s *sale) conclude(end *measurement, middle measurement, longest time.Duration) {
	refused, unclear := float64(s.refused.Load()), float64(s.unclear.Load())
	decided := float64(s.accepted.Load()) + refused
	share := decided / (decided + unclear)
	end.perS *= share
	for i := range end.cpu {
		end.cpu[i].us /= share
	}
	end.named = []figure{{"longest, ms", milliseconds(longest)},
		{"refused, % of the calls with an outcome", 100 * refused / decided},
		{"attempts without an outcome, %", 100 * (1 - share)},
		{"middle, per second", middle.perS}, {"middle, p99 ms", middle.p99},
		{"end ÷ middle", end.perS / middle.perS}}
}

// sale sells budgets, endingCalls of each, or all calls of a single one.
type sale struct {
	stage   *stage
	client  *client.Client
	name    string
	budgets []books
	all     []*seller
	drawn   atomic.Int64 // calls

	accepted, refused, unclear atomic.Int64 // answers; unclear ones say nothing of the outcome
}

// newSale creates the budgets of a sale.
func newSale(
	s *stage, c *client.Client, name, durability string, buckets, budgets int, units int64,
) (*sale, error) {
	out := &sale{stage: s, client: c, name: name, budgets: make([]books, budgets)}
	return out, s.create(c, budgets, func(i int) client.CreateRequest {
		out.budgets[i].total = units
		return client.CreateRequest{Name: out.budget(i), TotalQuantity: units,
			BucketQuantity: buckets, Durability: budget.Durability(durability)}
	})
}

func (s *sale) budget(i int) string { return fmt.Sprint(s.name, "-", i) }

// books are what the callers know of one budget.
type books struct {
	total int64
	// asked is the units of all calls that were sent and not refused, taken those of accepted ones.
	asked, taken atomic.Int64
}

// refuse records a refusal. It returns an error if the refusal was false: the units of all calls
// that were sent and not refused would have left enough for this one. In doubt, when an earlier
// attempt has no outcome, the units stay among those that were asked for.
func (b *books) refuse(amount int64, doubt bool) error {
	others := b.asked.Load() - amount
	if !doubt {
		others = b.asked.Add(-amount)
	}
	if left := b.total - others; left >= amount {
		return fmt.Errorf("false refusal of %d units: at least %d were left", amount, left)
	}
	return nil
}

// seller makes the deductions of one connection. It repeats a call without an outcome.
type seller struct {
	sale   *sale
	call   int64 // of the sale
	amount int64
	open   bool // the call has no outcome
	doubt  bool // an attempt of it may have had an effect
}

// sell sells for a time, or until endingCalls have been made for each of several budgets.
func (s *sale) sell(
	ctx context.Context, b budgetd, callers int, warmup, most time.Duration,
) (m measurement, longest time.Duration, err error) {
	posters := make([]*poster, callers)
	for i := range posters {
		one := &seller{sale: s}
		s.all = append(s.all, one)
		posters[i] = &poster{next: one.next, answer: one.answer}
	}
	plan := workload.Plan{Duration: most}
	if len(s.budgets) > 1 {
		plan.Calls = int64(len(s.budgets) * endingCalls)
	}
	return s.stage.drive(ctx, b, warmup, plan, posters)
}

func (s *seller) at() int {
	return int(min(s.call/endingCalls, int64(len(s.sale.budgets)-1)))
}

func (s *seller) id() string { return s.sale.name + "-" + strconv.FormatInt(s.call, 10) }

func (s *seller) next(body []byte) (string, []byte) {
	if !s.open {
		s.call = s.sale.drawn.Add(1) - 1
		s.amount = 1 + rand.Int64N(endingMost) //nolint:gosec // a load
		s.open, s.doubt = true, false
		s.sale.budgets[s.at()].asked.Add(s.amount)
	}
	return "/v1/budgets/" + s.sale.budget(s.at()) + "/deduct",
		fmt.Appendf(body, `{"request_id":%q,"amount":%d}`, s.id(), s.amount)
}

// pause is how long a caller waits before it repeats a call without an outcome.
const pause = 20 * time.Millisecond

func (s *seller) answer(status int, body []byte) error {
	b := &s.sale.budgets[s.at()]
	switch {
	case status == http.StatusOK:
		s.open = false
		s.sale.accepted.Add(1)
		b.taken.Add(s.amount)
	case status == http.StatusConflict && bytes.Contains(body, []byte(`"code":"budget_exhausted"`)):
		s.open = false
		s.sale.refused.Add(1)
		return b.refuse(s.amount, s.doubt)
	case status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout, status == 0:
		s.doubt = s.doubt || status != http.StatusServiceUnavailable
		s.sale.unclear.Add(1)
		time.Sleep(pause)
	default:
		return errors.New("an unexpected answer")
	}
	return nil
}

// settle gives the calls that are still open an outcome. Then it takes what each of the first n
// budgets has left in a single call, which must be accepted, and one unit more, which must be
// refused, and checks that exactly the total is used.
func (s *sale) settle(n int) error {
	if err := s.stage.each(len(s.all), func(ctx context.Context, i int) error {
		one := s.all[i]
		if !one.open {
			return nil
		}
		_, err := s.client.Deduct(ctx, s.budget(one.at()), client.DeductRequest{RequestID: one.id(),
			Amount: one.amount})
		if err == nil {
			s.budgets[one.at()].taken.Add(one.amount)
		} else if client.CodeOf(err) != budget.BudgetExhausted {
			return err
		}
		return nil
	}); err != nil {
		return err
	}
	return s.stage.each(n, func(ctx context.Context, i int) error {
		b := &s.budgets[i]
		take := func(amount int64) error {
			_, err := s.client.Deduct(ctx, s.budget(i), client.DeductRequest{
				RequestID: client.NewRequestID(), Amount: amount})
			return err
		}
		if left := b.total - b.taken.Load(); left > 0 {
			if err := take(left); err != nil {
				return fmt.Errorf("%s: the last %d units: %w", s.budget(i), left, err)
			}
		}
		if err := take(1); client.CodeOf(err) != budget.BudgetExhausted {
			return fmt.Errorf("%s: a unit more than there are: %w", s.budget(i), err)
		}
		audit, err := s.client.Audit(ctx, s.budget(i))
		if err != nil {
			return err
		}
		if !audit.OK || audit.Used != b.total {
			return fmt.Errorf("%s: not all of %d units are used: %+v", s.budget(i), b.total, audit)
		}
		return nil
	})
}

// bucketed is the row of a budget in ledger mode with a number of buckets, sold by callers that
// share the nodes equally. Each bucket that a flight touches is a row more for SQL, and nodes that
// touch the same bucket wait for each other.
type bucketed struct {
	buckets, nodes int
	away           *time.Duration // SQL
}

const bucketedCallers = 64

func (r bucketed) measure(s *stage) (measurement, error) {
	b, err := s.budgetd(ours{durability: "ledger", nodes: r.nodes, sqlAway: r.away})
	if err != nil {
		return measurement{}, err
	}
	c, err := client.New("http://" + b.address)
	if err != nil {
		return measurement{}, err
	}
	sold, err := newSale(s, c, "buckets", "ledger", r.buckets, 1, endless)
	if err != nil {
		return measurement{}, err
	}
	m, _, err := sold.sell(s.ctx, b, bucketedCallers, s.seconds(2), s.seconds(5))
	if err != nil {
		return m, err
	}
	return m, sold.settle(0)
}
