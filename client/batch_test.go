package client_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/google/go-cmp/cmp"
)

// results answers a batch: "ok" is an accepted deduction, anything else a problem's code.
func results(codes ...string) reply {
	items := make([]string, len(codes))
	for i, code := range codes {
		items[i] = fmt.Sprintf(`{"status":409,"code":%q}`, code)
		if code == "ok" {
			items[i] = `{"outcome":"accepted","amount":1,"state":"used"}`
		}
	}
	return answer(200, `{"results":[`+strings.Join(items, ",")+`]}`)
}

func TestBatchSettlesEveryItem(t *testing.T) {
	tests := []struct {
		name    string
		replies []reply
		calls   []string // ids in each batch, or "cancel <id>"
		want    []string // per item: "accepted after n" or its code
		whole   budget.Kind
	}{
		{name: "all at once", replies: []reply{results("ok", "ok", "ok")},
			calls: []string{"o0 o1 o2"}, want: []string{"accepted after 1", "accepted after 1", "accepted after 1"}},
		{name: "one refused", replies: []reply{results("ok", "budget_exhausted", "ok")},
			calls: []string{"o0 o1 o2"}, want: []string{"accepted after 1", "budget_exhausted", "accepted after 1"}},
		{name: "only what is undecided is repeated",
			replies: []reply{results("ok", "unavailable", "outcome_unknown"), results("budget_exhausted", "ok")},
			calls:   []string{"o0 o1 o2", "o1 o2"}, want: []string{"accepted after 1", "budget_exhausted", "accepted after 2"}},
		{name: "a period that is exhausted is refused at once",
			replies: []reply{results("period_exhausted", "unavailable", "ok"), results("period_exhausted")},
			calls:   []string{"o0 o1 o2", "o1"}, want: []string{"period_exhausted", "period_exhausted", "accepted after 1"}},
		{name: "refused after an unknown outcome: the item is cancelled",
			replies: []reply{results("ok", "unavailable", "outcome_unknown"),
				results("budget_exhausted", "budget_exhausted"), answer(200, strings.Replace(void, "o1", "o2", 1))},
			calls: []string{"o0 o1 o2", "o1 o2", "cancel o2"},
			want:  []string{"accepted after 1", "budget_exhausted", "budget_exhausted"}},
		{name: "lost as a whole, then answered; the refused one is cancelled",
			replies: []reply{lost, results("ok", "budget_exhausted", "request_conflict"), answer(200, rolledBack)},
			calls:   []string{"o0 o1 o2", "o0 o1 o2", "cancel o1"},
			want:    []string{"accepted after 2", "budget_exhausted", "request_conflict"}},
		{name: "never answered", replies: []reply{lost, lost, lost, lost},
			calls: []string{"o0 o1 o2", "o0 o1 o2", "o0 o1 o2", "o0 o1 o2"},
			want:  []string{"outcome_unknown", "outcome_unknown", "outcome_unknown"}},
		{name: "too few results are no answer", replies: []reply{results("ok"), results("ok", "ok", "ok")},
			calls: []string{"o0 o1 o2", "o0 o1 o2"},
			want:  []string{"accepted after 2", "accepted after 2", "accepted after 2"}},
		{name: "a result that is neither answer nor problem may have happened",
			replies: []reply{answer(200, `{"results":[{},{"outcome":"accepted"},null]}`), results("ok", "ok")},
			calls:   []string{"o0 o1 o2", "o0 o2"},
			want:    []string{"accepted after 2", "accepted after 1", "accepted after 2"}},
		{name: "an accepted result of which a member cannot be read may have happened",
			replies: []reply{answer(200, `{"results":[{"request_id":"o0","outcome":"accepted","amount":"1"},
				{"outcome":"accepted"},{"outcome":"accepted","limits":1}]}`), results("ok", "ok")},
			calls: []string{"o0 o1 o2", "o0 o2"},
			want:  []string{"accepted after 2", "accepted after 1", "accepted after 2"}},
		{name: "the repeat is refused as a whole: the answered items keep their results",
			replies: []reply{results("ok", "unavailable", "ok"), problem(413, "too_large")},
			calls:   []string{"o0 o1 o2", "o1"},
			want:    []string{"accepted after 1", "too_large", "accepted after 1"}},
		{name: "forbidden as a whole after a lost answer: every outcome stays open",
			replies: []reply{lost, problem(403, "forbidden"), problem(403, "forbidden"),
				problem(403, "forbidden"), problem(403, "forbidden")},
			calls: []string{"o0 o1 o2", "o0 o1 o2", "cancel o0", "cancel o1", "cancel o2"},
			want:  []string{"outcome_unknown", "outcome_unknown", "outcome_unknown"}},
		{name: "refused as a whole", replies: []reply{problem(413, "too_large")},
			calls: []string{"o0 o1 o2"}, whole: budget.Faulty},
		{name: "unavailable to the end as a whole",
			replies: []reply{problem(503, "unavailable"), problem(503, "unavailable"), problem(503, "unavailable"), problem(503, "unavailable")},
			calls:   []string{"o0 o1 o2", "o0 o1 o2", "o0 o1 o2", "o0 o1 o2"}, whole: budget.NotDone},
		{name: "some done, the rest unavailable to the end",
			replies: []reply{results("ok", "unavailable", "ok"), results("unavailable"), results("unavailable"), results("unavailable")},
			calls:   []string{"o0 o1 o2", "o1", "o1", "o1"},
			want:    []string{"accepted after 1", "unavailable", "accepted after 1"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := newScripted(t, test.replies...)
			c, _ := impatient(t, server.URL)
			var items []client.BatchItem
			for i := range 3 {
				items = append(items, client.BatchItem{Budget: "b",
					DeductRequest: client.DeductRequest{RequestID: fmt.Sprintf("o%d", i), Amount: 1}})
			}
			got, err := c.DeductBatch(t.Context(), items)
			if client.KindOf(err) != test.whole {
				t.Fatalf("kind %d, want %d: %v", client.KindOf(err), test.whole, err)
			}
			var outcomes []string
			for _, r := range got {
				if (r.Answer == nil) == (r.Err == nil) {
					t.Errorf("result %+v: want exactly one", r)
				} else if r.Err == nil {
					outcomes = append(outcomes, fmt.Sprintf("accepted after %d", r.Answer.Attempts))
				} else {
					outcomes = append(outcomes, string(client.CodeOf(r.Err)))
				}
			}
			if diff := cmp.Diff(test.want, outcomes); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.calls, batchCalls(server.log())); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func batchCalls(requests []seen) (calls []string) {
	for _, request := range requests {
		var ids []string
		for _, part := range strings.Split(request.body, `"request_id":"`)[1:] {
			ids = append(ids, part[:strings.IndexByte(part, '"')])
		}
		line := strings.Join(ids, " ")
		if strings.HasSuffix(request.uri, "/cancel") {
			line = "cancel " + line
		}
		calls = append(calls, line)
	}
	return calls
}

func TestBatchBounds(t *testing.T) {
	server := newScripted(t)
	c, _ := impatient(t, server.URL)
	if got, err := c.DeductBatch(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("empty batch: %v, %v", got, err)
	}
	if _, err := c.DeductBatch(t.Context(), make([]client.BatchItem, client.MaxBatch+1)); err == nil {
		t.Error("a batch that is too long is accepted")
	}
	if n := len(server.log()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}
