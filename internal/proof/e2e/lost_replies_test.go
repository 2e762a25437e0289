package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// loser is a transport that loses the replies of deductions.
type loser struct{}

func (loser) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	deducts := strings.HasSuffix(r.URL.Path, "/deduct") || strings.HasSuffix(r.URL.Path, ":batch")
	if err != nil || !deducts {
		return response, err
	}
	response.Body.Close()
	return nil, errors.New("reply lost")
}

// TestClientCancelsInStoreMode checks that the client's cancel of what stayed unknown finds the
// deduction in store mode, however it was routed: a call that ends as request_void has used
// nothing.
func TestClientCancelsInStoreMode(t *testing.T) {
	node := newCluster(t).start(t)
	c := node.client()
	createStore(t, c, "keyed", 10_000, 6)
	createBudget(t, c, client.CreateRequest{Name: "routed", Unit: budget.Count, Type: budget.Promo,
		Durability: budget.Store, TotalQuantity: 10_000, BucketQuantity: 6, RoutingDimension: "user"})
	requests := map[string]client.DeductRequest{
		"keyed by key":     {Key: "ann"},
		"keyed by id":      {Dimensions: map[string]string{"user": "ann"}},
		"routed by value":  {Key: "other", Dimensions: map[string]string{"user": "ann"}},
		"routed by id":     {},
		"routed by no one": {Dimensions: map[string]string{"shop": "1"}},
	}
	for _, batched := range []bool{false, true} {
		for how, request := range requests {
			name, _, _ := strings.Cut(how, " ")
			t.Run(fmt.Sprintf("%s, batch %t", how, batched), func(t *testing.T) {
				for i := range 8 {
					request.RequestID = fmt.Sprintf("%s %t %d", how, batched, i)
					request.Amount = 1
					if err := lostDeduct(t, node, name, request, batched); client.CodeOf(err) != budget.RequestVoid {
						t.Errorf("%s: %v", request.RequestID, err)
					}
				}
			})
		}
	}
	for _, name := range []string{"keyed", "routed"} {
		checkBooks(t, c, name, 10_000, 0)
	}
}

// lostDeduct deducts through a client that loses the replies and then cancels.
func lostDeduct(t *testing.T, n *node, name string, request client.DeductRequest,
	batched bool) error {
	t.Helper()
	c, err := client.New("http://"+n.addr, client.WithTransport(loser{}),
		client.WithRetry(client.Retry{Attempts: 2}), client.WithCancelUnknown(20*time.Second))
	must(t, err)
	if !batched {
		_, err = c.Deduct(context.Background(), name, request)
		return err
	}
	got, err := c.DeductBatch(context.Background(),
		[]client.BatchItem{{Budget: name, DeductRequest: request}})
	if err != nil {
		return err
	}
	return got[0].Err
}
