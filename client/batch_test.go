package client_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/client"
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

// TestAResultWithAMemberOfAnotherType checks that an accepted result that cannot be read may have
// happened, so that its item is repeated.
func TestAResultWithAMemberOfAnotherType(t *testing.T) {
	server := newScripted(t, answer(200, `{"results":[{"request_id":"o0","outcome":"accepted","amount":"1"},
		{"outcome":"accepted","limits":1}]}`), results("ok", "ok"))
	c, _ := impatient(t, server.URL)
	got, err := c.DeductBatch(t.Context(), []client.BatchItem{
		{Budget: "b", DeductRequest: client.DeductRequest{RequestID: "o0", Amount: 1}},
		{Budget: "b", DeductRequest: client.DeductRequest{RequestID: "o1", Amount: 1}}})
	if err != nil || got[0].Answer.Attempts != 2 || got[1].Answer.Attempts != 2 {
		t.Errorf("%+v, %v", got, err)
	}
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
