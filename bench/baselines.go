package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/cmd/budgetctl/bench/load"
	"github.com/budgetd/budgetd/internal/testservers"
	"github.com/redis/go-redis/v9"
)

// service is a row of a small HTTP service of ours under the same load.
type service struct {
	binary string
	fsync  string // of its Redis; "none": it has no Redis
}

func (b service) measure(s *stage) (measurement, error) {
	var args, watched []string
	if b.fsync != "none" {
		redis, err := s.redis("redis", b.fsync)
		if err != nil {
			return measurement{}, err
		}
		args = []string{"-redis", redis.Addr()}
		watched = []string{"-pid", fmt.Sprintf("redis=%d", redis.Pid())}
	}
	p, err := s.start(b.binary, nil, args...)
	if err != nil {
		return measurement{}, err
	}
	watched = append([]string{"-pid", fmt.Sprintf("server=%d", p.pid)}, watched...)
	text, err := s.output("raw", append([]string{"-url", "http://" + p.address + "/deduct",
		"-duration", s.seconds(10).String(), "-warmup", s.seconds(3).String(),
		"-users", strconv.Itoa(users), "-connections", "64"}, watched...)...)
	if err != nil {
		return measurement{}, err
	}
	var r struct {
		PerS  float64            `json:"per_s"`
		P50   float64            `json:"p50_ms"`
		P99   float64            `json:"p99_ms"`
		CPUUS map[string]float64 `json:"cpu_us"`
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return measurement{}, err
	}
	m := measurement{perS: r.PerS, p50: r.P50, p99: r.P99}
	for _, name := range []string{"load", "server", "redis"} {
		if us, found := r.CPUUS[name]; found {
			m.cpu = append(m.cpu, cost{name, us})
		}
	}
	return m, nil
}

// hotRow is a row of straight SQL, at the number of connections at which it is fastest.
type hotRow struct {
	way    string
	binlog bool
}

func (b hotRow) measure(s *stage) (measurement, error) {
	server, dsn, err := s.mariadb(b.binlog)
	if err != nil {
		return measurement{}, err
	}
	best := measurement{}
	for _, connections := range []int{4, 8, 16, 32, 64, 128} {
		text, err := s.output("hotrow", "-dsn", dsn, "-way", b.way, "-connections",
			strconv.Itoa(connections),
			"-duration", s.seconds(5).String(), "-pid", strconv.Itoa(server.Pid()))
		if err != nil {
			return measurement{}, err
		}
		var r struct {
			PerS     float64 `json:"per_s"`
			P50      float64 `json:"p50_ms"`
			P99      float64 `json:"p99_ms"`
			ClientUS float64 `json:"client_us"`
			ServerUS float64 `json:"server_us"`
		}
		if err := json.Unmarshal(text, &r); err != nil {
			return measurement{}, err
		}
		if r.PerS > best.perS {
			best = measurement{perS: r.PerS, p50: r.P50, p99: r.P99,
				cpu:  []cost{{"load", r.ClientUS}, {"mariadb", r.ServerUS}},
				note: fmt.Sprintf("%d connections", connections)}
		}
	}
	return best, nil
}

// fourCommands is the script of the best simple service (bench/baseline/pipelined).
const fourCommands = `
local n = tonumber(ARGV[1])
local stock = tonumber(redis.call('GET', KEYS[1]) or '0')
if stock < n then return -1 end
if not redis.call('SET', KEYS[2], n, 'NX', 'EX', ARGV[2]) then return -2 end
redis.call('DECRBY', KEYS[1], n)
redis.call('XADD', KEYS[3], '*', 'id', ARGV[3], 'n', n)
return stock - n
`

// redisBenchmark is a row of redis-benchmark, 64 calls pipelined, on a Redis that keeps nothing on
// disk.
type redisBenchmark struct {
	script bool
}

func (b redisBenchmark) measure(s *stage) (measurement, error) {
	server, err := s.redis("redis", "")
	if err != nil {
		return measurement{}, err
	}
	command, calls := []string{"DECRBY", "stock", "1"}, 10_000_000
	c := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer c.Close()
	if err := c.Set(s.ctx, "stock", int64(1)<<50, 0).Err(); err != nil {
		return measurement{}, err
	}
	if b.script {
		hash, err := c.ScriptLoad(s.ctx, fourCommands).Result()
		if err != nil {
			return measurement{}, err
		}
		// The key and its entry get two random numbers: it is only their length that matters.
		command, calls = []string{"EVALSHA", hash, "3", "stock", "id:__rand_int__", "log", "1", "86400",
			"__rand_int__"}, 1_000_000
	}
	if s.quick {
		calls /= 10
	}
	m, err := b.run(s, server, calls, command)
	if err != nil {
		return m, err
	}
	left, err := c.Get(s.ctx, "stock").Int64()
	if done := int64(1)<<50 - left; err == nil && done < int64(calls)*9/10 {
		err = fmt.Errorf("%d of %d calls took something", done, calls)
	}
	return m, err
}

func (b redisBenchmark) run(
	s *stage, server *testservers.RedisServer, calls int, command []string,
) (measurement, error) {
	before, err := load.ReadUsage(server.Pid())
	if err != nil {
		return measurement{}, err
	}
	text, err := s.output("redis-benchmark",
		append([]string{"-p", strconv.Itoa(server.Port()), "-c", "4", "-P", "64",
			"-n", strconv.Itoa(calls), "-r", "2000000000", "--csv"}, command...)...)
	if err != nil {
		return measurement{}, err
	}
	after, err := load.ReadUsage(server.Pid())
	if err != nil {
		return measurement{}, err
	}
	table, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if err != nil || len(table) < 2 || len(table[1]) != len(table[0]) {
		return measurement{}, errors.Join(fmt.Errorf("redis-benchmark says %q", text), err)
	}
	m := measurement{cpu: []cost{{"redis",
		float64((after.CPU - before.CPU).Microseconds()) / float64(calls)}}}
	for i, name := range table[0] {
		n, _ := strconv.ParseFloat(table[1][i], 64) // the first column is a text
		switch name {
		case "rps":
			m.perS = n
		case "p50_latency_ms":
			m.p50 = n
		case "p99_latency_ms":
			m.p99 = n
		}
	}
	return m, nil
}
