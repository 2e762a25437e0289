package driver

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// mostAsked is the most servers of a Cluster that one query asks.
const mostAsked = 8

// clusterSlotClaim is a server's report about a master of a Cluster: the slots it serves, since an
// epoch of the Cluster's configuration. If two claim a slot, the greater epoch wins, so a server
// that was cut off and reports an old state is outvoted by any other (Redis Cluster specification,
// "configuration epoch").
type clusterSlotClaim struct {
	addr  string
	epoch uint64
	// ranges are pairs of first and last slot.
	ranges [][2]int
}

func (c clusterSlotClaim) serves(slot int) bool {
	for _, r := range c.ranges {
		if slot >= r[0] && slot <= r[1] {
			return true
		}
	}
	return false
}

// clusterTopology returns a topology that asks the seeds, and the masters learned from them, for
// the slots of the partitions.
func (i *Instance) clusterTopology(seeds []string) *topology {
	clusterSlots := make([]int, len(i.tags))
	for partition, tag := range i.tags {
		clusterSlots[partition] = clusterSlotOf(tag)
	}
	var masters []string // of the last answer; one caller at a time asks
	return newTopology(func(ctx context.Context) ([]string, error) {
		claims, err := i.askNodes(ctx, asked(masters, seeds))
		if err != nil {
			return nil, err
		}
		addrs := make([]string, len(clusterSlots))
		for partition, slot := range clusterSlots {
			addrs[partition] = winner(claims, slot)
		}
		masters = masters[:0]
		for _, c := range claims {
			masters = append(masters, c.addr)
		}
		return addrs, nil
	})
}

// winner returns the address of the claim to a slot with the greatest epoch, or "".
func winner(claims []clusterSlotClaim, slot int) (addr string) {
	epoch := uint64(0)
	for _, c := range claims {
		if c.serves(slot) && (addr == "" || c.epoch > epoch) {
			addr, epoch = c.addr, c.epoch
		}
	}
	return addr
}

// asked returns the servers to ask: some masters and some seeds, without duplicates, at most
// mostAsked. Half of the places are reserved for seeds, so that the remains of an old Cluster are
// not asked only about themselves.
func asked(masters, seeds []string) (out []string) {
	seen := map[string]bool{}
	add := func(addrs []string, most int) {
		for _, addr := range addrs {
			if !seen[addr] && len(out) < most {
				seen[addr], out = true, append(out, addr)
			}
		}
	}
	add(seeds, mostAsked/2)
	add(masters, mostAsked)
	add(seeds, mostAsked)
	return out
}

// askNodes asks several servers of a Cluster concurrently who serves which slots. It returns an
// error if none answers.
func (i *Instance) askNodes(ctx context.Context, addrs []string) ([]clusterSlotClaim, error) {
	answers, errs := make([][]clusterSlotClaim, len(addrs)), make([]error, len(addrs))
	var all sync.WaitGroup
	for n, addr := range addrs {
		all.Go(func() {
			conn, done := i.dial(addr)
			defer done()
			text, err := conn.ClusterNodes(ctx).Result()
			host, _, _ := net.SplitHostPort(addr)
			answers[n], errs[n] = nodes(text, host, i.config.isEncrypted()), err
		})
	}
	all.Wait()
	var claims []clusterSlotClaim
	answered := false
	for n := range addrs {
		claims = append(claims, answers[n]...)
		answered = answered || errs[n] == nil
	}
	if !answered {
		return nil, errors.Join(errs...)
	}
	return claims, nil
}

// nodes parses the masters that have slots in an answer to CLUSTER NODES, whose lines are (Redis
// manual)
//
//	<id> <ip:port@cport[,hostname[,…]]> <flags> <master> <ping> <pong> <config epoch> <link>
//	<slot> …
//
// with slots as N, N-M, or in brackets while one is migrating: such a slot counts for the server
// that still has it. host stands for a server that does not know its own address. named takes the
// host name that a server announces, for its certificate, instead of the IP address.
func nodes(text, host string, named bool) (claims []clusterSlotClaim) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 9 || !hasFlag(fields[2], "master") || hasFlag(fields[2], "noaddr") {
			continue
		}
		addr := nodeAddr(fields[1], host, named)
		epoch, err := strconv.ParseUint(fields[6], 10, 64)
		if addr == "" || err != nil {
			continue
		}
		c := clusterSlotClaim{addr: addr, epoch: epoch}
		for _, text := range fields[8:] {
			if r, ok := slotRange(text); ok {
				c.ranges = append(c.ranges, r)
			}
		}
		claims = append(claims, c)
	}
	return claims
}

func hasFlag(flags, flag string) bool {
	for f := range strings.SplitSeq(flags, ",") {
		if f == flag {
			return true
		}
	}
	return false
}

// nodeAddr parses the second field of a line of CLUSTER NODES; "" for a server without a port for
// clients.
func nodeAddr(field, host string, named bool) string {
	parts := strings.Split(field, ",")
	at, _, _ := strings.Cut(parts[0], "@")
	colon := strings.LastIndexByte(at, ':')
	if colon < 0 {
		return ""
	}
	ip, port := at[:colon], at[colon+1:]
	switch {
	case named && len(parts) > 1 && parts[1] != "" && !strings.Contains(parts[1], "="):
		host = parts[1]
	case ip != "":
		host = ip
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || host == "" {
		return ""
	}
	return net.JoinHostPort(host, port)
}

// slotRange parses N or N-M.
func slotRange(text string) (r [2]int, ok bool) {
	first, last, found := strings.Cut(text, "-")
	if !found {
		last = first
	}
	a, err1 := strconv.Atoi(first)
	b, err2 := strconv.Atoi(last)
	return [2]int{a, b}, err1 == nil && err2 == nil && a >= 0 && b < clusterSlotCount && a <= b
}

// askNode asks a server of a Cluster for its id there. Unless prefix is "", it also asks for the
// type of a key that never exists, which a server refuses if it does not serve the key's slot.
func askNode(ctx context.Context, pipe redis.Pipeliner, prefix string) (id *redis.StringCmd) {
	id = redis.NewStringCmd(ctx, "CLUSTER", "MYID")
	_ = pipe.Process(ctx, id)
	if prefix != "" {
		pipe.Type(ctx, prefix+"probe")
	}
	return id
}
