package alerting_test

import (
	"encoding/base64"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/alerting"
	"github.com/budgetd/budgetd/internal/webhook"
)

// TestAlertsAreCounted checks what an observer hears of passes: how many thresholds were compared,
// and how many alerts fire after them.
func TestAlertsAreCounted(t *testing.T) {
	each(t, func(w *world) {
		full, half := w.Create("full", 100, 1), w.Create("half", 100, 1)
		w.Create("none", 100, 1)
		w.OK(w.s.SetThresholds(w.Ctx, bucket.BudgetRef{ID: half.ID},
			[]alert.Threshold{{Kind: alert.UsedShare, Of: alert.Total, Percent: 50}}))
		evaluated := func(name string, want map[alert.Kind]int) {
			t.Helper()
			if got := w.told.evaluated; !maps.Equal(got, want) {
				t.Errorf("%s: %v evaluated, want %v", name, got, want)
			}
			w.told.evaluated = nil
		}
		w.use(full, 100)
		w.use(half, 60)
		w.pass(w.a)
		evaluated("the first pass, with samples", map[alert.Kind]int{alert.UsedShare: 5, alert.Exhausted: 2,
			alert.Projected: 2, alert.StrandedShare: 2, alert.Quarantine: 2})
		w.pass(w.b) // another node
		w.told.evaluated = nil
		w.raise(full, 9900)
		w.pass(w.a)
		evaluated("a pass without samples", map[alert.Kind]int{alert.UsedShare: 5, alert.Exhausted: 2,
			alert.Quarantine: 2})
		broken := alerting.New(w.s.Config)
		broken.Outbox = &alerting.Outbox{DB: w.DB, Random: failing{}}
		w.endpoint(alert.Endpoint{})
		w.raise(half, 9900)
		k := &alerting.Evaluator{Service: broken}
		w.Clock.Advance(time.Second)
		k.Begin()
		books, err := w.books.Snapshots(w.Ctx, 0, 100)
		w.OK(err)
		if err := k.Page(w.Ctx, books); err == nil {
			t.Error("a message without an id was written")
		}
		k.End()
		w.pass(w.a)
		w.a.Begin() // within a second of its last: it evaluates nothing
		w.a.End()
		w.same("firing", w.told.firing, []string{"used_share 3 exhausted 1", "used_share 3 exhausted 1", "used_share 1", ""})
	})
}

// TestOutboxIsCounted sends messages to a receiver, and checks what an observer hears.
func TestOutboxIsCounted(t *testing.T) {
	var status atomic.Int32
	receiver := httptest.NewServer(http.HandlerFunc(func(a http.ResponseWriter, _ *http.Request) {
		a.WriteHeader(int(status.Load()))
	}))
	defer receiver.Close()
	dir := t.TempDir()
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", 32)))
	if err := os.WriteFile(filepath.Join(dir, "shop"), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	each(t, func(w *world) {
		s := webhook.New(webhook.Config{Outbox: w.p, Secrets: webhook.Secrets{Dir: dir},
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: time.Minute,
			Now: w.DB.Now, Clock: w.DB.Now, Observer: w.told, Log: slog.New(slog.DiscardHandler)})
		waiting := func(n int, oldest time.Duration) {
			t.Helper()
			w.OK(s.CountOnce(w.Ctx))
			if w.told.waiting != n || w.told.oldest != oldest {
				t.Errorf("%d wait, the oldest for %s; want %d and %s", w.told.waiting, w.told.oldest, n, oldest)
			}
		}
		e := w.endpoint(alert.Endpoint{URL: receiver.URL})
		waiting(0, 0)
		_, err := w.p.Test(w.Ctx, e.ID)
		w.OK(err)
		w.Clock.Advance(time.Hour)
		second, err := w.p.Test(w.Ctx, e.ID)
		w.OK(err)
		w.Clock.Advance(time.Minute)
		waiting(2, time.Hour+time.Minute)
		if n, _, err := w.p.Waiting(w.Ctx, 1); n != 1 || err != nil {
			t.Errorf("%d are counted up to 1, %v", n, err)
		}
		status.Store(500)
		w.OK(s.RunOnce(w.Ctx))
		s.Wait()
		waiting(2, time.Hour+time.Minute)
		w.Clock.Advance(10 * time.Second)
		status.Store(200)
		w.OK(s.RunOnce(w.Ctx))
		s.Wait()
		waiting(0, 0)
		_, err = w.p.Resend(w.Ctx, e.ID, second.Message.ID)
		w.OK(err)
		waiting(1, time.Minute+10*time.Second)
		status.Store(410)
		w.OK(s.RunOnce(w.Ctx))
		s.Wait()
		waiting(0, 0)
		want := []alert.DeliveryState{alert.Pending, alert.Pending, alert.Delivered, alert.Delivered, alert.Failed}
		if got := w.told.attempts; !slices.Equal(got, want) {
			t.Errorf("attempts ended as %q, want %q", got, want)
		}
	})
}
