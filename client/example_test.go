package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// service stands in for budgetd: it accepts the first 10 units of any budget.
func service() *httptest.Server {
	used := false
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if used {
			problem(409, "budget_exhausted")(w)
			return
		}
		used = true
		answer(200, `{"request_id":"order-1","outcome":"accepted","amount":10,"state":"used"}`)(w)
	}))
}

func Example() {
	server := service()
	defer server.Close()
	budgets, err := client.New(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, order := range []string{"order-1", "order-2"} {
		_, err := budgets.Deduct(ctx, "spring-sale", client.DeductRequest{RequestID: order, Amount: 10})
		switch client.KindOf(err) {
		case 0:
			fmt.Println(order, "has its units")
		case budget.Refused, budget.Conflict:
			fmt.Println(order, "gets none:", client.CodeOf(err))
		case budget.MayBeDone:
			fmt.Println(order, "stays open: repeat it with the same id, or cancel it")
		default:
			fmt.Println(order, "was not tried:", err)
		}
	}
	// Output:
	// order-1 has its units
	// order-2 gets none: budget_exhausted
}

func ExampleClient_DeductBatch() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		results("ok", "budget_exhausted")(w)
	}))
	defer server.Close()
	budgets, err := client.New(server.URL, client.WithTenant("games"))
	if err != nil {
		fmt.Println(err)
		return
	}
	results, err := budgets.DeductBatch(context.Background(), []client.BatchItem{
		{Budget: "spring-sale", DeductRequest: client.DeductRequest{RequestID: "order-1", Amount: 1}},
		{Budget: "spring-sale", DeductRequest: client.DeductRequest{RequestID: "order-2", Amount: 1}},
	})
	if err != nil {
		fmt.Println("none of them had an effect:", err)
		return
	}
	for _, r := range results {
		if r.Err != nil {
			fmt.Println("none:", client.CodeOf(r.Err))
			continue
		}
		fmt.Println("accepted")
	}
	// Output:
	// accepted
	// none: budget_exhausted
}
