package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// ours is a row of budgetd: its servers and its load.
type ours struct {
	durability       string
	embedded, binlog bool
	fsync            string // of the Redis; "" means everysec
	limits           bool
	connections      int
	batch            int
	seconds          int // to measure; 0 means 8
	total            int64
	repeats          float64
	// keys means that every call carries a key, tls that connections are encrypted.
	keys, tls bool
	// of names a row. The load is then an open loop at that row's rate divided by part.
	of   string
	part int
	// budgets is the number of budgets that exist before the load, active how many of them it uses,
	// and buckets how many each has; 0 leaves that to budgetd.
	budgets, active, buckets int
	instances                int  // of Redis in store mode; 0 means one
	remember                 bool // Redis keeps request records longer than the run lasts
	nodes                    int  // of budgetd; 0 means one
	// sqlAway and redisAway are how much longer a proxy makes each round trip; nil means no proxy.
	sqlAway, redisAway *time.Duration
}

// users is the number of users in the rows with limits, as in the baselines.
const users = 100_000

// answered is the used part of the JSON of `budgetctl bench`.
type answered struct {
	DeductionsPerS float64 `json:"deductions_per_s"`
	Unsent         int64   `json:"unsent"`
	Latency        struct {
		P50 float64 `json:"p50_ms"`
		P99 float64 `json:"p99_ms"`
	} `json:"latency"`
	Processes []struct {
		Name string  `json:"name"`
		US   float64 `json:"cpu_per_deduction_us"`
		MiB  float64 `json:"memory_mib"`
	} `json:"processes"`
	Answers map[string]int64 `json:"answers"`
	Check   struct {
		SettledS float64 `json:"settled_s"`
	} `json:"check"`
}

func (o ours) measure(s *stage) (measurement, error) {
	args, err := o.load(s)
	if err != nil {
		return measurement{}, err
	}
	b, err := s.budgetd(o)
	if err != nil {
		return measurement{}, err
	}
	if o.budgets > 0 {
		if err := o.makeBudgets(s, b); err != nil {
			return measurement{}, err
		}
	}
	args = append(args, b.reached...)
	for _, p := range b.watched {
		args = append(args, "--pid", p)
	}
	text, err := s.output("budgetctl", args...)
	if err != nil {
		return measurement{}, err
	}
	var a answered
	if err := json.Unmarshal(text, &a); err != nil {
		return measurement{}, err
	}
	if o.repeats > 0 && a.Answers["replayed"] == 0 {
		return measurement{}, errors.New("no repeat of an accepted id was answered")
	}
	m := o.measurement(a)
	if o.keys {
		return m, nil // /metrics needs a key, too
	}
	grouped, err := groupedBy(b.address)
	m.note += grouped
	return m, err
}

// groupedBy returns a note with the mean number of operations per call of a store, and of entries
// per commit. The part of a store has had several names, so the end of a metric's name finds it.
func groupedBy(address string) (string, error) {
	answer, err := http.Get("http://" + address + "/metrics") //nolint:noctx // it is our own
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	sums := map[string]float64{}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		name, _, _ = strings.Cut(name, "{")
		if _, of, found := strings.Cut(name, "_call_operations_"); found {
			name = "operations_" + of
		}
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			sums[name] += n
		}
	}
	mean := func(name string) float64 { return sums[name+"_sum"] / max(sums[name+"_count"], 1) }
	note := ""
	for _, of := range [][2]string{{"operations", "operations per call of a store"},
		{"budgetd_commit_rows", "entries per commit"}} {
		if n := mean(of[0]); n > 0 {
			note += fmt.Sprintf("%.0f %s; ", n, of[1])
		}
	}
	return note, nil
}

// load returns the command line of budgetctl, without the server.
func (o ours) load(s *stage) ([]string, error) {
	seconds, warmup := o.seconds, 2
	if seconds == 0 {
		seconds = 8
	}
	if o.total > 0 {
		warmup = 10 // the budget sells out meanwhile
	}
	name := "bench"
	if o.budgets == 1 {
		name += "-1"
	}
	args := []string{"bench", name, "-o", "json", "--settle", "3m", "--connections",
		strconv.Itoa(o.connections),
		"--batch", strconv.Itoa(max(o.batch, 1)), "--duration", s.seconds(seconds).String(),
		"--warmup", s.seconds(warmup).String()}
	if o.budgets > 0 {
		args = append(args, "--budgets", strconv.Itoa(max(s.scaled(o.active), 1)))
	} else {
		args = append(args, "--create", "--buckets", "1", "--durability", o.durability)
	}
	if o.total > 0 {
		args = append(args, "--total", strconv.Itoa(s.scaled(int(o.total))))
	}
	if o.repeats > 0 {
		args = append(args, "--repeat-share", strconv.FormatFloat(o.repeats, 'f', -1, 64))
	}
	if o.limits {
		args = append(args, "--users", strconv.Itoa(users), "--routing-dimension", "user",
			"--limit", "name=per-day,dimension=user,window=day,max=1000000000",
			"--limit", "name=per-user,dimension=user,window=lifetime,max=1000000000")
	}
	if o.of != "" {
		most, err := s.world.measure(o.of)
		if err != nil {
			return nil, err
		}
		args = append(args, "--rate", strconv.FormatFloat(most.perS/float64(o.part), 'f', 0, 64))
	}
	return args, nil
}

func (o ours) measurement(a answered) measurement {
	m := measurement{perS: a.DeductionsPerS, p50: a.Latency.P50, p99: a.Latency.P99}
	for _, p := range a.Processes {
		name := p.Name
		if name == "budgetctl" {
			name = "load"
		}
		m.cpu = append(m.cpu, cost{name, p.US})
		if p.Name == "server" {
			m.memoryMiB = p.MiB
		}
	}
	for _, code := range slices.Sorted(maps.Keys(a.Answers)) {
		if !o.meant(code) {
			m.note += fmt.Sprintf("%s %d; ", code, a.Answers[code])
		}
	}
	if a.Unsent > 0 {
		m.note += fmt.Sprintf("%d calls unsent; ", a.Unsent)
	}
	if o.durability == "store" {
		m.note += fmt.Sprintf("ledger complete %.1f s after the load; ", a.Check.SettledS)
	}
	if o.budgets > 1 {
		m.note += fmt.Sprintf("%.0f MiB of budgetd; ", m.memoryMiB)
	}
	return m
}

// meant reports whether a row is meant to get an answer.
func (o ours) meant(code string) bool {
	switch code {
	case "accepted":
		return o.total == 0
	case "budget_exhausted":
		return o.total > 0
	case "replayed":
		return o.repeats > 0
	}
	return false
}

// makeBudgets creates budgets bench-1, bench-2, …
func (o ours) makeBudgets(s *stage, b budgetd) error {
	c, err := client.New("http://" + b.address)
	if err != nil {
		return err
	}
	return s.create(c, max(s.scaled(o.budgets), 1), func(i int) client.CreateRequest {
		return client.CreateRequest{Name: fmt.Sprintf("bench-%d", i+1), TotalQuantity: 1_000_000_000,
			BucketQuantity: o.buckets, Durability: budget.Durability(o.durability)}
	})
}
