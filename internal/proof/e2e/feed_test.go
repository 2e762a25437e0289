package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/go-json-experiment/json"
)

// follower is a process `budgetctl ledger --follow`. Its output is appended to a file, as a
// consumer would do.
type follower struct {
	t            *testing.T
	ctl          string
	name         string
	out, cursor  string
	cmd          *exec.Cmd
	log          testservers.Text
	starts, torn int
}

func newFollower(t *testing.T, name string) *follower {
	t.Helper()
	dir := t.TempDir()
	f := &follower{t: t, name: name, ctl: testservers.Program(t, "budgetctl"),
		out: filepath.Join(dir, "entries.jsonl"), cursor: filepath.Join(dir, "cursor")}
	t.Cleanup(f.kill)
	return f
}

// followPage is the size of the follower's pages. It is small, so that a kill often comes between
// two pages.
const followPage = 20

// start starts the follower. It continues from its cursor, through any node.
func (f *follower) start(n *node) {
	f.t.Helper()
	out, err := os.OpenFile(f.out, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		f.t.Fatal(err)
	}
	defer out.Close()
	f.starts++
	f.cmd = exec.Command(f.ctl, "ledger", f.name, "--follow", "--server", n.addr, "--cursor-file", f.cursor,
		"--limit", fmt.Sprint(followPage), "-o", "json")
	f.cmd.Stdout, f.cmd.Stderr = out, &f.log
	if err := f.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
}

// kill ends the follower with SIGKILL and removes an incomplete last line: the cursor is before the
// page of that line.
func (f *follower) kill() {
	if f.cmd == nil {
		return
	}
	_ = f.cmd.Process.Kill()
	_ = f.cmd.Wait()
	f.cmd = nil
	text, err := os.ReadFile(f.out)
	if err != nil {
		f.t.Error(err)
		return
	}
	if whole := bytes.LastIndexByte(text, '\n') + 1; whole < len(text) {
		f.torn++
		if err := os.Truncate(f.out, int64(whole)); err != nil {
			f.t.Error(err)
		}
	}
}

// entries returns each entry that was written, once, and the number of repeated lines.
func (f *follower) entries() (once []client.LedgerEntry, repeated int) {
	f.t.Helper()
	text, err := os.ReadFile(f.out)
	if err != nil {
		f.t.Fatal(err)
	}
	type name struct {
		bucket string
		entry  int64
	}
	seen := map[name]string{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break // being written
		}
		var e client.LedgerEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			f.t.Fatalf("%q: %v", line, err)
		}
		if before, again := seen[name{e.Bucket, e.Entry}]; again {
			if repeated++; before != line {
				f.t.Errorf("entry %s/%d came as %s and as %s", e.Bucket, e.Entry, before, line)
			}
			continue
		}
		seen[name{e.Bucket, e.Entry}] = line
		once = append(once, e)
	}
	return once, repeated
}

// TestFollowerIsKilledAndResumed checks I7 for readers, end to end: two nodes deduct and roll back,
// and buckets get new epochs. A follower that is killed repeatedly and continues from its cursor
// file must read every accepted deduction and every rollback once. Only the page in which it was
// killed may be repeated.
func TestFollowerIsKilledAndResumed(t *testing.T) {
	const name, callers, kills = "followed", 8, 6
	world := newCluster(t)
	nodes := []*node{world.start(t), world.start(t)}
	clients := []*client.Client{nodes[0].client(), nodes[1].client()}
	create(t, clients[0], name, 1_000_000, 4)
	told := newBooks()
	f := newFollower(t, name)
	f.start(nodes[0])
	stop := make(chan struct{})
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() { spend(t, clients, caller, name, told, stop) })
	}
	for i := range kills {
		time.Sleep(300*time.Millisecond + time.Duration(rand.IntN(200))*time.Millisecond)
		f.kill()
		f.start(nodes[i%2])
		recycleOne(t, clients[i%2], name, i%4)
		if i == kills/2 {
			resize(t, clients[1], name, 6)
		}
	}
	close(stop)
	all.Wait()
	if t.Failed() {
		return
	}
	want := len(told.accepted) + len(told.returned)
	eventually(t, time.Minute, "the follower has read all", func() error {
		if got, _ := f.entries(); len(got) < want {
			return fmt.Errorf("%d of %d entries; it says %q", len(got), want, f.log.String())
		}
		return nil
	})
	got, repeated := f.entries()
	t.Logf("%d deductions, %d rollbacks, %d starts, %d lines repeated, %d torn", len(told.accepted),
		len(told.returned), f.starts, repeated, f.torn)
	compareFeed(t, got, told)
	if most := kills * followPage; repeated > most {
		t.Errorf("%d lines were repeated by %d kills, at most %d can be", repeated, kills, most)
	}
	if len(told.accepted) < 200 || len(told.returned) < 10 {
		t.Error("too few deductions or rollbacks")
	}
	checkBooks(t, clients[1], name, 1_000_000, told.used())
	checkLeaving(t, nodes[(kills-1)%2], f)
}

// spend deducts until stop is closed, and gives some units back.
func spend(t *testing.T, clients []*client.Client, caller int, name string, told *books, stop chan struct{}) {
	ctx, chance := context.Background(), rand.New(rand.NewPCG(3, uint64(caller)))
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		id, amount, c := fmt.Sprintf("f%d-%d", caller, i), 1+chance.Int64N(20), clients[(caller+i)%2]
		if _, err := c.Deduct(ctx, name, client.DeductRequest{RequestID: id, Amount: amount}); err != nil {
			t.Errorf("deduct %s: %v", id, err)
			return
		}
		told.accept(id, amount)
		switch chance.IntN(10) {
		case 0:
			rollBack(t, c, name, id, amount, told)
		case 1:
			d, err := c.Cancel(ctx, name, client.CancelRequest{RequestID: id})
			if err != nil || d.RolledBack != amount {
				t.Errorf("cancel %s: %+v, %v", id, d, err)
				return
			}
			told.giveBack(id, amount)
		}
	}
}

// recycleOne gives a bucket a new epoch.
func recycleOne(t *testing.T, c *client.Client, name string, ordinal int) {
	t.Helper()
	key := fmt.Sprintf("%s:bucket-%d", name, ordinal)
	if _, err := c.Offline(context.Background(), name, key); err != nil {
		t.Errorf("offline: %v", err)
	}
	if _, err := c.Online(context.Background(), name, key); err != nil {
		t.Errorf("online: %v", err)
	}
}

func resize(t *testing.T, c *client.Client, name string, buckets int) {
	t.Helper()
	if _, err := c.Patch(context.Background(), name, client.PatchRequest{BucketQuantity: &buckets}); err != nil {
		t.Errorf("resize: %v", err)
	}
}

// compareFeed compares the entries with what callers were told, and checks that the numbers of each
// bucket's entries increase.
func compareFeed(t *testing.T, got []client.LedgerEntry, told *books) {
	t.Helper()
	last, made, back := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, e := range got {
		if e.Entry <= last[e.Bucket] { // numbers may have gaps
			t.Errorf("entry %d of %s follows entry %d", e.Entry, e.Bucket, last[e.Bucket])
		}
		last[e.Bucket] = e.Entry
		switch e.Kind {
		case "deduct":
			made[e.RequestID] += e.Amount
		case "rollback":
			back[e.RequestID] += e.Amount
		default:
			t.Errorf("kind %q", e.Kind)
		}
	}
	same := func(what string, got, want map[string]int64) {
		for id, amount := range want {
			if got[id] != amount {
				t.Errorf("%s %s: the feed says %d, the caller was told %d", what, id, got[id], amount)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d %ss in the feed, callers were told of %d", len(got), what, len(want))
		}
	}
	same("deduction", made, told.accepted)
	same("rollback", back, told.returned)
}

// checkLeaving checks that a node that stops does not wait for a follower's long poll, and that an
// interrupted follower exits without an error.
func checkLeaving(t *testing.T, n *node, f *follower) {
	t.Helper()
	if code := n.stop(); code != 0 || strings.Contains(n.log.String(), "requests are cut off") {
		t.Errorf("exit status %d of a node with a follower", code)
	}
	if err := f.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := f.cmd.Wait()
	f.cmd = nil
	var exit *exec.ExitError
	if err != nil || errors.As(err, &exit) {
		t.Errorf("the follower ended with %v after SIGINT: %s", err, f.log.String())
	}
}
