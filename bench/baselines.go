package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"

	"github.com/budgetd/budgetd/cmd/budgetctl/workload"
)

// service is a row that measures one of the baseline services.
type service struct {
	binary string
	fsync  string // appendfsync of its Redis; "none" means that it has no Redis
}

const baselineConnections = 64

func (b service) measure(s *stage) (measurement, error) {
	var args, watched []string
	if b.fsync != "none" {
		redis, err := s.redis("redis", b.fsync)
		if err != nil {
			return measurement{}, err
		}
		args = []string{"-redis", redis.Addr()}
		watched = []string{fmt.Sprintf("redis=%d", redis.Pid())}
	}
	p, err := s.start(b.binary, nil, args...)
	if err != nil {
		return measurement{}, err
	}
	watched = append(watched, fmt.Sprintf("load=%d", os.Getpid()), fmt.Sprintf("server=%d", p.pid))
	posters := make([]*poster, baselineConnections)
	for i := range posters {
		posters[i] = baselinePoster(uint64(i))
	}
	m, _, err := s.drive(s.ctx, budgetd{addresses: []string{p.address}, watched: watched},
		s.seconds(1), workload.Plan{Duration: s.seconds(4)}, posters)
	return m, err
}

// baselinePoster posts deductions with new ids, each for one of the users.
func baselinePoster(number uint64) *poster {
	next := uint64(0)
	return &poster{next: func(body []byte) (string, []byte) {
		next++
		user := (next<<16 + number) * 0x9e3779b97f4a7c15 >> 20 % users
		body = strconv.AppendUint(append(body, `{"request_id":"`...), number, 10)
		body = strconv.AppendUint(append(body, '-'), next, 10)
		body = strconv.AppendUint(append(body, `","amount":1,"user":"u`...), user, 10)
		return "/deduct", append(body, `"}`...)
	}, answer: func(status int, _ []byte) error {
		if status != http.StatusOK {
			return errors.New("not accepted")
		}
		return nil
	}}
}

// hotRow is the row of plain SQL, with the number of connections at which it is fastest.
type hotRow struct{}

func (hotRow) measure(s *stage) (measurement, error) {
	server, dsn, err := s.mariadb(false, nil)
	if err != nil {
		return measurement{}, err
	}
	best := measurement{}
	for _, connections := range []int{8, 32, 64} {
		text, err := s.output("hotrow", "-dsn", dsn, "-connections",
			strconv.Itoa(connections),
			"-duration", s.seconds(4).String(), "-pid", strconv.Itoa(server.Pid()))
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
