package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// readiness asks /readyz.
func readiness(t *testing.T, n *node) (status int, degraded bool, reasons string) {
	t.Helper()
	answer, err := http.Get("http://" + n.addr + "/readyz")
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	var body struct {
		Degraded bool     `json:"degraded"`
		Reasons  []string `json:"reasons"`
	}
	must(t, json.Unmarshal(text, &body))
	return answer.StatusCode, body.Degraded, strings.Join(body.Reasons, "\n")
}

// TestOutageIsShown checks that get, buckets and /readyz report a Redis while it is down and not
// after it is back, and that the node stays ready.
func TestOutageIsShown(t *testing.T) {
	world := newCluster(t)
	n := world.start(t)
	c, ctx := n.client(), context.Background()
	createStore(t, c, "sale", 6000, 6)
	shown := func(out bool) func() error {
		return func() error {
			var faults []error
			fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
			b, err := c.Budget(ctx, "sale")
			must(t, err)
			list, err := c.Buckets(ctx, "sale")
			must(t, err)
			down := 0
			for _, one := range list.Buckets {
				if one.Problem != "" {
					down++
				}
				if (one.Problem != "") != (out && one.Home.Instance == "redis-0") {
					fault("bucket %s on %s: %q", one.Key, one.Home.Instance, one.Problem)
				}
			}
			if b.Buckets.Unreachable != down || out && down == 0 {
				fault("get says %+v, %d buckets are out of reach", b.Buckets, down)
			}
			status, degraded, reasons := readiness(t, n)
			if status != http.StatusOK || degraded != out || strings.Contains(reasons, "redis-0") != out {
				fault("readyz %d, degraded %v: %s", status, degraded, reasons)
			}
			if strings.Contains(reasons, world.redis[0].Addr()) {
				fault("readyz shows the address of a store: %s", reasons)
			}
			return errors.Join(faults...)
		}
	}
	eventually(t, time.Minute, "no outage is shown", shown(false))
	must(t, world.redis[0].Kill())
	eventually(t, time.Minute, "the outage is shown", shown(true))
	must(t, world.redis[0].Restart())
	eventually(t, time.Minute, "the outage is over", shown(false))
}
