package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/iana"
)

// alertMessage is a message of an alert, as a receiver reads it.
type alertMessage struct {
	ID   string `json:"-"`
	Type string `json:"type"`
	Data struct {
		AlertID   int64    `json:"alert_id"`
		Budget    string   `json:"budget"`
		Threshold string   `json:"threshold"`
		Period    int64    `json:"period"`
		Episode   int64    `json:"episode"`
		Reason    string   `json:"reason"`
		Also      []string `json:"also"`
		Figures   struct {
			Total, Spent, Left, Quarantined int64
		} `json:"figures"`
	} `json:"data"`
}

// receiver is a server that verifies messages with the library of Standard Webhooks. It keeps each
// message once, because they arrive at least once.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	ids  map[string]bool
	list []alertMessage
}

// alertCluster is two nodes that send messages about alerts to a receiver.
type alertCluster struct {
	*testing.T
	*cluster
	receiver *receiver
	nodes    []*node
	c        *client.Client
}

// newAlertCluster starts a receiver and two nodes in a cluster, and registers the receiver.
func newAlertCluster(t *testing.T) *alertCluster {
	t.Helper()
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("secret", 5)))
	w := &alertCluster{T: t, cluster: newCluster(t), receiver: newReceiver(t, secret)}
	secrets := t.TempDir()
	must(t, os.WriteFile(filepath.Join(secrets, "pager"), []byte(secret), 0o600))
	w.config = writeConfig(t, w.text+"webhooks:\n  secrets_dir: "+secrets+"\n  allow: [127.0.0.0/8]\n")
	w.nodes = []*node{w.start(t), w.start(t)}
	w.c = w.nodes[0].client()
	_, err := w.c.CreateWebhook(context.Background(),
		client.WebhookRequest{URL: w.receiver.URL, Secret: "pager"})
	must(t, err)
	return w
}

func newReceiver(t *testing.T, secret string) *receiver {
	t.Helper()
	verifier, err := standard.NewWebhook(secret)
	must(t, err)
	r := &receiver{ids: map[string]bool{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err == nil {
			err = verifier.Verify(body, q.Header)
		}
		m := alertMessage{ID: q.Header.Get("webhook-id")}
		if err == nil {
			err = json.Unmarshal(body, &m)
		}
		if err != nil {
			t.Errorf("a message that cannot be trusted: %v\n%s", err, body)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.ids[m.ID] {
			r.ids[m.ID] = true
			r.list = append(r.list, m)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(r.Close)
	return r
}

// about returns the messages about a budget, each formatted as "TYPE THRESHOLD pPERIOD REASON".
func (r *receiver) about(name string) (texts []string, list []alertMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.list {
		if d := m.Data; d.Budget == name {
			texts = append(texts, strings.TrimSpace(fmt.Sprintf("%s %s p%d %s", m.Type, d.Threshold, d.Period, d.Reason)))
			list = append(list, m)
		}
	}
	return texts, list
}

// awaits waits until a budget has had a message, and returns it.
func (w *alertCluster) awaits(name, want string, limit time.Duration) alertMessage {
	w.Helper()
	var found alertMessage
	eventually(w.T, limit, name+" has the message "+want, func() error {
		texts, list := w.receiver.about(name)
		for i := range texts {
			if texts[i] == want {
				found = list[i]
				return nil
			}
		}
		return fmt.Errorf("it had %q", texts)
	})
	return found
}

// thresholds sets the thresholds of a budget.
func (w *alertCluster) thresholds(name string, list ...client.Threshold) {
	w.Helper()
	_, err := w.c.SetThresholds(context.Background(), name, list)
	must(w.T, err)
}

// listed checks the alerts of a budget in a state, newest first: "THRESHOLD pPERIOD REASON".
func (w *alertCluster) listed(name, state string, want ...string) {
	w.Helper()
	for _, n := range w.nodes {
		page, err := n.client().Alerts(context.Background(), client.AlertQuery{Budget: name, State: state})
		must(w.T, err)
		var got []string
		for _, a := range page.Alerts {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s p%d %s", a.Threshold, a.Period, a.Reason)))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			w.Errorf("%s: %s alerts %q, want %q", name, state, got, want)
		}
	}
}

// TestAlertRollsOver uses up the open period of budgets of both modes. The period ends while both
// nodes run. It checks that the receiver hears once that the period is used up and once that a
// rollover resolved this, that the alert about the total continues, and that the next period has an
// alert of its own.
func TestAlertRollsOver(t *testing.T) {
	t.Parallel()
	w := newAlertCluster(t)
	modes := []budget.Durability{budget.Ledger, budget.Store}
	names, ends := w.usedUp(modes)
	for _, name := range names {
		fired := w.awaits(name, "alert.firing exhausted/period p1", 0)
		over := w.awaits(name, "alert.resolved exhausted/period p1 rolled_over", time.Until(ends)+time.Minute)
		if over.Data.AlertID != fired.Data.AlertID || over.ID == fired.ID {
			t.Errorf("%s: the alert %+v was resolved as %+v", name, fired, over)
		}
		if left := fired.Data.Figures; left.Total != 100 || left.Spent != 100 || left.Left != 0 {
			t.Errorf("%s: the message says %+v of 100 used units", name, left)
		}
	}
	for _, name := range names {
		w.sells(name, "next")
		again := w.awaits(name, "alert.firing exhausted/period p2", time.Minute)
		if again.Data.Episode != 1 {
			t.Errorf("%s: the next period begins with %+v", name, again)
		}
		w.awaits(name, "alert.firing used_share/total/10 p0", time.Minute)
		if texts, _ := w.receiver.about(name); len(texts) != 4 {
			t.Errorf("%s: the receiver had %q, want 4 messages", name, texts)
		}
		w.listed(name, "resolved", "exhausted/period p1 rolled_over")
		w.listed(name, "firing", "exhausted/period p2", "used_share/total/10 p0")
	}
}

// usedUp makes a budget of 1,000 units for each mode, whose period has 100 units and ends within 70
// seconds, and deducts these. It returns the budgets' names and the end of the period. The receiver
// has heard of it before that end; if the machine is too slow for this, usedUp makes other budgets.
func (w *alertCluster) usedUp(modes []budget.Durability) (names []string, ends time.Time) {
	w.Helper()
	for try := range 5 {
		zone := noonZone() // a minute of a rule ends within its day
		place, err := iana.Zone(zone)
		must(w.T, err)
		names, ends = nil, time.Now().Add(70*time.Second).Truncate(time.Minute)
		turn := ends.In(place).Format("15:04")
		for _, mode := range modes {
			name := fmt.Sprintf("%s-%d", mode, try)
			names = append(names, name)
			createBudget(w.T, w.c, client.CreateRequest{Name: name, Unit: budget.Count, Type: budget.Daily,
				Durability: mode, TotalQuantity: 1000, BucketQuantity: 2, Timezone: zone,
				TypeRule: &budget.Rule{Kind: budget.Windows, Windows: []budget.Window{
					{From: "00:00", To: turn, Quantity: 100}, {From: turn, To: "24:00", Quantity: 100}}}})
			w.thresholds(name, client.Threshold{Kind: "exhausted", Of: "period"},
				client.Threshold{Kind: "used_share", Of: "total", Percent: 10})
			w.sells(name, "first")
		}
		heard := 0
		for heard < len(names) && time.Now().Before(ends) {
			heard = 0
			for _, name := range names {
				if texts, _ := w.receiver.about(name); strings.Contains(fmt.Sprint(texts), "exhausted/period p1") {
					heard++
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
		if heard == len(names) {
			return names, ends
		}
		w.Logf("by the end of their period, %d of %d budgets had an alert", heard, len(names))
	}
	w.Fatal("no period that was used up had an alert before its end")
	return nil, ends
}

// sells deducts the 100 units of a period.
func (w *alertCluster) sells(name, id string) {
	w.Helper()
	eventually(w.T, time.Minute, name+" sells its period", func() error {
		_, err := w.c.Deduct(context.Background(), name, client.DeductRequest{RequestID: id, Amount: 100})
		return err
	})
}

// TestAlertOfQuarantine loses the memory of a Redis in store mode. It checks that the receiver hears
// once of the units in quarantine, and once that they are released after an operator has done so.
func TestAlertOfQuarantine(t *testing.T) {
	t.Parallel()
	const name = "lost"
	w := newAlertCluster(t)
	createStore(t, w.c, name, 900, 9)
	w.thresholds(name, client.Threshold{Kind: "quarantine"})
	ctx := context.Background()
	for i := range 90 {
		_, err := w.c.Deduct(ctx, name, client.DeductRequest{RequestID: fmt.Sprint("sold-", i), Amount: 1})
		must(t, err)
	}
	awaitView(t, w.c, name, "SQL has what was sold", func(v *client.Budget) bool { return v.Used == 90 })
	held, _ := units(t, w.c, name, "redis-0")
	must(t, w.redis[0].Kill())
	must(t, w.redis[0].RestartEmpty())
	fired := w.awaits(name, "alert.firing quarantine p0", time.Minute)
	awaitView(t, w.c, name, "what the buckets held is in quarantine", func(v *client.Budget) bool {
		return v.Quarantined == held
	})
	w.listed(name, "firing", "quarantine p0")
	w.listed(name, "resolved")
	answer, err := w.c.ReleaseQuarantine(ctx, name, client.ReleaseRequest{RequestID: "unsold", By: "test",
		Reason: "the memory was lost after the last sync"})
	must(t, err)
	over := w.awaits(name, "alert.resolved quarantine p0 recovered", time.Minute)
	if over.Data.AlertID != fired.Data.AlertID || over.ID == fired.ID {
		t.Errorf("the alert %+v was resolved as %+v", fired, over)
	}
	if q := fired.Data.Figures.Quarantined; q < 1 || q > held {
		t.Errorf("the message that it fires says %d in quarantine of %d", q, held)
	}
	if q := over.Data.Figures.Quarantined; q != 0 {
		t.Errorf("the message that it is resolved says %d in quarantine; released: %+v", q, answer)
	}
	if texts, _ := w.receiver.about(name); len(texts) != 2 {
		t.Errorf("the receiver had %q, want 2 messages", texts)
	}
	w.listed(name, "resolved", "quarantine p0 recovered")
	w.listed(name, "firing")
}
