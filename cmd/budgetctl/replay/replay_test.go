package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// counting is a service that accepts everything and counts what is under way.
type counting struct {
	mu              sync.Mutex
	now, most, done int
	stop            func() // called at the 10th deduction
	callCtx         error  // of the last call
	rollbackIDs     []string
	fail            error
	largest         int
	replayed        bool // what every answer says
}

func (c *counting) Deduct(ctx context.Context, _ string, r client.DeductRequest) (*client.DeductAnswer, error) {
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	c.done++
	if c.done == 10 && c.stop != nil {
		c.stop()
	}
	c.mu.Unlock()
	time.Sleep(time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
	c.callCtx = ctx.Err()
	if c.fail != nil {
		return nil, c.fail
	}
	return &client.DeductAnswer{RequestID: r.RequestID, Amount: r.Amount, Attempts: 2, Replayed: c.replayed}, nil
}

func (c *counting) DeductBatch(_ context.Context, items []client.BatchItem) ([]client.BatchResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.largest = max(c.largest, len(items))
	if c.fail != nil {
		return nil, c.fail
	}
	results := make([]client.BatchResult, len(items))
	for i, item := range items {
		results[i].Answer = &client.DeductAnswer{Amount: item.Amount, Attempts: 1}
	}
	return results, nil
}

func (c *counting) Rollback(_ context.Context, _ string, r client.RollbackRequest) (*client.Deduction, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rollbackIDs = append(c.rollbackIDs, r.RequestID)
	return &client.Deduction{}, nil
}

func logOf(lines int) string {
	return "client\tbytes\n" + strings.Repeat("a\t1\n", lines)
}

func plan(concurrency, batch int) Plan {
	return Plan{Budget: "b", IDPrefix: "p", Concurrency: concurrency, Batch: batch, Timeout: time.Minute}
}

func TestConcurrencyIsBounded(t *testing.T) {
	service := new(counting)
	report, err := Run(t.Context(), service, plan(5, 1), strings.NewReader(logOf(200)), func(int) {})
	if err != nil || report.Accepted != 200 {
		t.Fatalf("accepted %d: %v", report.Accepted, err)
	}
	if service.most != 5 {
		t.Errorf("%d calls under way, want 5", service.most)
	}
}

func TestInterruptionFinishesWhatIsUnderWay(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	service := &counting{stop: cancel}
	report, err := Run(ctx, service, plan(4, 1), strings.NewReader(logOf(1000)), func(int) {})
	if err != nil || report.Complete {
		t.Errorf("complete %t: %v", report.Complete, err)
	}
	if report.Accepted != service.done || report.Accepted < 10 || report.Accepted > 20 {
		t.Errorf("%d accepted of %d sent", report.Accepted, service.done)
	}
	if service.callCtx != nil {
		t.Errorf("a call under way was cut off: %v", service.callCtx)
	}
}

// TestWhatMayBeAnEarlierReplaysIsNotRolledBack checks that a replayed answer after a lost one is
// not rolled back, because an earlier replay may have made the deduction.
func TestWhatMayBeAnEarlierReplaysIsNotRolledBack(t *testing.T) {
	for replayed, want := range map[bool]int{false: 2, true: 0} {
		service := &counting{replayed: replayed}
		p := plan(1, 1)
		p.RollbackEvery = 10
		report, err := Run(t.Context(), service, p, strings.NewReader(logOf(20)), func(int) {})
		if err != nil || report.Accepted != 20 || report.Replayed != 20-10*want || len(service.rollbackIDs) != want {
			t.Errorf("replayed %t: %+v, rolled back %v, %v", replayed, report, service.rollbackIDs, err)
		}
	}
}

func TestBatches(t *testing.T) {
	service := new(counting)
	p := plan(3, 40)
	p.RollbackEvery = 50
	progress := []int{}
	report, err := Run(t.Context(), service, p, strings.NewReader(logOf(100)),
		func(done int) { progress = append(progress, done) })
	if err != nil || report.Accepted != 100 || report.RolledBack != 2 || service.largest != 40 {
		t.Errorf("accepted %d, rolled back %d, largest batch %d: %v",
			report.Accepted, report.RolledBack, service.largest, err)
	}
	if len(progress) != 3 || progress[2] != 100 {
		t.Errorf("progress %v", progress)
	}
}

func TestBatchThatFailsAsAWhole(t *testing.T) {
	service := &counting{fail: &client.TransportError{Op: "batch", Err: errors.New("connection refused")}}
	report, err := Run(t.Context(), service, plan(1, 40), strings.NewReader(logOf(100)), func(int) {})
	if err != nil || report.Accepted != 0 || report.Unexpected["unreachable"] != 100 {
		t.Errorf("accepted %d, unexpected %v: %v", report.Accepted, report.Unexpected, err)
	}
}

// TestWorst checks that an unknown outcome is the worst error, in whatever order the errors come.
func TestWorst(t *testing.T) {
	known := &client.Problem{Status: 422, Code: "invalid"}
	notDone := &client.TransportError{Err: errors.New("refused")}
	unknown := &client.UnknownOutcome{RequestID: "o1", Last: notDone}
	for name, order := range map[string][]error{"rising": {known, notDone, unknown}, "falling": {unknown, notDone, known}} {
		r := newReport(Plan{})
		for _, err := range order {
			r.surprise(fmt.Errorf("wrapped: %w", err))
		}
		if !errors.Is(r.Worst, unknown) {
			t.Errorf("%s: worst is %v", name, r.Worst)
		}
		for _, code := range []string{"invalid", "unreachable", "outcome_unknown"} {
			if r.Unexpected[code] != 1 {
				t.Errorf("%s: unexpected %v", name, r.Unexpected)
			}
		}
	}
}

// TestLogThatChangedMeanwhile checks that an invalid line ends the replay as incomplete, and that
// the error names the line.
func TestLogThatChangedMeanwhile(t *testing.T) {
	report, err := Run(t.Context(), new(counting), plan(2, 1), strings.NewReader(logOf(5)+"broken\n"), func(int) {})
	if err == nil || !strings.Contains(err.Error(), "line 7: 1 columns") || report.Complete || report.Accepted != 5 {
		t.Errorf("accepted %d, complete %t: %v", report.Accepted, report.Complete, err)
	}
}

// TestRefusalsByCode checks that exhausted periods and exhausted budgets are expected and counted
// separately, and that other refusals are unexpected.
func TestRefusalsByCode(t *testing.T) {
	report := newReport(Plan{})
	for _, code := range []budget.Code{budget.PeriodExhausted, budget.BudgetExhausted, budget.PeriodExhausted,
		budget.BudgetPaused} {
		report.add(outcome{results: []client.BatchResult{{Err: &client.Problem{Status: 409, Code: code}}}})
	}
	if report.Deductions != 4 || report.Refused["period_exhausted"] != 2 || report.Refused["budget_exhausted"] != 1 ||
		len(report.Refused) != 2 || report.Unexpected["budget_paused"] != 1 || report.unexpected() != 1 {
		t.Errorf("report %+v", report)
	}
}
