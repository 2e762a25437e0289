package alerting_test

import (
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/internal/webhook"
)

// TestEndpointsDoNotWaitForEachOther lets one receiver hang and another have more messages than any
// round takes. The messages to a third one arrive at once, and the one that hangs has one request.
func TestEndpointsDoNotWaitForEachOther(t *testing.T) {
	dir := t.TempDir()
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", 32)))
	for _, tenant := range []string{"hangs", "backlog", "other"} {
		folder := filepath.Join(dir, "tenants", tenant)
		if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "shop"), []byte(secret), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	each(t, func(w *world) {
		const backlog, others = 300, 5
		release, hung, arrived := make(chan struct{}), make(chan struct{}, backlog), make(chan struct{}, others)
		hang := httptest.NewServer(http.HandlerFunc(func(a http.ResponseWriter, _ *http.Request) {
			hung <- struct{}{}
			<-release
			a.WriteHeader(410) // ends its backlog
		}))
		defer hang.Close()
		end := sync.OnceFunc(func() { close(release) })
		defer end()
		quick := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived <- struct{}{} }))
		defer quick.Close()
		s := webhook.New(webhook.Config{Outbox: w.p, Secrets: webhook.Secrets{Dir: dir},
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: 10 * time.Second,
			Now: w.DB.Now, Clock: w.DB.Now, Observer: w.told, Log: slog.New(slog.DiscardHandler)})
		for _, e := range []struct {
			tenant, url string
			messages    int
		}{{"hangs", hang.URL, 2}, {"backlog", hang.URL, backlog}, {"other", quick.URL, others}} {
			made := w.endpoint(alert.Endpoint{Tenant: e.tenant, URL: e.url})
			for range e.messages {
				_, err := w.p.Test(w.Ctx, made.ID)
				w.OK(err)
			}
			w.Clock.Advance(time.Second)
		}
		w.OK(s.RunOnce(w.Ctx))
		for i := range others {
			select {
			case <-arrived:
			case <-time.After(30 * time.Second):
				w.Fatalf("%d of %d messages arrived while another receiver hangs", i, others)
			}
		}
		for range 3 {
			w.OK(s.RunOnce(w.Ctx))
		}
		if n := len(hung); n > 2 {
			w.Errorf("two endpoints that hang have %d requests", n)
		}
		end()
		s.Wait()
	})
}
