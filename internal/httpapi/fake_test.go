package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi"
	"github.com/budgetd/budgetd/ledger"
)

// fake is a service that records what it is asked and answers the same every time, or err.
type fake struct {
	mu      sync.Mutex
	calls   []string
	err     error
	panics  bool
	created bool
	reasons []string
	// before runs in every Deduct, with its request id.
	before func(ctx context.Context, id string)
}

var at = time.Date(2026, 1, 31, 9, 0, 0, 0, time.FixedZone("CST", 8*3600))

var aView = bucket.View{
	Definition: budget.Definition{ID: 7, Tenant: "default", Name: "sale", GLCode: "4711", Unit: budget.Count,
		Durability: budget.Ledger, Type: budget.Promo, TotalQuantity: 1000, BucketQuantity: 2, StartAt: at,
		Version: 3, CreatedAt: at, UpdatedAt: at.Add(time.Second)},
	Status: budget.Effective,
	Figures: ledger.Figures{Total: 1000, Undistributed: 100, Remaining: 500, Unsettled: 5, Used: 380,
		Returning: 15, Online: 1, Offline: 1},
}

var aDeduction = bucket.DeductionView{RequestID: "o1", State: ledger.StateUsed, Amount: 5, RolledBack: 2,
	Bucket: "sale:bucket-0", Reference: "ref", Dimensions: `{"user":"u1"}`, CountedAt: at, Receipt: "r.1"}

var aBucket = bucket.BucketView{Bucket: bucket.Bucket{ID: 70, Ordinal: 0, Key: "sale:bucket-0",
	Lane: bucket.Lane{Instance: "redis-a"}, Online: true, OutQuantity: 600, OutCnt: 2, UpdatedAt: at,
	Epoch: ledger.Epoch{Number: 4, Status: ledger.Open, Activation: 2, Outstanding: 500, Used: 380, Returning: 15},
}, Remaining: 500}

func (f *fake) note(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	if f.panics {
		panic("a secret detail")
	}
	return f.err
}

func (f *fake) taken() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

func (f *fake) Create(_ context.Context, d budget.Definition) (bucket.View, bool, error) {
	return aView, f.created, f.note("create %+v", d)
}

func (f *fake) List(_ context.Context, page bucket.Page) ([]bucket.View, error) {
	err := f.note("list %+v", page)
	return []bucket.View{aView}, err
}

func (f *fake) View(_ context.Context, ref bucket.BudgetRef) (bucket.View, error) {
	return aView, f.note("view %+v", ref)
}

func (f *fake) Change(_ context.Context, ref bucket.BudgetRef, c bucket.Change) (bucket.View, error) {
	text := fmt.Sprintf("change %+v if %d", ref, c.IfVersion)
	if c.Paused != nil {
		text += fmt.Sprintf(" paused=%t", *c.Paused)
	}
	if c.EndAt != nil {
		text += " end=" + c.EndAt.Format(time.RFC3339Nano)
	}
	if c.ShardingQuantity != nil {
		text += fmt.Sprintf(" sharding=%d", *c.ShardingQuantity)
	}
	if c.AdjustCnt != nil {
		text += fmt.Sprintf(" adjust=%d", *c.AdjustCnt)
	}
	return aView, f.note("%s", text)
}

func (f *fake) Adjust(_ context.Context, r bucket.AdjustRequest) (bucket.View, error) {
	return aView, f.note("adjust %+v", r)
}

func (f *fake) Deduct(ctx context.Context, r bucket.DeductRequest) (bucket.DeductAnswer, error) {
	if f.before != nil {
		f.before(ctx, r.RequestID)
	}
	return bucket.DeductAnswer{RequestID: r.RequestID, Amount: r.Amount, State: ledger.StateUsed, Bucket: "sale:bucket-0",
		Remaining: 495, BudgetRemaining: 595, Receipt: "r.1"}, f.note("deduct %+v", r)
}

func (f *fake) Rollback(_ context.Context, r bucket.RollbackRequest) (bucket.DeductionView, error) {
	return aDeduction, f.note("rollback %+v", r)
}

func (f *fake) Cancel(_ context.Context, ref bucket.BudgetRef, id string) (bucket.DeductionView, error) {
	return bucket.DeductionView{RequestID: id, State: ledger.StateVoid}, f.note("cancel %+v %q", ref, id)
}

func (f *fake) Deduction(_ context.Context, ref bucket.BudgetRef, id string) (bucket.DeductionView, error) {
	return aDeduction, f.note("deduction %+v %q", ref, id)
}

func (f *fake) Buckets(_ context.Context, ref bucket.BudgetRef) ([]bucket.BucketView, error) {
	return []bucket.BucketView{aBucket}, f.note("buckets %+v", ref)
}

func (f *fake) Offline(_ context.Context, ref bucket.BudgetRef, key string) (bucket.BucketView, error) {
	b := aBucket
	b.Online, b.OfflineBy, b.Remaining = false, bucket.ByOperator, 0
	return b, f.note("offline %+v %q", ref, key)
}

func (f *fake) Online(_ context.Context, ref bucket.BudgetRef, key string) (bucket.BucketView, error) {
	return aBucket, f.note("online %+v %q", ref, key)
}

func (f *fake) ApplyTo(_ context.Context, ref bucket.BudgetRef, key string) (bucket.BucketView, error) {
	return aBucket, f.note("apply %+v %q", ref, key)
}

func (f *fake) Audit(_ context.Context, ref bucket.BudgetRef) (bucket.AuditReport, error) {
	return bucket.AuditReport{Figures: aView.Figures, Unchecked: []string{"sale:bucket-1"},
		Discrepancies: []ledger.Discrepancy{{Bucket: "sale:bucket-0", Epoch: 4, What: "used", Recorded: 5, Counted: 6}},
	}, f.note("audit %+v", ref)
}

func (f *fake) Lanes(context.Context) ([]bucket.LaneView, error) {
	return []bucket.LaneView{
		{Lane: bucket.Lane{Instance: "redis-a"}, Activation: 2, Reachable: true},
		{Lane: bucket.Lane{Instance: "redis-b"}, Activation: 1, Problem: "connection refused"},
		{Lane: bucket.Lane{Instance: "redis-b", Index: 1}, Activation: 1, Reachable: true},
	}, f.note("lanes")
}

func (f *fake) Ready(context.Context) []string { return f.reasons }

// limits are small, so that tests of them are quick.
var limits = httpapi.Limits{
	BodyBytes: 1 << 20, BatchBytes: 4 << 20, BatchItems: 1000, BatchConcurrency: 8, HeaderBytes: 64 << 10, Headers: 100,
	InFlight: 100, RequestTimeout: 5 * time.Second, HeaderTimeout: time.Second, ReadTimeout: time.Second,
	WriteTimeout: time.Second, IdleTimeout: time.Second,
}

// observed notes what an API tells its observer.
type observed struct {
	mu    sync.Mutex
	lines []string
}

func (o *observed) note(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, fmt.Sprintf(format, args...))
}

func (o *observed) Request(route string, status int, _ time.Duration) { o.note("%s %d", route, status) }
func (o *observed) Deduction(code budget.Code, replayed bool) {
	o.note("deduction %q %t", code, replayed)
}
func (o *observed) InFlight(int64) {}

// start serves an API over a fake.
func start(t *testing.T, change ...func(*httpapi.Config)) (*fake, *httptest.Server, *httpapi.API) {
	t.Helper()
	f := new(fake)
	c := httpapi.Config{Service: f, Limits: limits, Drivers: map[string]string{"redis-a": "redis", "redis-b": "redis"},
		NewID: func() string { return "corr-1" }, Log: slog.New(slog.DiscardHandler),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "budgetd_up 1") })}
	for _, change := range change {
		change(&c)
	}
	api := httpapi.New(c)
	server := httptest.NewUnstartedServer(nil)
	server.Config = httpapi.NewServer(api, c.Limits, c.Log)
	server.Start()
	t.Cleanup(server.Close)
	return f, server, api
}

// ask sends a request with a JSON body, if any.
func ask(t *testing.T, server *httptest.Server, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}

// silent is a fake that notes no deductions.
type silent struct{ *fake }

func (silent) Deduct(_ context.Context, r bucket.DeductRequest) (bucket.DeductAnswer, error) {
	return bucket.DeductAnswer{RequestID: r.RequestID, Amount: r.Amount, State: ledger.StateUsed, Bucket: "b"}, nil
}
