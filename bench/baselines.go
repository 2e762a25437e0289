package main

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// service is a row that measures one of the baseline services.
type service struct {
	binary string
	fsync  string // appendfsync of its Redis; "none" means that it has no Redis
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
		"-duration", s.seconds(4).String(), "-warmup", s.seconds(1).String(),
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
