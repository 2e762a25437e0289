package testservers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
)

const (
	firstPort    = 20000 // well-known services are below
	defaultLimit = 32768 // the default of Linux for the first source port
	portProbes   = 100
)

// freePort returns a TCP port of 127.0.0.1 on which no process listens now, below the range of the
// kernel's source ports. It does not reserve the port, so the caller must expect that it is taken.
func freePort() (int, error) {
	limit := sourcePortsBegin()
	if limit < firstPort+1000 {
		return 0, fmt.Errorf("testservers: source ports begin at %d, which leaves no ports below", limit)
	}
	var failures []error
	for range portProbes {
		port := firstPort + rand.IntN(limit-firstPort)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, err
		}
		return port, nil
	}
	return 0, fmt.Errorf("testservers: no free port: %w", errors.Join(failures[:3]...))
}

// sourcePortsBegin returns the lowest port that an outgoing connection may be given.
func sourcePortsBegin() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return defaultLimit
	}
	var begin int
	if _, err := fmt.Sscan(string(text), &begin); err != nil {
		return defaultLimit
	}
	return min(begin, defaultLimit)
}
