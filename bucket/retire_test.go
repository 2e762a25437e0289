package bucket_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/ledger"
)

// TestEmptyUntilItsGrantArrives: a bucket that was opened and whose units are on their way is asked, and
// covers nothing yet. The request goes to the next bucket, and this one stays online: it holds no fragment.
func TestEmptyUntilItsGrantArrives(t *testing.T) {
	w, server := one(t)
	var stops, looks, ends atomic.Int64
	held, release := make(chan struct{}), make(chan struct{})
	server.Hook = func(c memstore.Call) memstore.Fault {
		if c.Verb == "grant" && !c.After && c.Ref.Bucket == stops.Load() && c.Ref.Epoch == 2 {
			close(held)
			<-release
		}
		return memstore.Proceed
	}
	w.model.Hook = func(method string, before bool) error {
		switch {
		case before && method == "Ending":
			ends.Add(1)
		case before && method == "Epochs":
			looks.Add(1)
		}
		return nil
	}
	set := slow()
	opener, other := w.node(set), w.node(set)
	ref := w.create(opener, promo("coming", 300, 3))
	ctx := context.Background()
	ask := func(id string) string {
		t.Helper()
		got, err := other.Deduct(ctx, bucket.DeductRequest{Budget: ref, RequestID: id, Amount: 5, Key: "always here"})
		if err != nil {
			t.Fatal(err)
		}
		return got.Bucket
	}
	its := ask("first")
	at := slices.IndexFunc(w.budget(ref).Buckets, func(b bucket.Bucket) bool { return b.Key == its })
	stops.Store(w.budget(ref).Buckets[at].ID)
	recycled := make(chan error, 1)
	go func() {
		_, err := opener.Recycle(ctx, ref) // each bucket gets a new epoch, and a grant for it
		recycled <- err
	}()
	<-held
	looks.Store(0)
	ends.Store(0)
	if got := ask("early"); got == its {
		t.Errorf("%s covered it", got)
	}
	// One look finds the next bucket; the other one is for this.
	w.until("the fragment was looked at", func() bool { return looks.Load() > 1 || ends.Load() > 0 })
	close(release)
	if err := <-recycled; err != nil {
		t.Error(err)
	}
	got := w.budget(ref).Buckets[at]
	if !got.Online || got.Epoch.Status != ledger.Open || got.Epoch.Number != 2 || ends.Load() > 0 {
		t.Errorf("%d epochs ended; %+v", ends.Load(), got)
	}
	w.settled(other, ref, 10)
}
