package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// fake is budgetd in memory, as far as budgetctl sees it: one bucket per budget holds everything,
// requests are decoded strictly, ids take effect once.
type fake struct {
	*httptest.Server
	mu        sync.Mutex
	budgets   map[string]*fakeBudget // by tenant/name and by id
	ids       int64
	calls     []string // method and path of every request
	queries   []string // tenant of every request
	interfere func(w http.ResponseWriter, r *http.Request) bool
}

type fakeBudget struct {
	client.Budget
	definition  client.CreateRequest
	adjustments map[string]client.Adjustment
	deductions  map[string]*fakeDeduction
	offline     bool
	broken      bool // the audit finds something
}

// fakeRecycle is a recycle of four buckets.
func fakeRecycle(run int64) client.Recycle {
	return client.Recycle{Run: run, Cause: "operator", Buckets: 4, Moved: 4000, UnitsBefore: 4000,
		StrandedBefore: 1500, UnitsAfter: 3990, BeganAt: fakeNow, EndedAt: fakeNow.Add(time.Second)}
}

type fakeDeduction struct {
	client.Deduction
	request   string // canonical payload
	rollbacks map[string]int64
}

var fakeNow = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{budgets: map[string]*fakeBudget{}}
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(r *http.Request) (int, any)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			status, body := answer(r)
			f.mu.Unlock()
			w.Header().Set("X-Correlation-Id", "corr-1")
			w.Header().Set("Content-Type", "application/json")
			if status >= 400 {
				w.Header().Set("Content-Type", "application/problem+json")
			}
			w.WriteHeader(status)
			json.MarshalWrite(w, body)
		})
	}
	handle("POST /v1/budgets", f.create)
	handle("GET /v1/budgets", f.list)
	handle("GET /v1/budgets/{budget}", f.on(func(b *fakeBudget, _ *http.Request) (int, any) { return 200, b.shown() }))
	handle("PATCH /v1/budgets/{budget}", f.on(f.patch))
	handle("POST /v1/budgets/{budget}/append", f.on(f.adjust))
	handle("POST /v1/budgets/{budget}/deduct", f.on(f.deduct))
	handle("POST /v1/budgets/{budget}/rollback", f.on(f.rollback))
	handle("POST /v1/budgets/{budget}/confirm", f.on(f.hold))
	handle("POST /v1/budgets/{budget}/extend", f.on(f.hold))
	handle("POST /v1/budgets/{budget}/renew", f.on(func(_ *fakeBudget, r *http.Request) (int, any) {
		var request client.RenewRequest
		if err := decode(r, &request); err != nil {
			return refuse(400, budget.Malformed, "%v", err)
		}
		return 200, client.Renewal{RequestID: request.RequestID, Step: request.Step, UsedTotal: 1000 + request.Used,
			Held: request.Hold / 2, Final: request.Hold > 0, HoldUntil: fakeNow.Add(time.Minute)}
	}))
	handle("POST /v1/budgets/{budget}/cancel", f.on(f.cancel))
	handle("GET /v1/budgets/{budget}/buckets", f.on(func(b *fakeBudget, _ *http.Request) (int, any) {
		return 200, client.BucketList{Buckets: []client.Bucket{b.bucket()}}
	}))
	for _, verb := range []string{"offline", "online", "apply", "resume"} {
		handle("POST /v1/budgets/{budget}/buckets/{key}/"+verb, f.on(func(b *fakeBudget, r *http.Request) (int, any) {
			return b.bucketVerb(verb, r)
		}))
	}
	handle("POST /v1/budgets/{budget}/recycle", f.on(func(*fakeBudget, *http.Request) (int, any) {
		return 200, fakeRecycle(3)
	}))
	handle("GET /v1/budgets/{budget}/recycles", f.on(func(*fakeBudget, *http.Request) (int, any) {
		return 200, client.RecyclePage{Recycles: []client.Recycle{fakeRecycle(3), fakeRecycle(2)}}
	}))
	handle("GET /v1/budgets/{budget}/audit", f.on(func(b *fakeBudget, _ *http.Request) (int, any) { return 200, b.audit() }))
	handle("GET /v1/budgets/{budget}/series", f.on(func(b *fakeBudget, r *http.Request) (int, any) {
		return 200, b.series(r)
	}))
	handle("GET /v1/budgets/{budget}/quarantine", f.on(func(*fakeBudget, *http.Request) (int, any) {
		return 200, client.QuarantineList{Held: 50, Quarantines: []client.Quarantine{{Bucket: "spring-sale:bucket-0",
			Epoch: 3, Quantity: 900, Released: 850, Held: 50, Cause: "nodes that did not report: 5f0c",
			At: time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)}}}
	}))
	handle("POST /v1/budgets/{budget}/quarantine/release", f.on(func(_ *fakeBudget, r *http.Request) (int, any) {
		var body client.ReleaseRequest
		if err := json.UnmarshalRead(r.Body, &body); err != nil || body.Reason == "" {
			return 400, nil
		}
		if body.Quantity == 0 {
			body.Quantity = 50
		}
		return 200, client.ReleaseAnswer{RequestID: body.RequestID, Released: body.Quantity, Quarantined: 50 - body.Quantity}
	}))
	handle("POST /v1/deductions:batch", f.batch)
	var draining []client.Instance
	handle("GET /v1/instances", func(*http.Request) (int, any) {
		return 200, client.InstanceList{Instances: append([]client.Instance{{Name: "embedded", Driver: "sql",
			Health: "up", Partitions: []client.Partition{{Partition: 0, Incarnation: 1, Reachable: true}}}}, draining...)}
	})
	left := 2 // each look at the drain finds one less
	handle("POST /v1/instances/{name}/drain", func(r *http.Request) (int, any) {
		d := client.Drain{Instance: r.PathValue("name"), Draining: true, BucketsLeft: left, Moved: 8 - left,
			KeysLeft: 8 - left, Done: left == 0}
		left = max(left-1, 0)
		draining = []client.Instance{{Name: d.Instance, Draining: true}}
		return 200, d
	})
	handle("POST /v1/instances/{name}/undrain", func(r *http.Request) (int, any) {
		draining = nil
		return 200, client.Drain{Instance: r.PathValue("name"), BucketsLeft: 3}
	})
	handle("POST /v1/instances/{name}/recover", func(r *http.Request) (int, any) {
		n := 7
		return 200, client.Instance{Name: r.PathValue("name"), Driver: "redis", Health: "up",
			Partitions: []client.Partition{{Incarnation: 2, Reachable: true, Buckets: &n}}}
	})
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.calls = append(f.calls, r.Method+" "+r.URL.EscapedPath())
		f.queries = append(f.queries, r.URL.Query().Get("tenant"))
		interfere := f.interfere
		f.mu.Unlock()
		if interfere != nil && interfere(w, r) {
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// problem is a refusal as it travels.
type problem struct {
	Status    int                 `json:"status"`
	Code      budget.Code         `json:"code"`
	Detail    string              `json:"detail"`
	Errors    []client.FieldError `json:"errors,omitempty"`
	Available *int64              `json:"available,omitzero"`
}

func refuse(status int, code budget.Code, format string, args ...any) (int, any) {
	return status, problem{Status: status, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// decode reads a body strictly.
func decode(r *http.Request, into any) error {
	if r.Header.Get("Content-Type") != "application/json" {
		return fmt.Errorf("Content-Type is %q", r.Header.Get("Content-Type"))
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into, json.RejectUnknownMembers(true))
}

// series answers two points and the present; without `to` the budget is used up in a while.
func (b *fakeBudget) series(r *http.Request) client.Series {
	query := r.URL.Query()
	point := func(ago time.Duration, used int64) client.SeriesPoint {
		return client.SeriesPoint{At: fakeNow.Add(-ago), Total: b.TotalQuantity, Undistributed: new(int64), NotFunded: new(int64),
			Released: b.OutQuantity, Used: used, Remaining: new(*b.TotalQuantity - used),
			InBuckets: new(*b.TotalQuantity - used), Stranded: 40}
	}
	s := client.Series{From: fakeNow.Add(-time.Hour), To: fakeNow, StepS: 60, RatePerS: 1234.5, Projection: "not_before_end",
		Points: []client.SeriesPoint{point(2*time.Minute, 0), point(time.Minute, 1000)}, Now: point(0, b.Used)}
	if query.Get("to") == "" {
		at := fakeNow.Add(90 * time.Minute)
		s.ExhaustedAt, s.Projection = &at, "projected"
	}
	return s
}

func (f *fake) find(tenant, name string) *fakeBudget {
	if tenant == "" {
		tenant = budget.DefaultTenant
	}
	if b := f.budgets[tenant+"/"+name]; b != nil {
		return b
	}
	return f.budgets[name]
}

// on finds the budget that the path names.
func (f *fake) on(do func(*fakeBudget, *http.Request) (int, any)) func(*http.Request) (int, any) {
	return func(r *http.Request) (int, any) {
		b := f.find(r.URL.Query().Get("tenant"), r.PathValue("budget"))
		if b == nil {
			return refuse(404, budget.BudgetNotFound, "there is no budget %q", r.PathValue("budget"))
		}
		return do(b, r)
	}
}

func (f *fake) create(r *http.Request) (int, any) {
	var request client.CreateRequest
	if err := decode(r, &request); err != nil {
		return refuse(400, budget.Malformed, "%v", err)
	}
	if request.Tenant == "" {
		request.Tenant = budget.DefaultTenant
	}
	if r := request.TypeRule; r != nil && r.Kind == budget.Calendar && r.Quantity == 0 && request.EndAt.IsZero() {
		return 422, problem{422, budget.Invalid, "the definition has faults", []client.FieldError{
			{Field: "type_rule", Message: "is compressed"}, {Field: "end_at", Message: "must be given"}}, nil}
	}
	if b := f.find(request.Tenant, request.Name); b != nil {
		if !reflect.DeepEqual(b.definition, request) {
			return refuse(409, budget.NameTaken, "the name %q is taken", request.Name)
		}
		return 200, b.shown()
	}
	f.ids++
	b := &fakeBudget{definition: request, adjustments: map[string]client.Adjustment{},
		deductions: map[string]*fakeDeduction{}, Budget: client.Budget{
			ID: f.ids, Tenant: request.Tenant, Name: request.Name, GLCode: request.GLCode,
			Unit: request.Unit, Durability: budget.Ledger, Type: request.Type,
			BucketQuantity: max(request.BucketQuantity, 1), ShardingQuantity: request.ShardingQuantity,
			AdjustCnt: request.AdjustCnt, StartAt: request.StartAt, EndAt: request.EndAt,
			CreatedAt: fakeNow, UpdatedAt: fakeNow, Status: budget.Effective, Version: 1,
			TotalQuantity: new(request.TotalQuantity), OutQuantity: new(request.TotalQuantity),
			Undistributed: new(int64), NotFunded: new(int64), Remaining: new(int64),
			InBuckets: new(request.TotalQuantity), Buckets: client.BucketCount{Online: 1}}}
	if request.TypeRule != nil {
		b.daily(request)
	}
	f.budgets[request.Tenant+"/"+request.Name] = b
	f.budgets[fmt.Sprint(b.ID)] = b
	return 201, b.shown()
}

// shown returns the budget as the service answers it.
func (b *fakeBudget) shown() client.Budget {
	out := b.Budget
	if out.Status == budget.Effective {
		out.Remaining = new(*out.Undistributed + *out.InBuckets + out.InTransit)
	}
	return out
}

// daily gives a budget its rule, and its first period what the rule fixes for it: the rest is not funded.
func (b *fakeBudget) daily(request client.CreateRequest) {
	rule := *request.TypeRule
	if rule.Kind != budget.Free {
		rule.Unused = cmp.Or(rule.Unused, budget.Spread)
	}
	b.TypeRule, b.Timezone = &rule, cmp.Or(request.Timezone, "UTC")
	b.LateRefund = cmp.Or(request.LateRefund, budget.ToTotal)
	b.Period = &client.Period{Number: 1, Start: fakeNow, End: fakeNow.Add(90 * time.Minute), Total: *b.InBuckets}
	switch {
	case rule.Quantity > 0:
		b.Period.Total = rule.Quantity
	case rule.Kind == budget.Calendar:
		b.Period.Total = *b.InBuckets / 365 // as if there were so many
	case len(rule.Windows) > 0:
		b.Period.Total = rule.Windows[0].Quantity
	}
	*b.NotFunded = *b.InBuckets - b.Period.Total
	*b.OutQuantity, *b.InBuckets = b.Period.Total, b.Period.Total
}

func (f *fake) patch(b *fakeBudget, r *http.Request) (int, any) {
	var request struct {
		Status           budget.Status  `json:"status"`
		EndAt            jsontext.Value `json:"end_at"`
		ShardingQuantity *int64         `json:"sharding_quantity"`
		AdjustCnt        *int           `json:"adjust_cnt"`
		BucketQuantity   *int           `json:"bucket_quantity"`
		TypeRule         *budget.Rule   `json:"type_rule"`
		LateRefund       budget.Where   `json:"late_refund"`
	}
	if err := decode(r, &request); err != nil {
		return refuse(400, budget.Malformed, "%v", err)
	}
	if tag := r.Header.Get("If-Match"); tag != "" && tag != fmt.Sprintf(`"%d"`, b.Version) {
		return refuse(412, budget.VersionConflict, "the budget has version %d", b.Version)
	}
	if request.Status != "" {
		b.Status = request.Status
	}
	if request.EndAt != nil {
		b.EndAt = time.Time{} // null: no end
		if err := json.Unmarshal(request.EndAt, &b.EndAt); err != nil {
			return refuse(400, budget.Malformed, "%v", err)
		}
	}
	if request.ShardingQuantity != nil {
		b.ShardingQuantity = *request.ShardingQuantity
	}
	if request.BucketQuantity != nil {
		b.BucketQuantity = *request.BucketQuantity
	}
	if request.AdjustCnt != nil {
		b.AdjustCnt = *request.AdjustCnt
	}
	if request.TypeRule != nil {
		b.TypeRule = request.TypeRule
	}
	if request.LateRefund != "" {
		b.LateRefund = request.LateRefund
	}
	b.Version++
	return 200, b.shown()
}

func (f *fake) adjust(b *fakeBudget, r *http.Request) (int, any) {
	var request client.AppendRequest
	if err := decode(r, &request); err != nil {
		return refuse(400, budget.Malformed, "%v", err)
	}
	if known, ok := b.adjustments[request.RequestID]; ok {
		if known.Quantity != request.Quantity {
			return refuse(409, budget.RequestConflict, "the id has another quantity")
		}
		known.Replayed, known.Budget = true, b.shown()
		return 200, known
	}
	if -request.Quantity > *b.InBuckets {
		return 409, problem{409, budget.AmountExceedsRemaining, "less is unused", nil, b.InBuckets}
	}
	*b.TotalQuantity += request.Quantity
	*b.OutQuantity += request.Quantity
	*b.InBuckets += request.Quantity
	done := client.Adjustment{RequestID: request.RequestID, Quantity: request.Quantity, State: "done"}
	b.adjustments[request.RequestID] = done
	done.Budget = b.shown()
	return 200, done
}
