package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/cmd/budgetctl/workload"
)

// poster makes the calls of one connection. It implements workload.Caller.
type poster struct {
	host string
	// next appends the body of the next call, and returns it and the path. A call without a body is a
	// GET.
	next func(body []byte) (path string, _ []byte)
	// answer gets the answer to the last call; status 0 means that none came. An error ends the load.
	answer func(status int, body []byte) error
	fail   func(error)
	body   []byte
}

func (p *poster) Request(to []byte) ([]byte, int) {
	var path string
	path, p.body = p.next(p.body[:0])
	if len(p.body) == 0 {
		to = append(append(append(to, "GET "...), path...), " HTTP/1.1\r\nHost: "...)
		return append(append(to, p.host...), "\r\n\r\n"...), 0
	}
	to = append(append(append(to, "POST "...), path...), " HTTP/1.1\r\nHost: "...)
	to = append(append(to, p.host...), "\r\nContent-Type: application/json\r\nContent-Length: "...)
	to = append(strconv.AppendInt(to, int64(len(p.body)), 10), "\r\n\r\n"...)
	return append(to, p.body...), 0
}

func (p *poster) Answer(status int, body []byte) {
	if err := p.answer(status, body); err != nil {
		p.fail(fmt.Errorf("status %d: %.200s: %w", status, body, err))
	}
}

func (p *poster) Lost(_ bool, err error) {
	if wrong := p.answer(0, nil); wrong != nil {
		p.fail(errors.Join(wrong, err))
	}
}

// drive puts a load on all nodes of a budgetd, each with an equal part of the callers, and measures
// the calls a second, their latency and the CPU time of each, after a warm-up. It ignores the
// plan's address.
func (s *stage) drive(
	ctx context.Context, b budgetd, warmup time.Duration, plan workload.Plan, posters []*poster,
) (m measurement, longest time.Duration, err error) {
	if warmup > 0 {
		if _, _, err := s.drive(ctx, b, 0, workload.Plan{Duration: warmup}, posters); err != nil {
			return m, 0, err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	nodes := len(b.addresses)
	parts := make([][]workload.Caller, nodes)
	for i, p := range posters {
		p.host, p.fail = b.addresses[i%nodes], cancel
		parts[i%nodes] = append(parts[i%nodes], p)
	}
	plan.Kinds, plan.Timeout = 1, 30*time.Second
	results := make([]workload.Measured, nodes)
	latency, took, calls := workload.NewHistogram(), time.Duration(0), int64(0)
	m.cpu, err = costing(b.watched, func() (int64, error) {
		var all sync.WaitGroup
		for i := range nodes {
			all.Go(func() {
				plan := plan
				plan.Address, plan.Calls = b.addresses[i], plan.Calls/int64(nodes)
				results[i] = workload.Run(ctx, plan, parts[i])
			})
		}
		all.Wait()
		for _, r := range results {
			latency.Merge(r.Latency[0])
			took, calls = max(took, r.Duration), calls+r.Calls
		}
		return calls, nil
	})
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = errors.Join(err, cause)
	}
	m.perS = float64(calls) / took.Seconds()
	m.p50, m.p99 = milliseconds(latency.Quantile(0.5)), milliseconds(latency.Quantile(0.99))
	return m, latency.Max(), errors.Join(err, s.ctx.Err())
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// costing returns the CPU time of each kind of process per call of do, which returns the number of
// calls. watched is a list of NAME=PID.
func costing(watched []string, do func() (calls int64, err error)) ([]cost, error) {
	before, err := usedBy(watched)
	if err != nil {
		return nil, err
	}
	calls, err := do()
	if err != nil {
		return nil, err
	}
	after, err := usedBy(watched)
	if err != nil {
		return nil, err
	}
	var out []cost
	for _, kind := range []string{"load", "server", "redis", "mariadb"} {
		if used, is := after[kind]; is {
			out = append(out, cost{kind, (used - before[kind]) / float64(max(calls, 1))})
		}
	}
	return out, nil
}

// creates measures how many budgets a second several callers create, of createdBuckets each.
type creates struct{ away *time.Duration }

const (
	creators       = 16
	createdBuckets = 4
)

func (c creates) measure(s *stage) (measurement, error) {
	b, err := s.budgetd(ours{durability: "ledger", sqlAway: c.away})
	if err != nil {
		return measurement{}, err
	}
	var made atomic.Int64
	posters := make([]*poster, creators)
	for i := range posters {
		posters[i] = &poster{next: func(body []byte) (string, []byte) {
			return "/v1/budgets", fmt.Appendf(body, `{"name":"made-%d","unit":"count","type":"promo",`+
				`"durability":"ledger","total_quantity":1000000,"bucket_quantity":%d}`, made.Add(1),
				createdBuckets)
		}, answer: func(status int, _ []byte) error {
			if status != http.StatusCreated {
				return errors.New("a budget was not created")
			}
			return nil
		}}
	}
	m, _, err := s.drive(s.ctx, b, s.seconds(2), workload.Plan{Duration: s.seconds(8)}, posters)
	return m, err
}

// shows measures how many pages of 100 budgets a node answers a second.
type shows struct{}

// shown is the number of budgets of a page.
const shown = 100

func (shows) measure(s *stage) (measurement, error) {
	b, err := s.budgetd(ours{durability: "ledger"})
	if err != nil {
		return measurement{}, err
	}
	c, err := client.New("http://" + b.address)
	if err != nil {
		return measurement{}, err
	}
	names := make([]string, shown)
	for i := range names {
		names[i] = fmt.Sprint("shown-", i)
	}
	if err := s.create(c, shown, func(i int) client.CreateRequest {
		return client.CreateRequest{Name: names[i], TotalQuantity: 1_000_000, BucketQuantity: 4,
			Durability: budget.Ledger}
	}); err != nil {
		return measurement{}, err
	}
	page := "/v1/remaining?budget=" + strings.Join(names, "&budget=")
	for { // until the node has read them
		known, err := c.Remaining(s.ctx, names...)
		if err != nil {
			return measurement{}, err
		}
		if known[names[0]] != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	posters := make([]*poster, baselineConnections)
	for i := range posters {
		posters[i] = &poster{next: func(body []byte) (string, []byte) { return page, body },
			answer: func(status int, body []byte) error {
				if status != http.StatusOK || bytes.Contains(body, []byte("null")) {
					return errors.New("a budget is not shown")
				}
				return nil
			}}
	}
	m, _, err := s.drive(s.ctx, b, s.seconds(1), workload.Plan{Duration: s.seconds(4)}, posters)
	return m, err
}

// usedBy returns the CPU time of each kind of process in a list of NAME=PID, in microseconds.
func usedBy(watched []string) (map[string]float64, error) {
	out := map[string]float64{}
	for _, p := range watched {
		kind, pid, _ := strings.Cut(p, "=")
		n, err := strconv.Atoi(pid)
		if err != nil {
			return nil, err
		}
		used, err := workload.ReadUsage(n)
		if err != nil {
			return nil, err
		}
		out[kind] += float64(used.CPU.Microseconds())
	}
	return out, nil
}

// sets measures deductions of three legs, from an organisation, one of its teams and one of a few
// models, by callers who want one after the other.
type sets struct{ callers int }

const (
	teams  = 1_000
	models = 10
)

func (r sets) measure(s *stage) (measurement, error) {
	b, err := s.budgetd(ours{durability: "ledger"})
	if err != nil {
		return measurement{}, err
	}
	c, err := client.New("http://" + b.address)
	if err != nil {
		return measurement{}, err
	}
	names := []string{"org"}
	for i := range models {
		names = append(names, fmt.Sprint("model-", i))
	}
	for i := range max(s.scaled(teams), 1) {
		names = append(names, fmt.Sprint("team-", i))
	}
	if err := s.create(c, len(names), func(i int) client.CreateRequest {
		return client.CreateRequest{Name: names[i], TotalQuantity: endless, Durability: budget.Ledger}
	}); err != nil {
		return measurement{}, err
	}
	posters := make([]*poster, r.callers)
	for i := range posters {
		posters[i] = sets3(fmt.Sprint(i, "-"), names[1+models:])
	}
	m, _, err := s.drive(s.ctx, b, s.seconds(3), workload.Plan{Duration: s.seconds(8)}, posters)
	if err != nil {
		return m, err
	}
	m.note, err = groupedBy(b.address)
	return m, err
}

// sets3 makes calls of three legs. prefix begins their ids.
func sets3(prefix string, teams []string) *poster {
	random, n := rand.New(rand.NewPCG(1, uint64(len(prefix)))), 0 //nolint:gosec // no secret
	return &poster{
		next: func(body []byte) (string, []byte) {
			n++
			body = append(append(body, `{"request_id":"`...), prefix...)
			body = append(strconv.AppendInt(body, int64(n), 10),
				`","legs":[{"budget":"org","amount":1},{"budget":"`...)
			body = append(append(body, teams[random.IntN(len(teams))]...),
				`","amount":1},{"budget":"model-`...)
			body = strconv.AppendInt(body, int64(random.IntN(models)), 10)
			return "/v1/deductions", append(body, `","amount":1}]}`...)
		},
		answer: func(status int, _ []byte) error {
			if status == http.StatusOK {
				return nil
			}
			return errors.New("a set was not deducted")
		},
	}
}
