// Command adcap chooses ads so that each user sees each of them at most twice within an hour of
// the first time. Each ad is a budget without a total; its first_hit limit is the cap.
//
//	adcap -budgetd http://127.0.0.1:8080 -listen 127.0.0.1:9002 -ads shoes,phones
//	curl 'http://127.0.0.1:9002/ad?impression=i1&user=ann'
//
// A page waits for an ad for a moment only. Where no ad is certain, it shows the house ad, which
// needs no budget, and the impression that might have been counted is cancelled.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

type chooser struct {
	budgets *client.Client
	ads     []string // the best first
}

func main() {
	server := flag.String("budgetd", "http://127.0.0.1:8080", "address of budgetd")
	listen := flag.String("listen", "127.0.0.1:9002", "address to serve on")
	ads := flag.String("ads", "shoes,phones", "budgets of the ads, the best first")
	window := flag.String("window", "1h", "how long an impression counts after the first one")
	flag.Parse()
	if err := run(*server, *listen, strings.Split(*ads, ","), *window); err != nil {
		log.Fatal(err)
	}
}

func run(server, listen string, ads []string, window string) error {
	// What stays unknown is cancelled within 2 s, with the same id: a user's cap must not shrink
	// for an ad that was not shown.
	budgets, err := client.New(server, client.WithCancelUnknown(2*time.Second),
		client.WithRetry(client.Retry{Attempts: 2, Base: 10 * time.Millisecond,
			AttemptTimeout: time.Second}))
	if err != nil {
		return err
	}
	for _, ad := range ads {
		if _, err := budgets.Create(context.Background(), client.CreateRequest{
			Name: ad, Unit: budget.Count, Unlimited: true, RoutingDimension: "user",
			Limits: []client.Limit{{Name: "cap", Dimension: "user", Max: 2,
				Measure: budget.MeasureCount,
				Window:  client.Window{Kind: budget.WindowFirstHit, Length: window}}},
		}); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Println("listening on", listener.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ad", (&chooser{budgets, ads}).choose)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return web.Serve(listener)
}

// choose answers with the first ad that the user may see again, else with the house ad. A repeat
// of an impression by the same user gets the same ad and counts once.
func (c *chooser) choose(w http.ResponseWriter, r *http.Request) {
	impression, user := r.FormValue("impression"), r.FormValue("user")
	if impression == "" || user == "" {
		http.Error(w, "impression and user are needed", http.StatusBadRequest)
		return
	}
	for _, ad := range c.ads {
		request := client.DeductRequest{
			RequestID: impression, Amount: 1, Dimensions: map[string]string{"user": user}}
		_, err := c.budgets.Deduct(r.Context(), ad, request)
		switch client.KindOf(err) {
		case 0:
			fmt.Fprintln(w, ad)
			return
		case budget.Refused: // the user has seen it often enough, or it is paused: try the next
			continue
		case budget.Conflict:
			if no := new(client.Problem); errors.As(err, &no) && no.Cancelled {
				// An attempt stayed open and the client has cancelled it: nothing is counted.
				c.house(w, "cancelled: "+impression)
				return
			}
			if client.CodeOf(err) == budget.AlreadyRolledBack { // an impression that was cancelled
				c.house(w, "cancelled before: "+impression)
				return
			}
			// Another user's impression has this id, or it was cancelled: the page is at fault.
			http.Error(w, "this impression is in use: make another", http.StatusConflict)
			return
		case budget.NotDone: // nothing was counted
			c.house(w, "not counted: "+err.Error())
			return
		case budget.MayBeDone:
			// Even the cancel got no answer. The impression may count until it is cancelled; a
			// repeat of the page with the same impression settles it as well.
			c.house(w, "unknown, to be cancelled: "+impression)
			go c.cancel(ad, request)
			return
		default: // budget.Faulty: this program or its configuration is wrong
			log.Print(err)
			http.Error(w, "internal error", http.StatusInternalServerError)
			return
		}
	}
	fmt.Fprintln(w, "house")
}

// house shows the ad that needs no budget, and says why in the log.
func (c *chooser) house(w http.ResponseWriter, why string) {
	log.Print(why)
	fmt.Fprintln(w, "house")
}

// cancel repeats until an impression certainly counts nothing, for a minute.
func (c *chooser) cancel(ad string, impression client.DeductRequest) {
	for range 60 {
		time.Sleep(time.Second)
		_, err := c.budgets.Cancel(context.Background(), ad, impression.Cancellation())
		if err == nil {
			log.Print("cancelled: ", impression.RequestID)
			return
		}
	}
	log.Print("still unknown: ", impression.RequestID)
}
