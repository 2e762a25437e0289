//go:build go1.25

package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// replying is a server that answers the n-th call with the n-th reply.
func replying(replies ...reply) *httptest.Server {
	s := &scripted{replies: replies}
	s.Server = httptest.NewServer(http.HandlerFunc(s.ServeHTTP))
	return s.Server
}

func ExampleClient_Deduct() {
	server := replying(
		answer(200, `{"request_id":"order-1","outcome":"accepted","amount":5,"state":"used","budget_remaining":95}`),
		answer(409, `{"status":409,"code":"budget_exhausted","available":3}`))
	defer server.Close()
	budgets, err := client.New(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()

	taken, err := budgets.Deduct(ctx, "spring-sale", client.DeductRequest{RequestID: "order-1", Amount: 5,
		Dimensions: map[string]string{"user": "u1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(taken.Outcome, taken.Amount, "and", *taken.BudgetRemaining, "are left")

	_, err = budgets.Deduct(ctx, "spring-sale", client.DeductRequest{RequestID: "order-2", Amount: 100})
	var no *client.Problem
	if errors.As(err, &no) && no.Code == budget.BudgetExhausted {
		fmt.Println("not enough, there are", *no.Available)
	}
	// Output:
	// accepted 5 and 95 are left
	// not enough, there are 3
}

// A call is repeated with the same request id, so a lost answer does no harm. These are the bounds of
// the repeats; the context bounds them as well.
func ExampleWithRetry() {
	server := replying(problem(503, "unavailable"), lost,
		answer(200, `{"request_id":"order-1","outcome":"accepted","amount":5,"state":"used","replayed":true}`))
	defer server.Close()
	budgets, err := client.New(server.URL, client.WithRetry(client.Retry{
		Attempts:       4,
		Base:           10 * time.Millisecond,
		Max:            time.Second,
		AttemptTimeout: 3 * time.Second,
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	taken, err := budgets.Deduct(context.Background(), "spring-sale",
		client.DeductRequest{RequestID: "order-1", Amount: 5})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(taken.Outcome, "at attempt", taken.Attempts, "- an earlier one had taken the units:", taken.Replayed)
	// Output:
	// accepted at attempt 3 - an earlier one had taken the units: true
}

// Many goroutines share a client and call Deduct as they would without coalescing.
func ExampleWithCoalescing() {
	budgets, err := client.New("http://budgetd.internal:8080", client.WithTransport(newTill()),
		client.WithCoalescing(client.Coalescing{Calls: 2, Items: 200, Queue: 5000}))
	if err != nil {
		fmt.Println(err)
		return
	}
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			order := client.DeductRequest{RequestID: fmt.Sprintf("order-%d", n), Amount: 1}
			_, err := budgets.Deduct(ctx, "spring-sale", order)
			switch {
			case errors.Is(err, client.ErrQueueFull):
				fmt.Println("too much at once; nothing was sent")
			case err != nil:
				fmt.Println(order.RequestID, err)
			}
		})
	}
	all.Wait()
	fmt.Println("all served")
	// Output:
	// all served
}

func ExampleClient_Rollback() {
	server := replying(
		answer(200, `{"request_id":"order-1","state":"used","amount":5,"rolled_back":2}`),
		answer(200, `{"request_id":"order-1","state":"rolled_back","amount":5,"rolled_back":5}`))
	defer server.Close()
	budgets, err := client.New(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	// A part: its own id makes a repeat of this call safe.
	part, err := budgets.Rollback(ctx, "spring-sale",
		client.RollbackRequest{RequestID: "order-1", Amount: 2, RollbackID: "return-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(part.State, part.RolledBack, "of", part.Amount)
	// All that is left.
	whole, err := budgets.Rollback(ctx, "spring-sale", client.RollbackRequest{RequestID: "order-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(whole.State, whole.RolledBack, "of", whole.Amount)
	// Output:
	// used 2 of 5
	// rolled_back 5 of 5
}
