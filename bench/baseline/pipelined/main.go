// Pipelined is baseline (b2): the fastest simple service. It uses fasthttp and a Redis client that
// sends the commands of concurrent requests in one pipeline (rueidis). Its script has four
// commands: GET, DECRBY, SET NX EX and XADD. It has no limits.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"strconv"

	"github.com/redis/rueidis"
	"github.com/valyala/fasthttp"
)

// script deducts. KEYS: stock, id, log. ARGV: amount, seconds for which an id is kept, id. It
// returns the remaining stock, -1 if that is too small, or -2 if the id is known.
const script = `
local n = tonumber(ARGV[1])
local stock = tonumber(redis.call('GET', KEYS[1]) or '0')
if stock < n then return -1 end
if not redis.call('SET', KEYS[2], n, 'NX', 'EX', ARGV[2]) then return -2 end
redis.call('DECRBY', KEYS[1], n)
redis.call('XADD', KEYS[3], '*', 'id', ARGV[3], 'n', n)
return stock - n
`

type deduction struct {
	RequestID string `json:"request_id"`
	Amount    int64  `json:"amount"`
}

type service struct {
	redis  rueidis.Client
	script *rueidis.Lua
}

func (s *service) handle(ctx *fasthttp.RequestCtx) {
	var d deduction
	if err := json.Unmarshal(ctx.PostBody(), &d); err != nil || d.RequestID == "" || d.Amount < 1 {
		ctx.Error("malformed", fasthttp.StatusBadRequest)
		return
	}
	keys := []string{"stock", "id:" + d.RequestID, "log"}
	args := []string{strconv.FormatInt(d.Amount, 10), "86400", d.RequestID}
	left, err := s.script.Exec(context.Background(), s.redis, keys, args).AsInt64()
	if err != nil {
		ctx.Error("unavailable", fasthttp.StatusServiceUnavailable)
		return
	}
	outcome := "accepted"
	switch left {
	case -1:
		outcome = "exhausted"
		ctx.SetStatusCode(fasthttp.StatusConflict)
	case -2:
		outcome = "replayed"
	}
	ctx.SetContentType("application/json")
	body := append(ctx.Response.Body(), `{"request_id":`...)
	body = strconv.AppendQuote(body, d.RequestID)
	body = append(body, `,"outcome":"`...)
	body = append(body, outcome...)
	body = append(body, `","remaining":`...)
	body = strconv.AppendInt(body, left, 10)
	ctx.SetBody(append(body, '}'))
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address")
	address := flag.String("redis", "127.0.0.1:6379", "address of the Redis")
	flag.Parse()
	// One connection, because with several the pipelines are shorter and both sides work more.
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{*address},
		DisableCache: true, AlwaysPipelining: true, PipelineMultiplex: -1, DisableRetry: true})
	if err != nil {
		log.Fatal(err)
	}
	s := &service{redis: client, script: rueidis.NewLuaScript(script)}
	set := client.B().Set().Key("stock").Value(strconv.Itoa(1 << 50)).Build()
	if err := client.Do(context.Background(), set).Error(); err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening", listener.Addr())
	server := fasthttp.Server{Handler: s.handle, NoDefaultServerHeader: true}
	log.Fatal(server.Serve(listener))
}
