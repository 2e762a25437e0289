// Command llmgateway stands before a language model and keeps each team within its tokens. A call
// holds the most that it can use, then uses what the model says it used; the rest comes back.
//
//	llmgateway -budgetd http://127.0.0.1:8080 -listen 127.0.0.1:9003 -model http://model:8000/
//	curl http://127.0.0.1:9003/complete -H 'Idempotency-Key: c1' \
//	     -d '{"prompt": "Say hello", "max_tokens": 50}'
//
// The model gets {"prompt", "max_tokens"} and answers {"text", "total_tokens"}.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// holdTTL is longer than a call of the model may last. The hold of a gateway that dies expires.
const holdTTL, modelTime = "5m", 2 * time.Minute

type gateway struct {
	budgets     *client.Client
	team, model string
}

type prompt struct {
	Prompt    string `json:"prompt"`
	MaxTokens int64  `json:"max_tokens"`
}

type completion struct {
	Text        string `json:"text"`
	TotalTokens int64  `json:"total_tokens"`
}

func main() {
	server := flag.String("budgetd", "http://127.0.0.1:8080", "address of budgetd")
	listen := flag.String("listen", "127.0.0.1:9003", "address to serve on")
	model := flag.String("model", "http://127.0.0.1:8000/", "address of the model")
	team := flag.String("team", "team-a", "name of the budget")
	tokens := flag.Int64("tokens", 1_000_000, "tokens of the team")
	flag.Parse()
	if err := run(*server, *listen, *model, *team, *tokens); err != nil {
		log.Fatal(err)
	}
}

func run(server, listen, model, team string, tokens int64) error {
	budgets, err := client.New(server, client.WithRetry(client.Retry{
		Attempts: 3, Base: 20 * time.Millisecond, AttemptTimeout: 3 * time.Second}))
	if err != nil {
		return err
	}
	if _, err := budgets.Create(context.Background(), client.CreateRequest{Name: team,
		Unit: budget.Amount, Type: budget.Promo, TotalQuantity: tokens}); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Println("listening on", listener.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /complete", (&gateway{budgets, team, model}).complete)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return web.Serve(listener)
}

func (g *gateway) complete(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Idempotency-Key")
	var p prompt
	body := http.MaxBytesReader(w, r.Body, 1<<20)
	if json.NewDecoder(body).Decode(&p) != nil || p.MaxTokens < 1 || id == "" {
		http.Error(w, "prompt, max_tokens and Idempotency-Key are needed", http.StatusBadRequest)
		return
	}
	// A token is at least one byte, so this is the most that the call can use.
	most := int64(len(p.Prompt)) + p.MaxTokens
	held, err := g.budgets.Deduct(r.Context(), g.team, client.DeductRequest{
		RequestID: id, Amount: most, HoldTTL: holdTTL})
	switch client.KindOf(err) {
	case 0:
	case budget.Refused:
		http.Error(w, "the team's tokens do not cover this call", http.StatusTooManyRequests)
		return
	case budget.Conflict:
		http.Error(w, "this Idempotency-Key was used: take another", http.StatusConflict)
		return
	case budget.NotDone: // nothing is held and the model was not called
		w.Header().Set("Retry-After", "1")
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	case budget.MayBeDone: // tokens may be held: the same key finds them, else the hold expires
		http.Error(w, "repeat with the same Idempotency-Key", http.StatusGatewayTimeout)
		return
	default:
		log.Print(err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	if held.State != "held" { // a repeat of a call that was confirmed
		http.Error(w, "this call was answered: take another key", http.StatusConflict)
		return
	}
	// From here on the caller's connection decides nothing: the hold has to be settled.
	ctx := context.WithoutCancel(r.Context())
	answer, err := g.ask(ctx, p)
	if err != nil {
		g.settle("release", func() error {
			_, err := g.budgets.Rollback(ctx, g.team, client.RollbackRequest{RequestID: id})
			return err
		})
		http.Error(w, "the model failed: "+err.Error(), http.StatusBadGateway)
		return
	}
	used := min(max(answer.TotalTokens, 1), most)
	g.settle("confirm", func() error {
		_, err := g.budgets.Confirm(ctx, g.team, client.ConfirmRequest{RequestID: id, Amount: used})
		return err
	})
	_ = json.NewEncoder(w).Encode(answer) // the caller may have left
}

// settle ends a hold. What is not done, or unknown, is repeated with the same id in the background
// for as long as the hold may last: both calls have one effect however often they are made.
func (g *gateway) settle(verb string, call func() error) {
	open := func() bool {
		err := call()
		kind := client.KindOf(err)
		if kind != 0 {
			log.Printf("%s: %v", verb, err)
		}
		return kind == budget.NotDone || kind == budget.MayBeDone
	}
	if !open() {
		return
	}
	go func() {
		for range 300 {
			time.Sleep(time.Second)
			if !open() {
				return
			}
		}
	}()
}

// ask calls the model once.
func (g *gateway) ask(ctx context.Context, p prompt) (answer completion, err error) {
	ctx, cancel := context.WithTimeout(ctx, modelTime)
	defer cancel()
	body, err := json.Marshal(p)
	if err != nil {
		return answer, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.model, bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("status %s", response.Status)
	}
	return answer, json.NewDecoder(response.Body).Decode(&answer)
}
