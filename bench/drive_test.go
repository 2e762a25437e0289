package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/cmd/budgetctl/workload"
)

// TestDrive checks that each node gets an equal part of the calls, that requests are whole, and that
// the first wrong answer ends the load.
func TestDrive(t *testing.T) {
	var calls [2]atomic.Int64
	var status atomic.Int64
	status.Store(http.StatusOK)
	b := budgetd{watched: []string{fmt.Sprintf("load=%d", os.Getpid())}}
	for i := range calls {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil || r.URL.Path != "/deduct" || !strings.HasPrefix(string(body),
				fmt.Sprintf(`{"request_id":"%d-`, i)) || !strings.HasSuffix(string(body), `"}`) {
				t.Errorf("%s %s, %v", r.URL, body, err)
			}
			calls[i].Add(1)
			w.WriteHeader(int(status.Load()))
		}))
		defer server.Close()
		b.addresses = append(b.addresses, server.Listener.Addr().String())
	}
	s := &stage{world: &world{ctx: t.Context()}}
	posters := []*poster{baselinePoster(0), baselinePoster(1)}
	m, longest, err := s.drive(t.Context(), b, 0, workload.Plan{Calls: 20}, posters)
	if err != nil || calls[0].Load() != 10 || calls[1].Load() != 10 {
		t.Errorf("%d and %d calls, %v", calls[0].Load(), calls[1].Load(), err)
	}
	if m.perS <= 0 || m.p50 <= 0 || m.p99 < m.p50 || milliseconds(longest) < m.p99 || len(m.cpu) != 1 {
		t.Errorf("measured %+v, longest %s", m, longest)
	}
	status.Store(http.StatusTeapot)
	_, _, err = s.drive(t.Context(), b, 0, workload.Plan{Duration: time.Minute}, posters)
	if err == nil || !strings.Contains(err.Error(), "status 418: : not accepted") {
		t.Errorf("wrong answers: %v", err)
	}
}
