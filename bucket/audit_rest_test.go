package bucket_test

import (
	"sync/atomic"
	"testing"
	"time"
)

// TestLooksLeaveSQLAlone: where SQL needs longer for the looks than their share, a tenth of a connection for the lists of
// epochs and for the sums over their rows, there are fewer.
func TestLooksLeaveSQLAlone(t *testing.T) {
	for _, asked := range []string{"Live", "Spans"} {
		t.Run(asked, func(t *testing.T) {
			const slow, share = 40 * time.Millisecond, 10
			w := newWorld(t)
			var looks atomic.Int64
			var on atomic.Bool
			w.model.Hook = func(method string, before bool) error {
				if method == asked && before && on.Load() {
					looks.Add(1)
					time.Sleep(slow)
				}
				return nil
			}
			set := quick
			set.Audit, set.Chores = time.Millisecond, time.Hour
			w.create(w.node(set), promo("rest", 300, len(w.servers)))
			began := time.Now()
			on.Store(true)
			within(t, time.Minute, "three looks at each lane", func() bool { return looks.Load() >= int64(3*len(w.servers)) })
			n, took := looks.Load(), time.Since(began)
			if most := int64(len(w.servers)) + int64(took/(slow*share)); n > most {
				t.Errorf("%d looks of at least %v within %v, want %d at most", n, slow, took, most)
			}
		})
	}
}
