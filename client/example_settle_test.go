package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// An outcome that stays unknown after all attempts is settled by the same request id: repeat it
// later, or cancel it.
func ExampleUnknownOutcome() {
	server := replying(lost, problem(504, "outcome_unknown"),
		answer(200, `{"request_id":"order-1","state":"rolled_back","amount":5,"rolled_back":5}`))
	defer server.Close()
	budgets, err := client.New(server.URL, client.WithRetry(client.Retry{Attempts: 2}))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	request := client.DeductRequest{RequestID: "order-1", Amount: 5, Key: "user-17"}
	_, err = budgets.Deduct(ctx, "spring-sale", request)
	var unknown *client.UnknownOutcome
	if !errors.As(err, &unknown) {
		fmt.Println(err)
		return
	}
	fmt.Println("unknown after", unknown.Attempts, "attempts")

	settled, err := budgets.Cancel(ctx, "spring-sale", request.Cancellation())
	if err != nil {
		fmt.Println("still unknown: store the id and settle it later:", err)
		return
	}
	fmt.Println("no units are taken:", settled.State)
	// Output:
	// unknown after 2 attempts
	// no units are taken: rolled_back
}

// The client can cancel by itself. A deduction is then either accepted or has no effect, unless the
// service cannot be reached for longer than that.
func ExampleWithCancelUnknown() {
	server := replying(lost, lost, answer(200, `{"request_id":"order-1","state":"void"}`))
	defer server.Close()
	budgets, err := client.New(server.URL, client.WithRetry(client.Retry{Attempts: 2}),
		client.WithCancelUnknown(5*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = budgets.Deduct(context.Background(), "spring-sale", client.DeductRequest{RequestID: "order-1", Amount: 5})
	var no *client.Problem
	if errors.As(err, &no) && no.Cancelled {
		fmt.Println("it had no effect and never will; another try needs another id:", no.Code)
	}
	// Output:
	// it had no effect and never will; another try needs another id: request_void
}

// An unpaid order holds its units. Units that are not confirmed in time come back automatically.
func ExampleClient_Confirm() {
	server := replying(
		answer(200, `{"request_id":"order-1","outcome":"accepted","amount":5,"state":"held","hold_until":"2027-01-01T00:15:00Z"}`),
		answer(200, `{"request_id":"order-1","state":"held","amount":5,"hold_until":"2027-01-01T00:30:00Z"}`),
		answer(200, `{"request_id":"order-1","state":"used","amount":5,"confirmed":3,"rolled_back":2}`),
		problem(409, "hold_expired"))
	defer server.Close()
	budgets, err := client.New(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	held, err := budgets.Deduct(ctx, "spring-sale", client.DeductRequest{RequestID: "order-1", Amount: 5, HoldTTL: "15m"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(held.State, "until", held.HoldUntil.Format(time.TimeOnly))
	longer, err := budgets.Extend(ctx, "spring-sale", client.ExtendRequest{RequestID: "order-1", HoldTTL: "30m"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(longer.State, "until", longer.HoldUntil.Format(time.TimeOnly))
	// Paid for three: the other two come back.
	used, err := budgets.Confirm(ctx, "spring-sale", client.ConfirmRequest{RequestID: "order-1", Amount: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(used.State, used.Confirmed, "and", used.RolledBack, "came back")

	_, err = budgets.Confirm(ctx, "spring-sale", client.ConfirmRequest{RequestID: "order-2"})
	if client.CodeOf(err) == budget.HoldExpired {
		fmt.Println("order-2 was paid too late: its units are back")
	}
	// Output:
	// held until 00:15:00
	// held until 00:30:00
	// used 3 and 2 came back
	// order-2 was paid too late: its units are back
}

// Every attempt of a call carries the caller's trace.
func ExampleContextWithTrace() {
	s := newTill()
	budgets, err := client.New("http://budgetd.internal:8080", client.WithTransport(s))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := client.ContextWithTrace(context.Background(), client.Trace{
		Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "vendor=1"})
	if _, err := budgets.Deduct(ctx, "spring-sale", client.DeductRequest{RequestID: "order-1", Amount: 5}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(s.traces[0])
	// Output:
	// 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 vendor=1
}
