package testservers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// RedisClusterServers is a Redis Cluster of masters with one replica each.
type RedisClusterServers struct {
	// Nodes are the initial masters, then their replicas in the same order.
	Nodes []*RedisServer
}

// clusterMasters is the number of masters of a Cluster, and of replicas.
const clusterMasters = 3

const clusterSlots = 16384

// RedisCluster starts a Cluster of three masters with a replica each for one test, and returns once
// it serves all slots and every replica has its master's data. A master that does not answer for
// nodeTimeout is replaced by its replica; an hour prevents that even on a slow machine. When tb is
// over, the servers are killed and their directories removed. Any failure is fatal.
func RedisCluster(
	tb testing.TB, nodeTimeout time.Duration, options ...RedisOption,
) *RedisClusterServers {
	tb.Helper()
	c := &RedisClusterServers{}
	for range 2 * clusterMasters {
		c.Nodes = append(c.Nodes, clusterNode(tb, nodeTimeout, options))
	}
	if err := c.form(); err != nil {
		tb.Fatal(err)
	}
	return c
}

// clusterNode starts a server in cluster mode. It chooses the bus port itself, because the default,
// port + 10,000, may be in use as a source port.
func clusterNode(tb testing.TB, nodeTimeout time.Duration, options []RedisOption) *RedisServer {
	tb.Helper()
	dir, err := Directory("redis-cluster")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		bus, err := freePort()
		if err != nil {
			tb.Fatal(err)
		}
		server, err := StartRedis(ctx, dir, append(slices.Clone(options), RedisArgs(
			"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus),
			"--cluster-node-timeout", strconv.FormatInt(nodeTimeout.Milliseconds(), 10),
			// A replica takes over even with old data, because tests must see losses.
			"--cluster-replica-validity-factor", "0",
			"--repl-diskless-sync-delay", "0", "--repl-backlog-ttl", "0"))...)
		if errors.Is(err, errPortTaken) {
			continue
		}
		if err != nil {
			tb.Fatal(err)
		}
		server.cleanUp(tb)
		return server
	}
}

// form joins the servers to one Cluster.
func (c *RedisClusterServers) form() error {
	for i, node := range c.Nodes {
		// Different epochs from the beginning avoid negotiations later.
		if _, err := node.Command("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
	}
	for i, master := range c.Nodes[:clusterMasters] {
		first, last := clusterSlots*i/clusterMasters, clusterSlots*(i+1)/clusterMasters-1
		if _, err := master.Command("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first),
			strconv.Itoa(last)); err != nil {
			return err
		}
	}
	for _, other := range c.Nodes[1:] {
		if err := c.Nodes[0].meet(other); err != nil {
			return err
		}
	}
	if err := await("every server knows all", func() error { return c.allKnown(0) }); err != nil {
		return err
	}
	for i, replica := range c.Nodes[clusterMasters:] {
		id, err := c.Nodes[i].Command("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		if _, err := replica.Command("CLUSTER", "REPLICATE", id); err != nil {
			return err
		}
	}
	// Masters vote for a server only when they know that it is a replica.
	if err := await("every server knows the replicas",
		func() error { return c.allKnown(clusterMasters) }); err != nil {
		return err
	}
	return c.AwaitServing()
}

// meet introduces another server.
func (r *RedisServer) meet(other *RedisServer) error {
	args := other.program.args(other.port)
	bus := args[slices.Index(args, "--cluster-port")+1]
	_, err := r.Command("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(other.Port()), bus)
	return err
}

// allKnown returns nil if every server knows all others, of which so many are replicas.
func (c *RedisClusterServers) allKnown(replicas int) error {
	for _, node := range c.Nodes {
		text, err := node.Command("CLUSTER", "NODES")
		if err != nil {
			return err
		}
		if strings.Count(text, " connected") < len(c.Nodes) || strings.Contains(text, "handshake") ||
			strings.Count(text, "slave ") != replicas {
			return fmt.Errorf("%s knows\n%s", node.Addr(), text)
		}
	}
	return nil
}

// AwaitServing waits until every running server reports that the Cluster serves, and every replica
// among them has its master's data.
func (c *RedisClusterServers) AwaitServing() error {
	return await("the cluster serves", func() error {
		for _, node := range c.Nodes {
			if node.Pid() == 0 {
				continue
			}
			state, err := node.Command("CLUSTER", "INFO")
			if err != nil {
				return err
			}
			role, err := node.Command("INFO", "replication")
			if err != nil {
				return err
			}
			replica := strings.Contains(role, "role:slave") &&
				!strings.Contains(role, "master_link_status:up")
			if !strings.Contains(state, "cluster_state:ok") || replica {
				return fmt.Errorf("%s: %s%s", node.Addr(), state, role)
			}
		}
		return nil
	})
}

// MasterOf returns the server that serves a slot, according to a majority of the running servers.
func (c *RedisClusterServers) MasterOf(slot int) (*RedisServer, error) {
	votes := map[*RedisServer]int{}
	for _, node := range c.Nodes {
		if node.Pid() == 0 {
			continue
		}
		text, err := node.Command("CLUSTER", "NODES")
		if err != nil {
			return nil, err
		}
		if master := c.masterIn(text, slot); master != nil {
			if votes[master]++; votes[master] > len(c.Nodes)/2 {
				return master, nil
			}
		}
	}
	return nil, fmt.Errorf("testservers: no majority for the master of slot %d", slot)
}

// masterIn finds the master of a slot in an answer to CLUSTER NODES.
func (c *RedisClusterServers) masterIn(text string, slot int) *RedisServer {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		for _, slots := range fields[min(8, len(fields)):] {
			first, last, isRange := strings.Cut(slots, "-")
			if !isRange {
				last = first
			}
			a, err1 := strconv.Atoi(first)
			b, err2 := strconv.Atoi(last)
			if err1 != nil || err2 != nil || slot < a || slot > b {
				continue
			}
			for _, node := range c.Nodes {
				if strings.HasPrefix(fields[1], node.Addr()+"@") {
					return node
				}
			}
		}
	}
	return nil
}

// FailOver makes the replica of a slot's master take over, and returns the old and the new master.
// how is an argument of CLUSTER FAILOVER: "" agrees with the master and loses nothing, "FORCE" asks
// only the other masters, and "TAKEOVER" asks no server.
func (c *RedisClusterServers) FailOver(slot int, how string) (was, is *RedisServer, err error) {
	if was, err = c.MasterOf(slot); err != nil {
		return nil, nil, err
	}
	id, err := was.Command("CLUSTER", "MYID")
	if err != nil {
		return nil, nil, err
	}
	replica, err := c.replicaOf(id)
	if err != nil {
		return nil, nil, err
	}
	args := []string{"CLUSTER", "FAILOVER"}
	if how != "" {
		args = append(args, how)
	}
	if _, err := replica.Command(args...); err != nil {
		return nil, nil, err
	}
	is, err = c.AwaitMoved(slot, was)
	return was, is, err
}

// replicaOf returns a running replica of the master with that id.
func (c *RedisClusterServers) replicaOf(id string) (*RedisServer, error) {
	for _, node := range c.Nodes {
		if node.Pid() == 0 {
			continue
		}
		text, err := node.Command("CLUSTER", "NODES")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			fields := strings.Fields(line)
			if len(fields) > 3 && strings.Contains(fields[2], "myself") && fields[3] == id {
				return node, nil
			}
		}
	}
	return nil, fmt.Errorf("testservers: %s has no replica", id)
}

// AwaitMoved waits until a server other than from serves a slot and the Cluster serves; it returns
// that server.
func (c *RedisClusterServers) AwaitMoved(slot int, from *RedisServer) (is *RedisServer, err error) {
	err = await(fmt.Sprintf("slot %d is served by another than %s", slot, from.Addr()), func() error {
		if is, err = c.MasterOf(slot); err == nil && is == from {
			err = errors.New("not yet")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return is, c.AwaitServing()
}

// Migrate moves a slot with its keys from its master to another of the first three, as `redis-cli
// --cluster reshard` does, and returns both.
func (c *RedisClusterServers) Migrate(slot int) (was, is *RedisServer, err error) {
	if was, err = c.MasterOf(slot); err != nil {
		return nil, nil, err
	}
	is = c.Nodes[(slices.Index(c.Nodes, was)+1)%clusterMasters]
	if err := c.BeginMigration(slot, was, is); err != nil {
		return nil, nil, err
	}
	if err := c.moveKeys(slot, was, is); err != nil {
		return nil, nil, err
	}
	id, err := is.Command("CLUSTER", "MYID")
	if err != nil {
		return nil, nil, err
	}
	for _, node := range append([]*RedisServer{is, was}, c.Nodes[:clusterMasters]...) {
		if _, err := node.Command("CLUSTER", "SETSLOT", strconv.Itoa(slot), "NODE", id); err != nil {
			return nil, nil, err
		}
	}
	_, err = c.AwaitMoved(slot, was)
	return was, is, err
}

// BeginMigration starts the migration of a slot. From then on its master redirects requests for
// missing keys to the other server.
func (c *RedisClusterServers) BeginMigration(slot int, was, is *RedisServer) error {
	from, err := was.Command("CLUSTER", "MYID")
	if err != nil {
		return err
	}
	to, err := is.Command("CLUSTER", "MYID")
	if err != nil {
		return err
	}
	if _, err := is.Command("CLUSTER", "SETSLOT", strconv.Itoa(slot), "IMPORTING", from); err != nil {
		return err
	}
	_, err = was.Command("CLUSTER", "SETSLOT", strconv.Itoa(slot), "MIGRATING", to)
	return err
}

// moveKeys moves all keys of a slot. A script lists them as one text, because Command reads no
// arrays.
func (c *RedisClusterServers) moveKeys(slot int, was, is *RedisServer) error {
	const list = `return table.concat(redis.call('CLUSTER', 'GETKEYSINSLOT', ARGV[1], 1000), '\n')`
	for {
		keys, err := was.Command("EVAL", list, "0", strconv.Itoa(slot))
		if err != nil || keys == "" {
			return err
		}
		args := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(is.Port()), "", "0",
			strconv.FormatInt(stopLimit.Milliseconds(), 10), "KEYS"}
		if _, err := was.Command(append(args, strings.Split(keys, "\n")...)...); err != nil {
			return err
		}
	}
}

// await repeats look until it returns nil.
func await(what string, look func() error) error {
	deadline := time.Now().Add(startLimit)
	for {
		err := look()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("testservers: not within %s: %s: %w", startLimit, what, err)
		}
		time.Sleep(5 * pollInterval)
	}
}
