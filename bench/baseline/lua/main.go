// Lua is baseline (b): the service that most teams would write. A net/http handler calls one Lua
// script per request. The script looks up the id, checks the stock, a maximum per day and a maximum
// per user, and counts. Only Redis keeps the data.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
)

// script deducts. KEYS: stock, day, user, id. ARGV: amount, maximum per day, maximum per user,
// seconds for which an id and a day are kept. It returns the outcome and the figure behind it.
var script = redis.NewScript(`
local known = redis.call('GET', KEYS[4])
if known then return {'replayed', known} end
local n = tonumber(ARGV[1])
local stock = tonumber(redis.call('GET', KEYS[1]) or '0')
if stock < n then return {'exhausted', stock} end
local day = tonumber(redis.call('GET', KEYS[2]) or '0')
if day + n > tonumber(ARGV[2]) then return {'day', day} end
local user = tonumber(redis.call('GET', KEYS[3]) or '0')
if user + n > tonumber(ARGV[3]) then return {'user', user} end
redis.call('DECRBY', KEYS[1], n)
redis.call('INCRBY', KEYS[2], n)
if redis.call('INCRBY', KEYS[3], n) == n then redis.call('EXPIRE', KEYS[3], ARGV[4]) end
redis.call('SET', KEYS[4], n, 'EX', ARGV[4])
return {'accepted', stock - n}
`)

type deduction struct {
	RequestID string `json:"request_id"`
	Amount    int64  `json:"amount"`
	User      string `json:"user"`
}

type answer struct {
	RequestID string `json:"request_id"`
	Outcome   string `json:"outcome"`
	Remaining int64  `json:"remaining"`
}

const maximum = 1 << 50 // never reached: every request is accepted, as in the rows of budgetd

type service struct {
	redis *redis.Client
}

func (s *service) handle(w http.ResponseWriter, r *http.Request) {
	var d deduction
	if err := json.NewDecoder(r.Body).Decode(&d); err != nil || d.RequestID == "" || d.Amount < 1 {
		http.Error(w, "malformed", http.StatusBadRequest)
		return
	}
	day := time.Now().UTC().Format("20060102")
	keys := []string{"stock", "day:" + day, "user:" + day + ":" + d.User, "id:" + d.RequestID}
	got, err := script.EvalSha(r.Context(), s.redis, keys, d.Amount, maximum, maximum, 86400).Slice()
	if err != nil || len(got) != 2 {
		http.Error(w, "unavailable", http.StatusServiceUnavailable)
		return
	}
	a := answer{RequestID: d.RequestID}
	a.Outcome, _ = got[0].(string)
	a.Remaining, _ = got[1].(int64)
	w.Header().Set("Content-Type", "application/json")
	if a.Outcome != "accepted" && a.Outcome != "replayed" {
		w.WriteHeader(http.StatusConflict)
	}
	_ = json.NewEncoder(w).Encode(a) // the caller may be gone
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address")
	address := flag.String("redis", "127.0.0.1:6379", "address of the Redis")
	flag.Parse()
	s := &service{redis: redis.NewClient(&redis.Options{Addr: *address, PoolSize: 64, MinIdleConns: 64,
		DisableIdentity: true})}
	ctx := context.Background()
	if err := s.redis.Set(ctx, "stock", int64(1)<<50, 0).Err(); err != nil {
		log.Fatal(err)
	}
	if err := script.Load(ctx, s.redis).Err(); err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening", listener.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /deduct", s.handle)
	log.Fatal(http.Serve(listener, mux))
}
