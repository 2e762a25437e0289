package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/google/go-cmp/cmp"
)

// saysAll is an answer that every call accepts.
const saysAll = `{"outcome":"accepted","state":"used","group":"g","deductions":[{"request_id":"o1","state":"used"}]}`

// TestRequests checks what every call sends.
func TestRequests(t *testing.T) {
	quantity, count := int64(7), 0
	end := time.Date(2026, 12, 31, 23, 59, 59, 0, time.FixedZone("", 3600))
	tests := []struct {
		name string
		call func(ctx context.Context, c *client.Client) error
		want seen
	}{
		{"create", func(ctx context.Context, c *client.Client) error {
			_, err := c.Create(ctx, client.CreateRequest{Name: "b", Unit: "count", TotalQuantity: 100, Type: "promo"})
			return err
		}, seen{"POST", "/v1/budgets",
			`{"name":"b","tenant":"games","unit":"count","total_quantity":100,"type":"promo"}`, "application/json", ""}},
		{"create with everything", func(ctx context.Context, c *client.Client) error {
			_, err := c.Create(ctx, client.CreateRequest{Name: "b", Tenant: "t", GLCode: "g", Unit: "amount",
				Durability: "ledger", TotalQuantity: budget.MaxAmount, Type: "promo", BucketQuantity: 8,
				ShardingQuantity: 10, AdjustCnt: 3, StartAt: end.Add(-time.Hour), EndAt: end})
			return err
		}, seen{"POST", "/v1/budgets", `{"name":"b","tenant":"t","gl_code":"g","unit":"amount",` +
			`"durability":"ledger","total_quantity":9007199254740991,"type":"promo","bucket_quantity":8,` +
			`"sharding_quantity":10,"adjust_cnt":3,"start_at":"2026-12-31T22:59:59+01:00",` +
			`"end_at":"2026-12-31T23:59:59+01:00"}`, "application/json", ""}},
		{"create daily", func(ctx context.Context, c *client.Client) error {
			_, err := c.Create(ctx, client.CreateRequest{Name: "b", Unit: "count", TotalQuantity: 100, Type: "daily",
				TypeRule: &budget.Rule{Kind: budget.Calendar, Every: budget.Day}, EndAt: end, Timezone: "Asia/Shanghai",
				LateRefund: budget.Forfeit})
			return err
		}, seen{"POST", "/v1/budgets", `{"name":"b","tenant":"games","unit":"count","total_quantity":100,"type":"daily",` +
			`"end_at":"2026-12-31T23:59:59+01:00","type_rule":{"kind":"calendar","every":"day"},` +
			`"timezone":"Asia/Shanghai","late_refund":"forfeit"}`, "application/json", ""}},
		{"create with windows", func(ctx context.Context, c *client.Client) error {
			_, err := c.Create(ctx, client.CreateRequest{Name: "b", Unit: "count", TotalQuantity: 100, Type: "daily",
				TypeRule: &budget.Rule{Kind: budget.Windows, Unused: budget.Next, Windows: []budget.Window{
					{From: "00:00", To: "06:00", Quantity: 10}, {From: "06:00", To: "24:00", Quantity: 5}}}})
			return err
		}, seen{"POST", "/v1/budgets", `{"name":"b","tenant":"games","unit":"count","total_quantity":100,"type":"daily",` +
			`"type_rule":{"kind":"windows","unused":"next","windows":[{"from":"00:00","to":"06:00","quantity":10},` +
			`{"from":"06:00","to":"24:00","quantity":5}]}}`, "application/json", ""}},
		{"patch of a rule", func(ctx context.Context, c *client.Client) error {
			_, err := c.Patch(ctx, "b", client.PatchRequest{LateRefund: budget.Next,
				TypeRule: &budget.Rule{Kind: budget.Calendar, Every: budget.Week, Quantity: budget.MaxAmount}})
			return err
		}, seen{"PATCH", "/v1/budgets/b?tenant=games", `{"type_rule":{"kind":"calendar","every":"week",` +
			`"quantity":9007199254740991},"late_refund":"next"}`, "application/json", ""}},
		{"list", func(ctx context.Context, c *client.Client) error {
			_, err := c.List(ctx, client.Filter{Status: "paused", Type: "promo", PageSize: 5, PageToken: "a b"})
			return err
		}, seen{"GET", "/v1/budgets?page_size=5&page_token=a+b&status=paused&tenant=games&type=promo", "", "", ""}},
		{"search", func(ctx context.Context, c *client.Client) error {
			_, err := c.List(ctx, client.Filter{Search: "sale", Sort: "-refusals", Skip: 20, Archived: true})
			return err
		}, seen{"GET", "/v1/budgets?archived=true&q=sale&skip=20&sort=-refusals&tenant=games", "", "", ""}},
		{"get", func(ctx context.Context, c *client.Client) error { _, err := c.Budget(ctx, "b"); return err },
			seen{"GET", "/v1/budgets/b?tenant=games", "", "", ""}},
		{"series", func(ctx context.Context, c *client.Client) error {
			_, err := c.Series(ctx, "b", client.SeriesSpan{})
			return err
		},
			seen{"GET", "/v1/budgets/b/series?tenant=games", "", "", ""}},
		{"series of a span", func(ctx context.Context, c *client.Client) error {
			_, err := c.Series(ctx, "b", client.SeriesSpan{From: end, To: end.Add(time.Hour), Step: 5 * time.Minute})
			return err
		}, seen{"GET", "/v1/budgets/b/series?from=2026-12-31T23%3A59%3A59%2B01%3A00&step=5m0s&tenant=games&to=2027-01-01T00%3A59%3A59%2B01%3A00",
			"", "", ""}},
		{"patch", func(ctx context.Context, c *client.Client) error {
			_, err := c.Patch(ctx, "b", client.PatchRequest{Status: budget.Paused, EndAt: &end,
				ShardingQuantity: &quantity, AdjustCnt: &count, IfVersion: 3})
			return err
		}, seen{"PATCH", "/v1/budgets/b?tenant=games",
			`{"status":"paused","sharding_quantity":7,"adjust_cnt":0,"end_at":"2026-12-31T23:59:59+01:00"}`,
			"application/json", `"3"`}},
		{"patch that removes the end", func(ctx context.Context, c *client.Client) error {
			_, err := c.Patch(ctx, "b", client.PatchRequest{EndAt: new(time.Time)})
			return err
		}, seen{"PATCH", "/v1/budgets/b?tenant=games", `{"end_at":null}`, "application/json", ""}},
		{"append", func(ctx context.Context, c *client.Client) error {
			_, err := c.Append(ctx, "b", client.AppendRequest{RequestID: "a1", Quantity: -5})
			return err
		}, seen{"POST", "/v1/budgets/b/append?tenant=games", `{"request_id":"a1","quantity":-5}`, "application/json", ""}},
		{"many", func(ctx context.Context, c *client.Client) error {
			_, err := c.ChangeMany(ctx, client.BulkRequest{RequestID: "m1", Expected: 3, Action: "append", Quantity: 5})
			return err
		}, seen{"POST", "/v1/budgets:bulk", `{"request_id":"m1","filter":{"tenant":"games"},"expected":3,"action":"append","quantity":5}`,
			"application/json", ""}},
		{"close", func(ctx context.Context, c *client.Client) error { _, err := c.Close(ctx, "b"); return err },
			seen{"POST", "/v1/budgets/b/close?tenant=games", "{}", "application/json", ""}},
		{"buckets", func(ctx context.Context, c *client.Client) error { _, err := c.Buckets(ctx, "b"); return err },
			seen{"GET", "/v1/budgets/b/buckets?tenant=games", "", "", ""}},
		{"offline", func(ctx context.Context, c *client.Client) error {
			_, err := c.Offline(ctx, "b", "b:bucket-0")
			return err
		},
			seen{"POST", "/v1/budgets/b/buckets/b:bucket-0/offline?tenant=games", "", "", ""}},
		{"online, key that needs escaping", func(ctx context.Context, c *client.Client) error {
			_, err := c.Online(ctx, "b", "../x y?")
			return err
		}, seen{"POST", "/v1/budgets/b/buckets/..%2Fx%20y%3F/online?tenant=games", "", "", ""}},
		{"apply", func(ctx context.Context, c *client.Client) error { _, err := c.Apply(ctx, "b", "k"); return err },
			seen{"POST", "/v1/budgets/b/buckets/k/apply?tenant=games", "", "", ""}},
		{"audit", func(ctx context.Context, c *client.Client) error { _, err := c.Audit(ctx, "b"); return err },
			seen{"GET", "/v1/budgets/b/audit?tenant=games", "", "", ""}},
		{"instances", func(ctx context.Context, c *client.Client) error { _, err := c.Instances(ctx); return err },
			seen{"GET", "/v1/instances", "", "", ""}},
		{"healthz", func(ctx context.Context, c *client.Client) error { return c.Healthz(ctx) },
			seen{"GET", "/healthz", "", "", ""}},
		{"readyz", func(ctx context.Context, c *client.Client) error { return c.Readyz(ctx) },
			seen{"GET", "/readyz", "", "", ""}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := newScripted(t, answer(200, saysAll))
			c, _ := impatient(t, server.URL+"/", client.WithTenant("games"))
			if err := test.call(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]seen{test.want}, server.log(), cmp.AllowUnexported(seen{})); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRepeats checks which calls are sent again after a lost answer: those whose repetition has no
// second effect.
func TestRepeats(t *testing.T) {
	tests := []struct {
		name string
		call func(ctx context.Context, c *client.Client) error
		want int
	}{
		{"create", func(ctx context.Context, c *client.Client) error {
			_, err := c.Create(ctx, client.CreateRequest{Name: "b"})
			return err
		}, 2},
		{"get", func(ctx context.Context, c *client.Client) error { _, err := c.Budget(ctx, "b"); return err }, 2},
		{"patch", func(ctx context.Context, c *client.Client) error {
			_, err := c.Patch(ctx, "b", client.PatchRequest{Status: budget.Paused})
			return err
		}, 2},
		{"patch of one version", func(ctx context.Context, c *client.Client) error {
			_, err := c.Patch(ctx, "b", client.PatchRequest{Status: budget.Paused, IfVersion: 1})
			return err
		}, 1},
		{"append", func(ctx context.Context, c *client.Client) error {
			_, err := c.Append(ctx, "b", client.AppendRequest{RequestID: "a"})
			return err
		}, 2},
		{"offline", func(ctx context.Context, c *client.Client) error { _, err := c.Offline(ctx, "b", "k"); return err }, 2},
		{"apply", func(ctx context.Context, c *client.Client) error { _, err := c.Apply(ctx, "b", "k"); return err }, 1},
		{"recover", func(ctx context.Context, c *client.Client) error {
			_, err := c.RecoverInstance(ctx, "redis-1")
			return err
		}, 1},
		{"drain", func(ctx context.Context, c *client.Client) error {
			_, err := c.DrainInstance(ctx, "redis-1")
			return err
		}, 2},
		{"readyz", func(ctx context.Context, c *client.Client) error { return c.Readyz(ctx) }, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := newScripted(t, lost, answer(200, saysAll))
			c, _ := impatient(t, server.URL)
			err := test.call(t.Context(), c)
			if got := len(server.log()); got != test.want || (err == nil) != (test.want == 2) {
				t.Errorf("%d attempts, want %d: %v", got, test.want, err)
			}
		})
	}
}

// TestAppendRefusedAfterALostAnswer checks that an append that is refused after a lost answer has an
// unknown outcome, because an append cannot be cancelled.
func TestAppendRefusedAfterALostAnswer(t *testing.T) {
	server := newScripted(t, lost, problem(409, "amount_exceeds_remaining"))
	c, _ := impatient(t, server.URL)
	_, err := c.Append(t.Context(), "b", client.AppendRequest{RequestID: "a1", Quantity: -5})
	if client.KindOf(err) != budget.MayBeDone || client.CodeOf(err) != budget.OutcomeUnknown {
		t.Errorf("kind %d, code %q, want an unknown outcome: %v", client.KindOf(err), client.CodeOf(err), err)
	}
}

// TestReadsAreNeverUnknown checks that the error of a failed read says that nothing was done.
func TestReadsAreNeverUnknown(t *testing.T) {
	server := newScripted(t, lost, lost, lost, lost)
	c, _ := impatient(t, server.URL)
	_, err := c.Budget(t.Context(), "b")
	if client.KindOf(err) != budget.NotDone || client.Unreachable(err) {
		t.Errorf("kind %d, want NotDone: %v", client.KindOf(err), err)
	}
	if strings.Contains(err.Error(), "may have happened") {
		t.Errorf("message of a read: %v", err)
	}
}

// TestFaultyRequestsAreNotSent checks that the client refuses requests that it cannot encode, and
// names that would change the path.
func TestFaultyRequestsAreNotSent(t *testing.T) {
	server := newScripted(t)
	c, _ := impatient(t, server.URL)
	for name, err := range map[string]error{
		"invalid UTF-8 in the id": second(c.Deduct(t.Context(), "b", client.DeductRequest{RequestID: "\xff", Amount: 1})),
		"no budget":               second(c.Budget(t.Context(), "")),
		"a directory":             second(c.Offline(t.Context(), "..", "k")),
		"this directory":          second(c.Offline(t.Context(), "b", ".")),
	} {
		if err == nil || client.KindOf(err) != budget.Faulty {
			t.Errorf("%s: error %v, want a faulty request", name, err)
		}
	}
	if n := len(server.log()); n != 0 {
		t.Errorf("%d requests were sent: %v", n, server.log())
	}
}

func second[T any](_ T, err error) error { return err }

func TestNewRefusesInvalidAddresses(t *testing.T) {
	for _, server := range []string{"", "http://", "ftp://host", "http://host?x=1", "http://host#f", "http://[::1", ":8080:", "host,"} {
		if c, err := client.New(server); err == nil {
			t.Errorf("New(%q) calls %s, want an error", server, c.Server())
		}
	}
	if _, err := client.New("http://u:secret@host:x"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("address with a password: %v", err)
	}
	for server, want := range map[string]string{
		"127.0.0.1:8080": "http://127.0.0.1:8080", "https://h/api/": "https://h/api", "http://[::1]:80": "http://[::1]:80"} {
		if c, err := client.New(server); err != nil || c.Server() != want {
			t.Errorf("New(%q): %v, want %s", server, err, want)
		}
	}
}

// TestAStuckDialIsNotSent checks that a time-out while dialling counts as not done, because nothing
// was sent.
func TestAStuckDialIsNotSent(t *testing.T) {
	stuck := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	c, _ := impatient(t, "http://127.0.0.1:1", client.WithTransport(stuck))
	_, err := c.Deduct(t.Context(), "b", client.DeductRequest{RequestID: "o1", Amount: 5})
	if client.KindOf(err) != budget.NotDone || !client.Unreachable(err) {
		t.Errorf("kind %d, unreachable %t; want NotDone, true: %v",
			client.KindOf(err), client.Unreachable(err), err)
	}
}

func TestRequestIDs(t *testing.T) {
	before := ""
	for range 1000 {
		id := client.NewRequestID()
		if len(id) != 36 || budget.CheckRequestID(id) != "" || id <= before {
			t.Fatalf("request id %q after %q", id, before)
		}
		before = id
	}
}

// TestLongCallsAreWaitedFor checks that a recycle and an audit may take longer than AttemptTimeout.
func TestLongCallsAreWaitedFor(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(200 * time.Millisecond)
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte(`{"ok":true,"used":7}`))
			return
		}
		_, _ = w.Write([]byte(`{"run":7}`))
	}))
	defer server.Close()
	c, err := client.New(server.URL, client.WithRetry(client.Retry{Attempts: 1, AttemptTimeout: 50 * time.Millisecond}))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Recycle(context.Background(), "sale"); err != nil || got.Run != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := c.Audit(context.Background(), "sale"); err != nil || got.Used != 7 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestATransportThatRepeats checks that a failure to dial does not count as not done if the
// transport may have sent the request before.
func TestATransportThatRepeats(t *testing.T) {
	server := newScripted(t, lost)
	gone := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}}
	again := func(sent bool) client.Option {
		return client.WithTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
			if sent {
				if _, err := http.DefaultTransport.RoundTrip(r); err == nil {
					t.Error("the first attempt was answered")
				}
			}
			return gone.RoundTrip(r)
		}))
	}
	for sent, want := range map[bool]budget.Kind{true: budget.MayBeDone, false: budget.NotDone} {
		c, _ := impatient(t, server.URL, client.WithRetry(client.Retry{Attempts: 1}), again(sent))
		_, err := c.Deduct(t.Context(), "b", client.DeductRequest{RequestID: "o1", Amount: 5})
		if client.KindOf(err) != want {
			t.Errorf("sent %t: kind %d, want %d: %v", sent, client.KindOf(err), want, err)
		}
	}
}
