package console

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

const (
	// shards is the number of parts into which the memory is divided, so that deductions seldom
	// wait for each other's lock.
	shards = 16
	// kept is the number of refusals that a shard keeps, counted the number of budgets for which it
	// counts.
	kept, counted = 256, 4096
	// halfWindow is half of the time for which refusals are counted.
	halfWindow = 450 * time.Second
	// seconds is the number of seconds for which outcomes are counted.
	seconds = 128
)

// recent holds the recent answers of this node. The zero value is ready for use.
type recent struct {
	shards  [shards]refusalShard
	seconds [seconds]second
}

// refusalShard holds the refusals of a part of the request ids.
type refusalShard struct {
	mu   sync.Mutex
	held []bucket.Refusal
	// tenants is the number of held refusals of each tenant.
	tenants map[string]int
	// counts holds the counts of the present half window and of the previous one, budgets the
	// number of budgets of the present one.
	counts  [2]counts
	budgets int
	half    int64
	calls   callCounts
}

// counts is the number of refusals per tenant, budget and code.
type counts map[string]map[bucket.BudgetRef]map[budget.Code]int

// at returns the counts of a budget, which it adds if they are missing.
func (c counts) at(ref bucket.BudgetRef) map[budget.Code]int {
	if c[ref.Tenant] == nil {
		c[ref.Tenant] = map[bucket.BudgetRef]map[budget.Code]int{}
	}
	if c[ref.Tenant][ref] == nil {
		c[ref.Tenant][ref] = map[budget.Code]int{}
	}
	return c[ref.Tenant][ref]
}

// second counts the outcomes of one second.
type second struct {
	mu   sync.Mutex
	unix atomic.Int64
	// accepted, refused, limited, failed, faulty
	n [5]atomic.Int64
}

var seed = maphash.MakeSeed()

// Deducted records the outcome of a deduct. request is nil if it could not be read, refused is nil
// if it was accepted.
func (o *Dashboard) Deducted(request *bucket.DeductRequest, refused *budget.Error) {
	now := o.Now()
	kind := 0
	if refused != nil {
		kind = kindOf(refused.Code)
	}
	o.recent.count(now.Unix(), kind)
	if kind == faulty || request == nil {
		return
	}
	s := &o.recent.shards[maphash.String(seed, request.RequestID)%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == nil {
		s.calls = callCounts{}
	}
	s.calls.count(now, request.Budget, refused)
	if kind == 0 {
		return
	}
	s.add(bucket.Refusal{At: now, Request: *request, Err: refused})
}

// The kinds of outcomes, as second counts them.
const (
	refusedKind = iota + 1
	limited
	failed
	faulty
)

func kindOf(code budget.Code) int {
	switch code {
	case budget.BudgetExhausted, budget.PeriodExhausted, budget.BudgetNotEffective,
		budget.BudgetPaused, budget.BudgetExpired:
		return refusedKind
	case budget.LimitExceeded:
		return limited
	case budget.Unavailable, budget.OutcomeUnknown, budget.Internal:
		return failed
	}
	return faulty
}

func (r *recent) count(unix int64, kind int) {
	s := &r.seconds[unix%seconds]
	if s.unix.Load() != unix {
		s.mu.Lock()
		if s.unix.Load() < unix {
			for i := range s.n {
				s.n[i].Store(0)
			}
			s.unix.Store(unix)
		}
		s.mu.Unlock()
	}
	s.n[kind].Add(1)
}

// nextHalf begins another half window if the present one is over.
func (s *refusalShard) nextHalf(now time.Time) {
	half := now.UnixNano() / int64(halfWindow)
	switch half - s.half {
	case 0:
		return
	case 1:
		s.counts = [2]counts{{}, s.counts[0]}
	default:
		s.counts = [2]counts{{}, {}}
	}
	s.half, s.budgets = half, 0
}

// count counts a refusal. If there are too many budgets, those of the tenant with the most give
// way, so that one tenant does not push out those of others.
func (s *refusalShard) count(ref bucket.BudgetRef, code budget.Code) {
	now := s.counts[0]
	if now[ref.Tenant][ref] == nil {
		if s.budgets < counted {
			s.budgets++
		} else if !now.makeRoom(ref.Tenant) {
			return
		}
	}
	now.at(ref)[code]++
}

// makeRoom removes a budget of the tenant with the most, if that has more than another tenant would
// have with one more.
func (c counts) makeRoom(tenant string) bool {
	most := tenant
	for other, budgets := range c {
		if len(budgets) > max(len(c[most]), len(c[tenant])+1) {
			most = other
		}
	}
	if most == tenant {
		return false
	}
	for ref := range c[most] {
		delete(c[most], ref)
		break
	}
	return true
}

func (s *refusalShard) add(r bucket.Refusal) {
	if len(s.held) < kept {
		s.held = append(s.held, r)
	} else {
		old := s.victim(r.Request.Budget.Tenant)
		of := s.held[old].Request.Budget.Tenant
		if s.tenants[of]--; s.tenants[of] == 0 {
			delete(s.tenants, of)
		}
		s.held[old] = r
	}
	if s.tenants == nil {
		s.tenants = map[string]int{}
	}
	s.tenants[r.Request.Budget.Tenant]++
	s.nextHalf(r.At)
	s.count(r.Request.Budget, r.Err.Code)
}

// victim returns the place of the refusal that another one of a tenant replaces: the oldest of the
// tenant with the most, so that one tenant does not push out those of others.
func (s *refusalShard) victim(tenant string) int {
	for other, n := range s.tenants {
		if n > s.tenants[tenant] {
			tenant = other
		}
	}
	oldest := -1
	for i := range s.held {
		if s.held[i].Request.Budget.Tenant == tenant &&
			(oldest < 0 || s.held[i].At.Before(s.held[oldest].At)) {
			oldest = i
		}
	}
	return oldest
}

// counts returns the number of refusals per budget and code within the last 8 to 15 minutes.
func (r *recent) counts(now time.Time) counts {
	out := counts{}
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		s.nextHalf(now)
		for _, half := range s.counts {
			for _, budgets := range half {
				for ref, codes := range budgets {
					for code, n := range codes {
						out.at(ref)[code] += n
					}
				}
			}
		}
		s.mu.Unlock()
	}
	return out
}

// of returns the counts of a budget, which callers identify by name or by id.
func (c counts) of(s *summary) map[budget.Code]int {
	if len(c) == 0 {
		return nil
	}
	byName := c[s.tenant][bucket.BudgetRef{Tenant: s.tenant, Name: s.name}]
	byID := c[s.tenant][bucket.BudgetRef{Tenant: s.tenant, ID: s.id}]
	if len(byName) == 0 || len(byID) == 0 {
		if len(byName) == 0 {
			return byID
		}
		return byName
	}
	both := map[budget.Code]int{}
	for _, one := range []map[budget.Code]int{byName, byID} {
		for code, n := range one {
			both[code] += n
		}
	}
	return both
}

// Outcomes returns the number of answers in each of the last full seconds, oldest first.
func (o *Dashboard) Outcomes(most int) []bucket.Second {
	now := o.Now().Unix()
	out := make([]bucket.Second, 0, most)
	for unix := now - int64(min(most, seconds-2)); unix < now; unix++ {
		s, one := &o.recent.seconds[unix%seconds], bucket.Second{At: time.Unix(unix, 0)}
		if s.unix.Load() == unix {
			one.Accepted, one.Refused = int(s.n[0].Load()), int(s.n[refusedKind].Load())
			one.Limited, one.Failed = int(s.n[limited].Load()), int(s.n[failed].Load())
			one.Faulty = int(s.n[faulty].Load())
		}
		out = append(out, one)
	}
	return out
}

// Refused returns the refusals for which fits returns true, newest first, with the budgets' names
// and the keys and buckets by which they are routed now.
func (o *Dashboard) Refused(ctx context.Context, fits func(*bucket.Refusal) bool, most int) (
	out []bucket.Refusal) {
	for i := range o.recent.shards {
		s := &o.recent.shards[i]
		s.mu.Lock()
		for n := range s.held {
			if fits(&s.held[n]) {
				out = append(out, s.held[n])
			}
		}
		s.mu.Unlock()
	}
	slices.SortStableFunc(out, func(a, b bucket.Refusal) int { return b.At.Compare(a.At) })
	out = out[:min(most, len(out))]
	for i := range out {
		r := &out[i].Request
		if b, err := o.Find(ctx, r.Budget); err == nil {
			r.Budget = bucket.BudgetRef{Tenant: b.Tenant, Name: b.Name, ID: b.ID}
			out[i].RoutingKey, out[i].Bucket = b.Routed(r)
			out[i].Durability = b.Durability
		}
	}
	return out
}
