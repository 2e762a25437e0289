package bucket_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestStopAfterALoss: a node that stops when its stores have lost their memory does not wait for what they
// no longer have. It says what it acknowledged, so that the next node knows at once what is to be
// quarantined, and why.
func TestStopAfterALoss(t *testing.T) {
	w := newStoreWorld(t)
	s := w.start(storeQuick())
	ref := w.create(s, promo("stops", 900, 3))
	w.fails("Commit")
	for i := range 60 {
		if _, err := deduct(s, ref, fmt.Sprint(i), 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, server := range w.servers {
		server.Lose()
	}
	w.fails()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Fatalf("stop: %v", err)
	}
	set := storeQuick()
	set.ReportWait = time.Hour // nothing is ended for want of a report
	next := w.node(set)
	used := int64(0) // by a commit that had read its entries before the stores lost them
	w.until("what the stores held is in quarantine", func() bool {
		f := w.figures(next, ref)
		used = f.Used
		return f.Quarantined+f.Used == 900 && f.Quarantined > 0
	})
	list, err := next.Quarantines(context.Background(), ref)
	if err != nil || len(list) != 3 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, q := range list {
		if !strings.HasPrefix(q.Cause, "accepted up to log position") {
			t.Errorf("quarantined because of %q", q.Cause)
		}
	}
	w.settled(next, ref, used)
}
