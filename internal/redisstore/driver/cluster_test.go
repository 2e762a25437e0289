package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestNodes parses the answers of several server versions.
func TestNodes(t *testing.T) {
	const text = `07c3 127.0.0.1:30004@31004 slave e7d1 0 1426238317239 4 connected
67ed 127.0.0.1:30002@31002,host-2 master - 0 1426238316232 2 connected 5461-10922
292f 127.0.0.1:30003@31003,,shard-id=9 master - 0 1426238318243 3 connected 10923-16000 16002 [16001->-67ed]
e7d1 :30001@31001 myself,master - 0 0 18446744073709551615 connected 0-5460 [93-<-292f] [5461->-67ed]
dead :0@0 master,noaddr - 0 0 9 disconnected 7-8
nope 127.0.0.1:30009@31009 handshake - 0 0 0 connected
six6 ::1:30007@31007 master,fail - 0 0 5 connected 16383
idle 127.0.0.1:30008@31008 master - 0 0 8 connected
tls1 10.0.0.1:0@31010 master - 0 0 6 connected 1
odd1 10.0.0.2:6379@16379 master - 0 0 x connected 2
odd2 10.0.0.3 master - 0 0 7 connected 3 16384 4-3 -1 a-b 5-20000
short line

`
	for _, named := range []bool{false, true} {
		second := "127.0.0.1:30002"
		if named {
			second = "host-2:30002"
		}
		want := fmt.Sprint([]clusterSlotClaim{{second, 2, [][2]int{{5461, 10922}}},
			{"127.0.0.1:30003", 3, [][2]int{{10923, 16000}, {16002, 16002}}},
			{"asked:30001", 1<<64 - 1, [][2]int{{0, 5460}}}, {"[::1]:30007", 5, [][2]int{{16383, 16383}}}})
		if got := fmt.Sprint(nodes(text, "asked", named)); got != want {
			t.Errorf("named %t:\n%s, want\n%s", named, got, want)
		}
	}
	if got := nodes("", "asked", false); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// TestWinner checks that the greater epoch wins a slot, whichever server was asked first.
func TestWinner(t *testing.T) {
	old, young := clusterSlotClaim{"old:1", 3, [][2]int{{0, 99}}}, clusterSlotClaim{"young:1", 7, [][2]int{{50, 99}, {200, 200}}}
	for _, claims := range [][]clusterSlotClaim{{old, young}, {young, old}, {old, young, old}} {
		for slot, want := range map[int]string{0: "old:1", 50: "young:1", 99: "young:1", 100: "", 200: "young:1"} {
			if got := winner(claims, slot); got != want {
				t.Errorf("%v: slot %d is served by %q, want %q", claims, slot, got, want)
			}
		}
	}
}

// TestAsked checks for some of both kinds, no duplicates, and not too many.
func TestAsked(t *testing.T) {
	list := func(kind string, n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprint(kind, i))
		}
		return out
	}
	for _, test := range []struct {
		masters, seeds []string
		want           string
	}{
		{nil, list("s", 2), "s0 s1"},
		{list("m", 2), list("s", 1), "s0 m0 m1"},
		{[]string{"a", "b"}, []string{"b", "a"}, "b a"},
		{list("m", 20), list("s", 20), "s0 s1 s2 s3 m0 m1 m2 m3"},
		{nil, list("s", 20), "s0 s1 s2 s3 s4 s5 s6 s7"},
		{list("m", 20), list("s", 1), "s0 m0 m1 m2 m3 m4 m5 m6"},
	} {
		if got := strings.Join(asked(test.masters, test.seeds), " "); got != test.want {
			t.Errorf("%v, %v: %s, want %s", test.masters, test.seeds, got, test.want)
		}
	}
}

// TestNewest checks that the last fail-over known to any sentinel decides.
func TestNewest(t *testing.T) {
	old, young := report{"old:1", 3}, report{"young:1", 7}
	for want, reports := range map[string][]report{"young:1": {{}, old, young, old}, "old:1": {{"", 9}, old}, "": {{}, {}}} {
		slices.Reverse(reports)
		for range 2 {
			if got := newest(reports); got.addr != want {
				t.Errorf("%v: %v, want %s", reports, got, want)
			}
			slices.Reverse(reports)
		}
	}
	if got := newest([]report{{"first:1", 0}}); got.addr != "first:1" {
		t.Errorf("epoch 0: %v", got)
	}
}

// TestReportOf checks what a sentinel must report at least.
func TestReportOf(t *testing.T) {
	good := map[string]string{"ip": "::1", "port": "6379", "config-epoch": "4", "flags": "master"}
	if got, err := reportOf(good); err != nil || got != (report{"[::1]:6379", 4}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, field := range []string{"ip", "port", "config-epoch"} {
		for _, value := range []string{"", " ", "-1", "x"} {
			if field == "ip" && (value == "-1" || value == "x") {
				continue
			}
			bad := map[string]string{"ip": "h", "port": "6379", "config-epoch": "4", field: value}
			if got, err := reportOf(bad); err == nil {
				t.Errorf("%s %q: %+v", field, value, got)
			}
		}
	}
}

// TestAtlas checks that it queries when it must, once for all who wait, and keeps its knowledge
// when nobody answers.
func TestAtlas(t *testing.T) {
	var calls atomic.Int64
	var mu sync.Mutex
	answer, failure := []string{"a", ""}, error(nil)
	set := func(addrs []string, err error) {
		mu.Lock()
		defer mu.Unlock()
		answer, failure = addrs, err
	}
	a := newTopology(func(context.Context) ([]string, error) {
		calls.Add(1)
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(answer), failure
	})
	find := func(index int, want string, wantErr error, wantCalls int64) {
		t.Helper()
		before := calls.Load()
		got, err := a.find(t.Context(), index)
		if got != want || !errors.Is(err, wantErr) || calls.Load()-before != wantCalls {
			t.Errorf("partition %d is at %q, %v, after %d questions; want %q, %v, %d", index, got, err, calls.Load()-before,
				want, wantErr, wantCalls)
		}
	}
	broken := errors.New("nobody answers")
	set(nil, broken)
	find(0, "", broken, 1)
	find(0, "", broken, 1) // it goes on trying
	set([]string{"a", ""}, nil)
	find(0, "a", nil, 1)
	find(0, "a", nil, 0)
	find(1, "", errNobody, 0)
	set([]string{"b", "b"}, nil)
	find(0, "a", nil, 0)
	a.doubt()
	find(1, "b", nil, 1)
	set(nil, broken)
	a.doubt()
	find(0, "b", nil, 1)
	find(0, "b", nil, 1) // still in doubt
	set([]string{"c", "c"}, nil)
	find(0, "c", nil, 1)
	a.mu.Lock()
	a.asked, a.doubted = time.Now().Add(-topologyAge), time.Time{} // as if it were long ago
	a.mu.Unlock()
	find(0, "c", nil, 1)
}

// TestAtlasAskedByMany checks that all callers during a query share at most one more.
func TestAtlasAskedByMany(t *testing.T) {
	const many = 50
	var calls atomic.Int64
	waiting, goOn := make(chan struct{}), make(chan struct{})
	a := newTopology(func(context.Context) ([]string, error) {
		if calls.Add(1) == 1 {
			close(waiting)
			<-goOn
		}
		return nil, errors.New("nobody answers")
	})
	var all sync.WaitGroup
	var come atomic.Int64
	all.Go(func() { _, _ = a.find(t.Context(), 0) })
	<-waiting
	for range many {
		all.Go(func() {
			come.Add(1)
			if _, err := a.find(t.Context(), 0); err == nil {
				t.Error("found")
			}
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.find(ended, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("whose time is over: %v", err)
	}
	for come.Load() < many {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // into find
	close(goOn)
	all.Wait()
	if n := calls.Load(); n > 3 {
		t.Errorf("%d questions", n)
	}
}
