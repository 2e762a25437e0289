package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Sentinels identifies a group of sentinels and the master that they watch.
type Sentinels struct {
	// Addrs are host:port of all of them, or of some.
	Addrs []string
	// MasterName is the name of the group.
	MasterName string
	// Username and Password are the sentinels' own; "" for none.
	Username, Password string
	// Secret, if set, returns the password instead, for each connection.
	Secret func() string
}

// report is a sentinel's report about its group's master. Of two reports the one with the greater
// epoch is true: it is that of the last fail-over that the sentinel knows (Redis manual,
// "Sentinel").
type report struct {
	addr  string
	epoch uint64
}

// sentinelTopology returns a topology that asks all sentinels for the master of the group, which
// serves every partition. It asks each time: go-redis's own client follows their announcements and
// resends.
func (i *Instance) sentinelTopology(group Sentinels) *topology {
	return newTopology(func(ctx context.Context) ([]string, error) {
		reports, errs := make([]report, len(group.Addrs)), make([]error, len(group.Addrs))
		var all sync.WaitGroup
		for n, addr := range group.Addrs {
			all.Go(func() { reports[n], errs[n] = i.askSentinel(ctx, addr, group) })
		}
		all.Wait()
		master := newest(reports)
		if master.addr == "" {
			return nil, fmt.Errorf("no sentinel names the master of %q: %w", group.MasterName,
				errors.Join(errs...))
		}
		addrs := make([]string, len(i.tags))
		for partition := range addrs {
			addrs[partition] = master.addr
		}
		return addrs, nil
	})
}

// newest returns the report with the greatest epoch; one without an address is ignored.
func newest(reports []report) (out report) {
	for _, r := range reports {
		if r.addr != "" && (out.addr == "" || r.epoch > out.epoch) {
			out = r
		}
	}
	return out
}

// askSentinel asks one sentinel for its group's master.
func (i *Instance) askSentinel(ctx context.Context, addr string, group Sentinels) (report, error) {
	options := i.options(addr, nil)
	options.Username, options.Password, options.DB = group.Username, group.Password, 0
	options.CredentialsProvider = credentials(group.Username, group.Secret)
	options.ClientName = "" // CLIENT SETNAME would have to be allowed too
	client := redis.NewClient(options)
	defer client.Close()
	fields := redis.NewMapStringStringCmd(ctx, "SENTINEL", "MASTER", group.MasterName)
	if err := client.Process(ctx, fields); err != nil {
		return report{}, err
	}
	return reportOf(fields.Val())
}

// reportOf parses the answer to SENTINEL MASTER.
func reportOf(fields map[string]string) (report, error) {
	epoch, err := strconv.ParseUint(fields["config-epoch"], 10, 64)
	port, err2 := strconv.Atoi(fields["port"])
	if err != nil || err2 != nil || port < 1 || strings.TrimSpace(fields["ip"]) == "" {
		return report{}, fmt.Errorf("it names no master: %.200s", fmt.Sprint(fields))
	}
	return report{addr: net.JoinHostPort(fields["ip"], fields["port"]), epoch: epoch}, nil
}
