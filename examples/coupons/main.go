// Command coupons is a coupon shop: it hands out the coupons of one campaign, one to each user.
//
//	coupons -budgetd http://127.0.0.1:8080 -listen 127.0.0.1:9001
//	curl -X POST 'http://127.0.0.1:9001/coupons?order=o1&user=ann'
//
// The order is the request id: the page makes it once and repeats it until it has an answer, so
// that a user who presses the button twice, or whose answer is lost, gets one coupon.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

type shop struct {
	budgets  *client.Client
	campaign string
}

func main() {
	server := flag.String("budgetd", "http://127.0.0.1:8080", "address of budgetd")
	listen := flag.String("listen", "127.0.0.1:9001", "address to serve on")
	campaign := flag.String("campaign", "coupon-shop", "name of the budget")
	total := flag.Int64("total", 1000, "number of coupons")
	flag.Parse()
	if err := run(*server, *listen, *campaign, *total); err != nil {
		log.Fatal(err)
	}
}

func run(server, listen, campaign string, total int64) error {
	// A user waits for the answer: three quick attempts, each with the same request id.
	budgets, err := client.New(server, client.WithRetry(client.Retry{
		Attempts: 3, Base: 20 * time.Millisecond, AttemptTimeout: 3 * time.Second}))
	if err != nil {
		return err
	}
	// Creating the same budget again is no error, so every instance of the shop may do it.
	if _, err := budgets.Create(context.Background(), client.CreateRequest{
		Name: campaign, Unit: budget.Count, Type: budget.Promo, TotalQuantity: total,
		Limits: []client.Limit{{Name: "one-each", Dimension: "user", Max: 1,
			Measure: budget.MeasureCount, Window: client.Window{Kind: budget.WindowLifetime}}},
	}); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Println("listening on", listener.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /coupons", (&shop{budgets, campaign}).giveCoupon)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return web.Serve(listener)
}

// giveCoupon answers 200 with a coupon, and the same coupon to a repeat of the order.
func (s *shop) giveCoupon(w http.ResponseWriter, r *http.Request) {
	order, user := r.FormValue("order"), r.FormValue("user")
	if order == "" || user == "" {
		http.Error(w, "order and user are needed", http.StatusBadRequest)
		return
	}
	_, err := s.budgets.Deduct(r.Context(), s.campaign, client.DeductRequest{
		RequestID: order, Amount: 1, Dimensions: map[string]string{"user": user}})
	switch client.KindOf(err) {
	case 0:
		fmt.Fprintf(w, "your coupon is %s-%s\n", s.campaign, order)
	case budget.Refused:
		s.refused(w, err)
	case budget.Conflict:
		if client.CodeOf(err) == budget.AlreadyRolledBack {
			http.Error(w, "this coupon was given back", http.StatusConflict)
			return
		}
		// The order belongs to another user, or it was cancelled. Nothing was handed out.
		http.Error(w, "this order number is in use: begin another order", http.StatusConflict)
	case budget.NotDone:
		// Nothing was handed out. The page may repeat the order or begin another.
		w.Header().Set("Retry-After", "1")
		http.Error(w, "no coupons can be handed out right now", http.StatusServiceUnavailable)
	case budget.MayBeDone:
		// The coupon may be taken. Only a repeat of the same order tells.
		w.Header().Set("Retry-After", "1")
		http.Error(w, "not certain yet: repeat the same order", http.StatusGatewayTimeout)
	default: // budget.Faulty: this program or its configuration is wrong
		log.Print(err)
		http.Error(w, "internal error", http.StatusInternalServerError)
	}
}

// refused says why there is no coupon. Nothing was handed out.
func (s *shop) refused(w http.ResponseWriter, err error) {
	var no *client.Problem
	switch errors.As(err, &no); client.CodeOf(err) {
	case budget.LimitExceeded:
		http.Error(w, "you have your coupon already", http.StatusForbidden)
	case budget.BudgetExhausted:
		http.Error(w, "all coupons are gone", http.StatusGone)
	default: // paused, not yet effective, over
		http.Error(w, "no coupons: "+no.Detail, http.StatusForbidden)
	}
}
