// Raw puts the load of `budgetctl bench` on any HTTP service, so that budgetd and the baselines are
// measured in the same way. It posts a body in which {id} becomes a new id and {user} one of a
// number of users, and prints a line of JSON. Every status except 200 is a failure.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/budgetd/budgetd/cmd/budgetctl/bench/load"
)

// piece is a text and the placeholder that follows it.
type piece struct {
	text string
	then byte // 'i' id, 'u' user, 0 nothing
}

// split cuts a template at its placeholders.
func split(template string) (pieces []piece) {
	for {
		id, user := strings.Index(template, "{id}"), strings.Index(template, "{user}")
		switch {
		case id >= 0 && (user < 0 || id < user):
			pieces = append(pieces, piece{template[:id], 'i'})
			template = template[id+len("{id}"):]
		case user >= 0:
			pieces = append(pieces, piece{template[:user], 'u'})
			template = template[user+len("{user}"):]
		default:
			return append(pieces, piece{template, 0})
		}
	}
}

// caller posts on one connection.
type caller struct {
	head   string
	pieces []piece
	number int
	users  uint64
	next   uint64
	body   []byte

	done, failed int64
	why          string
}

func (c *caller) Request(buf []byte) ([]byte, int) {
	c.next++
	c.body = c.body[:0]
	for _, p := range c.pieces {
		c.body = append(c.body, p.text...)
		switch p.then {
		case 'i':
			c.body = strconv.AppendInt(c.body, int64(c.number), 10)
			c.body = append(c.body, '-')
			c.body = strconv.AppendUint(c.body, c.next, 10)
		case 'u':
			c.body = append(c.body, 'u')
			drawn := (c.next<<16 + uint64(c.number)) * 0x9e3779b97f4a7c15 >> 20 % c.users
			c.body = strconv.AppendUint(c.body, drawn, 10)
		}
	}
	buf = append(buf, c.head...)
	buf = strconv.AppendInt(buf, int64(len(c.body)), 10)
	buf = append(buf, "\r\n\r\n"...)
	return append(buf, c.body...), 0
}

func (c *caller) Answer(status int, body []byte) {
	if status == 200 {
		c.done++
		return
	}
	c.fail(fmt.Sprintf("status %d: %.100s", status, body))
}

func (c *caller) Lost(_ bool, err error) { c.fail(err.Error()) }

func (c *caller) fail(why string) {
	c.failed++
	c.why = why
}

// result is the printed result.
type result struct {
	PerS    float64            `json:"per_s"`
	P50     float64            `json:"p50_ms"`
	P99     float64            `json:"p99_ms"`
	CPUUS   map[string]float64 `json:"cpu_us"` // per call, by process
	Failed  int64              `json:"failed"`
	Failure string             `json:"failure,omitempty"`
}

// pids is the flag -pid NAME=PID.
type pids []load.Process

func (p *pids) String() string { return "" }

func (p *pids) Set(text string) error {
	name, number, _ := strings.Cut(text, "=")
	pid, err := strconv.Atoi(number)
	*p = append(*p, load.Process{Name: name, Pid: pid})
	return err
}

func main() {
	target := flag.String("url", "", "where to post")
	body := flag.String("body", `{"request_id":"{id}","amount":1,"user":"{user}"}`, "what to post")
	users := flag.Uint64("users", 100_000, "number of users")
	connections := flag.Int("connections", 64, "connections")
	rate := flag.Float64("rate", 0, "calls per second; 0 calls again after each answer")
	duration := flag.Duration("duration", 10*time.Second, "how long to measure")
	warmup := flag.Duration("warmup", 2*time.Second, "how long to warm up")
	processes := pids{{Name: "load", Pid: os.Getpid()}}
	flag.Var(&processes, "pid", "NAME=PID of a process to watch; repeatable")
	flag.Parse()
	u, err := url.Parse(*target)
	if err != nil || u.Scheme != "http" || *users == 0 {
		log.Fatal("-url must be an http URL, -users above 0")
	}
	head := "POST " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host +
		"\r\nContent-Type: application/json\r\nContent-Length: "
	callers := make([]*caller, *connections)
	for i := range callers {
		callers[i] = &caller{head: head, pieces: split(*body), number: i, users: *users}
	}
	plan := load.Plan{Address: u.Host, Kinds: 1, Rate: *rate, Duration: *warmup,
		Timeout: 30 * time.Second}
	r, err := measure(plan, *duration, callers, processes)
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		log.Fatal(err)
	}
	if r.Failed > 0 {
		log.Fatalf("%d calls failed: %s", r.Failed, r.Failure)
	}
}

func measure(
	plan load.Plan, duration time.Duration, callers []*caller, processes []load.Process,
) (r result, err error) {
	list := make([]load.Caller, len(callers))
	for i, c := range callers {
		list[i] = c
	}
	load.Run(context.Background(), plan, list)
	var warm int64
	for _, c := range callers {
		warm += c.done
	}
	before, err := usages(processes)
	if err != nil {
		return r, err
	}
	plan.Duration = duration
	m := load.Run(context.Background(), plan, list)
	after, err := usages(processes)
	if err != nil {
		return r, err
	}
	done := -warm
	for _, c := range callers {
		done += c.done
		r.Failed += c.failed
		r.Failure = max(r.Failure, c.why)
	}
	if done == 0 {
		return r, errors.Join(errors.New("nothing was answered"), errors.New(r.Failure))
	}
	r.PerS = float64(done) / m.Duration.Seconds()
	r.P50 = float64(m.Latency[0].Quantile(0.5).Microseconds()) / 1000
	r.P99 = float64(m.Latency[0].Quantile(0.99).Microseconds()) / 1000
	r.CPUUS = map[string]float64{}
	for i, p := range processes {
		r.CPUUS[p.Name] = float64((after[i] - before[i]).Microseconds()) / float64(done)
	}
	return r, nil
}

func usages(processes []load.Process) ([]time.Duration, error) {
	cpu := make([]time.Duration, len(processes))
	for i, p := range processes {
		u, err := load.ReadUsage(p.Pid)
		if err != nil {
			return nil, err
		}
		cpu[i] = u.CPU
	}
	return cpu, nil
}
