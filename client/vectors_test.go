//go:build go1.25

package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// vector is a conversation of sdk/vectors.json. sdk/README.md describes the format.
type vector struct {
	Name       string         `json:"name"`
	Client     jsontext.Value `json:"client"`
	DeadlineMS int64          `json:"deadline_ms"`
	TookMS     []int64        `json:"took_ms"`
	Call       asked          `json:"call"`
	Exchanges  []exchange     `json:"exchanges"`
	Result     map[string]any `json:"result"`
}

// asked is what the caller of the client asks for.
type asked struct {
	Op      string         `json:"op"`
	Budget  string         `json:"budget"`
	Request jsontext.Value `json:"request"`
	Steps   []string       `json:"steps"`
}

// settings are those of the client.
type settings struct {
	Attempts         *int    `json:"attempts"`
	BaseMS           *int64  `json:"base_ms"`
	MaxMS            *int64  `json:"max_ms"`
	AttemptTimeoutMS *int64  `json:"attempt_timeout_ms"`
	CancelWithinMS   *int64  `json:"cancel_within_ms"`
	Nodes            *int    `json:"nodes"`
	Tenant           *string `json:"tenant"`
	Key              *string `json:"key"`
}

// vectorFile is sdk/vectors.json.
type vectorFile struct {
	Settings jsontext.Value            `json:"settings"`
	Requests map[string]jsontext.Value `json:"requests"`
	Replies  map[string]jsontext.Value `json:"replies"`
	Vectors  []vector                  `json:"vectors"`
}

// elsewhere are the calls that this client does not have: a hold as a scope.
var elsewhere = []string{"scope"}

// TestVectors plays the conversations that the clients of all languages share. The server is a real
// one in this process, and the time is that of the test.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("../sdk/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file vectorFile
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	played := 0
	for _, v := range file.Vectors {
		if slices.Contains(elsewhere, v.Call.Op) {
			continue
		}
		played++
		t.Run(v.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { file.play(t, v) })
		})
	}
	if played < 100 {
		t.Errorf("only %d vectors were played", played)
	}
}

func (f *vectorFile) play(t *testing.T, v vector) {
	var set settings
	for _, text := range []jsontext.Value{f.Settings, v.Client} {
		if len(text) > 0 {
			if err := json.Unmarshal(text, &set); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := newScript(t, f, v.Exchanges)
	c := set.client(t, s)
	ctx := t.Context()
	if v.DeadlineMS > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, time.Duration(v.DeadlineMS)*time.Millisecond)
		defer end()
	}
	began := time.Now()
	got := v.Call.ask(ctx, t, c)
	if took := time.Since(began); len(v.TookMS) == 2 && !within(v.TookMS, took) {
		t.Errorf("the call took %s, want %d ms", took, v.TookMS)
	}
	s.end()
	if answer, ok := got["answer"].(*client.DeductAnswer); ok && answer.Attempts != len(v.Exchanges) {
		t.Errorf("attempt %d was answered, want %d", answer.Attempts, len(v.Exchanges))
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		t.Fatal(err)
	}
	for _, lack := range lacks("result", v.Result, plain) {
		t.Error(lack)
	}
	if len(plain.(map[string]any)) != len(v.Result) {
		t.Errorf("the result is %s, want %v", text, v.Result)
	}
}

func (set settings) client(t *testing.T, s *script) *client.Client {
	t.Helper()
	ms := func(n *int64) time.Duration {
		if n == nil {
			return 0
		}
		return time.Duration(*n) * time.Millisecond
	}
	retry := client.Retry{Base: ms(set.BaseMS), Max: ms(set.MaxMS), AttemptTimeout: ms(set.AttemptTimeoutMS)}
	if set.Attempts != nil {
		retry.Attempts = *set.Attempts
	}
	options := []client.Option{client.WithRetry(retry), client.WithTransport(s.transport),
		client.WithCancelUnknown(ms(set.CancelWithinMS))}
	if set.Tenant != nil {
		options = append(options, client.WithTenant(*set.Tenant))
	}
	if set.Key != nil {
		options = append(options, client.WithToken(*set.Key))
	}
	addresses := []string{"node-0"}
	for n := 1; set.Nodes != nil && n < *set.Nodes; n++ {
		addresses = append(addresses, fmt.Sprintf("node-%d", n))
	}
	c, err := client.New(strings.Join(addresses, ","), options...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// settling is the request of a call that settles, finds or reads.
type settling struct {
	RequestID  string `json:"request_id"`
	RollbackID string `json:"rollback_id"`
	Group      string `json:"group"`
	Amount     int64  `json:"amount"`
	HoldTTL    string `json:"hold_ttl"`
	Key        string `json:"key"`
	Receipt    string `json:"receipt"`
	After      string `json:"after"`
	Limit      int    `json:"limit"`
	WaitMS     int64  `json:"wait_ms"`
}

// ask makes the call and returns its result in the form of the vectors.
func (a asked) ask(ctx context.Context, t *testing.T, c *client.Client) map[string]any {
	t.Helper()
	var one client.DeductRequest
	var batch []client.BatchItem
	var checks []client.CheckItem
	var r settling
	if strings.HasSuffix(a.Op, "_set") || a.Op == "renew" {
		return a.askMore(ctx, t, c)
	}
	into := map[string]any{"deduct": &one, "batch": &batch, "check": &checks}[a.Op]
	if into == nil {
		into = &r
	}
	if err := json.Unmarshal(a.Request, into); err != nil {
		t.Fatal(err)
	}
	wait := time.Duration(r.WaitMS) * time.Millisecond
	switch a.Op {
	case "deduct":
		return outcomeOf(c.Deduct(ctx, a.Budget, one))
	case "batch":
		results := []any{}
		all, err := c.DeductBatch(ctx, batch)
		for _, item := range all {
			results = append(results, outcomeOf(item.Answer, item.Err))
		}
		return ofAll("results", results, err)
	case "check":
		results := []any{}
		all, err := c.Check(ctx, checks)
		for _, item := range all {
			results = append(results, outcomeOf(item.Answer, item.Err))
		}
		return ofAll("results", results, err)
	case "find":
		return outcomeOf(c.KeyedDeduction(ctx, a.Budget, r.RequestID, r.Key))
	case "feed":
		return outcomeOf(c.Ledger(ctx, a.Budget, r.After, r.Limit, wait))
	case "follow":
		pages := []any{}
		for page, err := range c.Follow(ctx, a.Budget, r.After, r.Limit, wait) {
			if err != nil {
				return map[string]any{"pages": pages, "error": failureOf(err)}
			}
			pages = append(pages, page.Next)
		}
		return map[string]any{"pages": pages}
	}
	return a.settle(ctx, t, c, r)
}

// askMore makes the calls on sets and streams.
func (a asked) askMore(ctx context.Context, t *testing.T, c *client.Client) map[string]any {
	t.Helper()
	switch a.Op {
	case "renew":
		return read(t, a, func(r client.RenewRequest) (*client.Renewal, error) {
			return c.Renew(ctx, a.Budget, r)
		})
	case "deduct_set":
		return read(t, a, func(r client.SetRequest) (*client.SetAnswer, error) { return c.DeductSet(ctx, r) })
	case "confirm_set":
		return read(t, a, func(r client.SetConfirm) (*client.Set, error) { return c.ConfirmSet(ctx, r) })
	case "extend_set":
		return read(t, a, func(r client.SetExtend) (*client.Set, error) { return c.ExtendSet(ctx, r) })
	case "rollback_set":
		return read(t, a, func(r client.SetRollback) (*client.Set, error) { return c.RollbackSet(ctx, r) })
	case "cancel_set":
		return read(t, a, func(r client.SetCancel) (*client.Set, error) { return c.CancelSet(ctx, r.RequestID) })
	}
	t.Fatalf("no such call: %s", a.Op)
	return nil
}

// read makes a call with the request of a vector.
func read[R, A any](t *testing.T, a asked, call func(R) (*A, error)) map[string]any {
	t.Helper()
	var r R
	if err := json.Unmarshal(a.Request, &r); err != nil {
		t.Fatal(err)
	}
	return outcomeOf(call(r))
}

func (a asked) settle(ctx context.Context, t *testing.T, c *client.Client, r settling) map[string]any {
	t.Helper()
	switch {
	case a.Op == "confirm" && r.Group != "":
		return outcomeOf(c.ConfirmGroup(ctx, a.Budget, r.Group))
	case a.Op == "confirm":
		return outcomeOf(c.Confirm(ctx, a.Budget,
			client.ConfirmRequest{RequestID: r.RequestID, Amount: r.Amount, Receipt: r.Receipt}))
	case a.Op == "extend" && r.Group != "":
		return outcomeOf(c.ExtendGroup(ctx, a.Budget, r.Group,
			client.ExtendRequest{HoldTTL: r.HoldTTL}))
	case a.Op == "extend":
		return outcomeOf(c.Extend(ctx, a.Budget,
			client.ExtendRequest{RequestID: r.RequestID, HoldTTL: r.HoldTTL, Receipt: r.Receipt}))
	case a.Op == "rollback" && r.Group != "":
		return outcomeOf(c.RollbackGroup(ctx, a.Budget, r.Group))
	case a.Op == "rollback":
		return outcomeOf(c.Rollback(ctx, a.Budget, client.RollbackRequest{RequestID: r.RequestID,
			Amount: r.Amount, RollbackID: r.RollbackID, Key: r.Key, Receipt: r.Receipt}))
	case a.Op == "cancel":
		return outcomeOf(c.Cancel(ctx, a.Budget,
			client.CancelRequest{RequestID: r.RequestID, Key: r.Key, Receipt: r.Receipt}))
	}
	t.Fatalf("no such call: %s", a.Op)
	return nil
}

func outcomeOf[A any](answer *A, err error) map[string]any {
	if err != nil {
		return map[string]any{"error": failureOf(err)}
	}
	return map[string]any{"answer": answer}
}

func ofAll(name string, all []any, err error) map[string]any {
	if err != nil {
		return map[string]any{"error": failureOf(err)}
	}
	return map[string]any{name: all}
}

// failureOf returns an error in the form of the vectors.
func failureOf(err error) map[string]any {
	kinds := map[budget.Kind]string{budget.Faulty: "faulty", budget.Refused: "refused",
		budget.Conflict: "conflict", budget.NotDone: "not_now", budget.MayBeDone: "unknown"}
	got := map[string]any{"kind": kinds[client.KindOf(err)], "code": client.CodeOf(err), "says": err.Error()}
	var unknown *client.UnknownOutcome
	if errors.As(err, &unknown) {
		got["request_id"] = unknown.RequestID
		return got
	}
	var p *client.Problem
	if errors.As(err, &p) {
		got["status"], got["cancelled"], got["never"] = p.Status, p.Cancelled, p.Never
		got["retry_after_ms"], got["available"] = p.RetryAfter.Milliseconds(), p.Available
		if p.Limit != nil {
			got["limit"] = p.Limit.Name
		}
	}
	return got
}

// lacks lists what a value lacks: members of objects that are not wanted are ignored, and "says"
// lists texts that a message contains.
func lacks(at string, want, got any) (all []string) {
	switch want := want.(type) {
	case map[string]any:
		object, _ := got.(map[string]any)
		for name, value := range want {
			if message, ok := object[name].(string); ok && name == "says" {
				for _, text := range value.([]any) {
					if !strings.Contains(message, text.(string)) {
						all = append(all, fmt.Sprintf("%q does not say %q", message, text))
					}
				}
				continue
			}
			all = append(all, lacks(at+"."+name, value, object[name])...)
		}
	case []any:
		list, _ := got.([]any)
		if len(list) != len(want) {
			return []string{fmt.Sprintf("%s has %d items, want %d: %v", at, len(list), len(want), got)}
		}
		for i := range want {
			all = append(all, lacks(fmt.Sprintf("%s[%d]", at, i), want[i], list[i])...)
		}
	default:
		if diff := cmp.Diff(want, got); diff != "" {
			all = append(all, fmt.Sprintf("%s (-want +got):\n%s", at, diff))
		}
	}
	return all
}
