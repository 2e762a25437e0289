// Command quota limits an API: each API key may spend 60 units a minute; a report costs 10, any
// other call 1. The limit is a middleware for net/http (quota.wrap).
//
//	quota -budgetd http://127.0.0.1:8080 -listen 127.0.0.1:9004
//	curl -i http://127.0.0.1:9004/reports -H 'X-API-Key: ann' -H 'Idempotency-Key: r1'
//
// The budget is in ledger mode. With Redis, durability "store" is faster (docs/CONCEPTS.md).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// quota is what a caller may spend.
type quota struct {
	budgets *client.Client
	name    string
	// cost returns the units of a request.
	cost func(*http.Request) int64
	// failOpen lets requests through that could not be counted.
	failOpen bool
}

func main() {
	server := flag.String("budgetd", "http://127.0.0.1:8080", "address of budgetd")
	listen := flag.String("listen", "127.0.0.1:9004", "address to serve on")
	name := flag.String("budget", "api-quota", "name of the budget")
	most := flag.Int64("max", 60, "units per key and window")
	every := flag.String("every", "minute", "length of the window: second, minute, hour, day, …")
	failOpen := flag.Bool("fail-open", false, "let requests through that cannot be counted")
	flag.Parse()
	if err := run(*server, *listen, *name, *every, *most, *failOpen); err != nil {
		log.Fatal(err)
	}
}

func run(server, listen, name, every string, most int64, failOpen bool) error {
	// Concurrent requests share calls of budgetd.
	budgets, err := client.New(server, client.WithCoalescing(client.Coalescing{}),
		client.WithRetry(client.Retry{Attempts: 2, Base: 10 * time.Millisecond,
			AttemptTimeout: 2 * time.Second}))
	if err != nil {
		return err
	}
	if _, err := budgets.Create(context.Background(), client.CreateRequest{
		Name: name, Unit: budget.Count, Unlimited: true, RoutingDimension: "key",
		Limits: []client.Limit{{Name: "per-window", Dimension: "key", Max: most,
			Measure: budget.MeasureAmount,
			Window:  client.Window{Kind: budget.WindowCalendar, Every: budget.Every(every)}}},
	}); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Println("listening on", listener.Addr())
	q := &quota{budgets: budgets, name: name, failOpen: failOpen, cost: func(r *http.Request) int64 {
		if r.URL.Path == "/reports" {
			return 10
		}
		return 1
	}}
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "done:", r.URL.Path)
	})
	web := &http.Server{Handler: q.wrap(api), ReadHeaderTimeout: 5 * time.Second}
	return web.Serve(listener)
}

// wrap counts a request before next answers it. A request that is repeated with the same
// Idempotency-Key counts once.
func (q *quota) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, id := r.Header.Get("X-API-Key"), r.Header.Get("Idempotency-Key")
		if key == "" {
			http.Error(w, "X-API-Key is needed", http.StatusUnauthorized)
			return
		}
		if id == "" {
			id = client.NewRequestID()
		}
		answer, err := q.budgets.Deduct(r.Context(), q.name, client.DeductRequest{
			RequestID: key + "/" + id, Amount: q.cost(r), Dimensions: map[string]string{"key": key}})
		switch kind := client.KindOf(err); {
		case kind == 0:
			if len(answer.Limits) > 0 && answer.Limits[0].Max != nil {
				left := max(*answer.Limits[0].Max-answer.Limits[0].Used, 0)
				w.Header().Set("X-Quota-Remaining", strconv.FormatInt(left, 10))
			}
			next.ServeHTTP(w, r)
		case kind == budget.Refused: // nothing was counted
			if no := new(client.Problem); errors.As(err, &no) && no.RetryAfter > 0 {
				w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(no.RetryAfter.Seconds()))))
			}
			http.Error(w, "the quota of this key is used up", http.StatusTooManyRequests)
		case client.CodeOf(err) == budget.AlreadyRolledBack: // a request that was cancelled
			http.Error(w, "this Idempotency-Key was cancelled: take another", http.StatusConflict)
		case kind == budget.Conflict: // the key was used for a request of another cost, or cancelled
			http.Error(w, "this Idempotency-Key was used: take another", http.StatusConflict)
		case kind == budget.NotDone && q.failOpen, kind == budget.MayBeDone && q.failOpen:
			log.Print("not counted for certain: ", err)
			next.ServeHTTP(w, r)
		case kind == budget.NotDone: // nothing was counted, and next was not called
			w.Header().Set("Retry-After", "1")
			http.Error(w, "the quota cannot be read right now", http.StatusServiceUnavailable)
		case kind == budget.MayBeDone: // it may be counted; a repeat with the same key is free
			http.Error(w, "repeat with the same Idempotency-Key", http.StatusGatewayTimeout)
		default: // budget.Faulty: this program or its configuration is wrong
			log.Print(err)
			http.Error(w, "internal error", http.StatusInternalServerError)
		}
	})
}
