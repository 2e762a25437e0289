package usage

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// prediction is a request and the prediction of its answer so far.
type prediction struct {
	request bucket.CheckRequest
	b       *bucket.Budget
	touches []limit.Touch
	answer  bucket.CheckAnswer
	// err is the answer: a refusal, or the reason why no prediction is possible. It is nil as long as
	// the request would be accepted.
	err error
	// cover is I3's sum. It is nil until it was read.
	cover *ledger.Cover
}

// result returns the answer.
func (c *prediction) result() bucket.CheckAnswer {
	c.answer.Err = c.err
	return c.answer
}

// predict evaluates requests as a deduct would: against the definitions, I3's sums and the limits.
func (s *Service) predict(ctx context.Context, cases []*prediction) {
	s.rollOver(ctx, cases)
	for _, c := range cases {
		if c.err == nil {
			c.judgeDefinition(s.DB.Now())
		}
	}
	s.readCovers(ctx, cases, false)
	s.readCovers(ctx, cases, true)
	s.readLimits(ctx, cases)
	now := s.DB.Now()
	for _, c := range cases {
		if c.err == nil {
			c.judgeCover(now)
		}
	}
}

// rollOver rolls over each budget whose period is over, once.
func (s *Service) rollOver(ctx context.Context, cases []*prediction) {
	if s.RollOver == nil {
		return
	}
	turned := map[int64]*prediction{}
	for _, c := range cases {
		if c.err != nil || !c.b.Period.OverAt(s.DB.Now()) ||
			c.b.RefusalNow(c.request.Amount, s.DB.Now()) != nil {
			continue
		}
		id := c.b.ID
		if turned[id] == nil {
			turned[id] = c
			if c.err = s.failed(s.RollOver(ctx, id)); c.err == nil {
				if b, err := s.Budgets.Reload(ctx, id); err != nil {
					c.err = err
				} else {
					c.b = b
				}
			}
		}
		c.b, c.err = turned[id].b, turned[id].err
	}
}

// judgeDefinition evaluates a request against its budget's definition.
func (c *prediction) judgeDefinition(now time.Time) {
	if refusal := c.b.RefusalNow(c.request.Amount, now); refusal != nil {
		c.err = refusal
		return
	}
	set := c.b.LimitSet()
	if len(c.request.Counts) == 0 && (set == nil || len(set.List) == 0) {
		return
	}
	faults := append(set.CheckDimensions(c.request.Dimensions), set.CheckCounts(c.request.Counts)...)
	if len(faults) > 0 {
		c.err = &budget.Error{Code: budget.Invalid, Op: "deduct", Fields: faults,
			Message: "the limits of the budget cannot judge the request"}
		return
	}
	c.touches, _ = set.Touches(c.request.Amount, c.request.Dimensions, c.request.Counts)
}

// readCovers reads I3's sums of all the budgets in one statement. With exact it reads again the
// sums that the first read found too small; this second read begins after the first has ended (I3).
func (s *Service) readCovers(ctx context.Context, cases []*prediction, exact bool) {
	var ids []int64
	asks := func(c *prediction) bool {
		return c.err == nil && !c.b.Unlimited &&
			(!exact || c.cover != nil && c.cover.Sum() < c.request.Amount)
	}
	seen := map[int64]bool{}
	for _, c := range cases {
		if asks(c) && !seen[c.b.ID] {
			seen[c.b.ID] = true
			ids = append(ids, c.b.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	covers, err := s.Lookup.Covers(ctx, ids, exact)
	err = s.failed(err)
	for _, c := range cases {
		if !asks(c) {
			continue
		}
		cover, known := covers[c.b.ID]
		switch {
		case err != nil:
			c.err = err
		case !known:
			c.err = budget.Refuse(budget.BudgetNotFound, "deduct", "budget %s no longer exists",
				c.b.Name)
		default:
			c.cover = &cover
		}
	}
}

// readLimits reads how far the limits of all requests are used, in one statement, and evaluates the
// requests against them.
func (s *Service) readLimits(ctx context.Context, cases []*prediction) {
	var asked []bucket.Touched
	var of []*prediction
	for _, c := range cases {
		if c.err == nil && len(c.touches) > 0 {
			asked = append(asked, bucket.Touched{Budget: c.b.ID, Touches: c.touches})
			of = append(of, c)
		}
	}
	if len(asked) == 0 {
		return
	}
	tallies, err := s.Tallies(ctx, asked)
	if err != nil {
		err = s.failed(err)
		for _, c := range of {
			c.err = err
		}
		return
	}
	now := s.DB.Now()
	for i, c := range of {
		for j := range c.touches {
			c.answer.Limits = append(c.answer.Limits, c.touches[j].State(tallies[i][j]))
		}
		if c.cover != nil && c.cover.Sum() < c.request.Amount {
			continue // the budget's refusal takes precedence
		}
		if refused := limit.Exceeded(c.touches, tallies[i]); refused != nil {
			c.err = c.b.LimitExceeded(refused, now)
			c.figures()
		}
	}
}

// judgeCover evaluates a request against I3's sum.
func (c *prediction) judgeCover(now time.Time) {
	c.figures()
	if c.cover != nil && c.cover.Sum() < c.request.Amount {
		c.err = c.b.Exhausted(*c.cover, c.request.Amount, now)
	}
}

// figures sets the budget's figures in the answer.
func (c *prediction) figures() {
	c.answer.Unlimited = c.b.Unlimited
	if c.cover != nil {
		c.answer.BudgetRemaining, c.answer.PeriodRemaining = remaining(c.b, *c.cover)
	}
}

// remaining returns what a budget, and the open period of a daily one, still cover.
func remaining(b *bucket.Budget, cover ledger.Cover) (units int64, ofPeriod *int64) {
	sum := cover.Sum()
	if b.Type == budget.Daily {
		ofPeriod = &sum
	}
	return min(sum, budget.MaxAmount-cover.Later) + cover.Later, ofPeriod
}
