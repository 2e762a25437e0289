package bucket_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// lateReplies is a store whose reply to one request comes late, and whose logs are read late.
type lateReplies struct {
	bucket.Instance
	late string // request id
}

func (i *lateReplies) Deduct(ctx context.Context, lane bucket.Lane, operations []bucket.Operation) ([]bucket.Reply, error) {
	replies, err := i.Instance.Deduct(ctx, lane, operations)
	for _, o := range operations {
		if o.Request.ID == i.late {
			time.Sleep(200 * time.Millisecond)
		}
	}
	return replies, err
}

func (i *lateReplies) Read(ctx context.Context, lane bucket.Lane, from []bucket.Cursor, limit int) ([]bucket.Extract, error) {
	time.Sleep(50 * time.Millisecond)
	return i.Instance.Read(ctx, lane, from, limit)
}

// TestEarlyCommit: an entry that a commit brought into the ledger before its own caller had the store's reply is answered
// from what that commit made of it, and SQL is not asked where it is.
func TestEarlyCommit(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		w, _ := one(t)
		var looks atomic.Int64
		w.model.Hook = func(method string, before bool) error {
			if method == "At" && before {
				looks.Add(1)
			}
			return nil
		}
		connect := w.connect
		w.connect = func() map[string]bucket.Instance {
			out := connect()
			for name := range out {
				out[name] = &lateReplies{out[name], "late"}
			}
			return out
		}
		s := w.node(quick)
		ref := w.create(s, promo("early", 1000, 1))
		told := make(chan error, 1)
		go func() {
			_, err := deduct(s, ref, "first", 1)
			told <- err
		}()
		time.Sleep(10 * time.Millisecond)
		answer, err := deduct(s, ref, "late", 7)
		if err != nil || answer.Amount != 7 || answer.Replayed {
			t.Errorf("%+v, %v", answer, err)
		}
		if err := <-told; err != nil {
			t.Error(err)
		}
		if n := looks.Load(); n > 0 {
			t.Errorf("SQL was asked %d times where an entry is", n)
		}
		if _, _, used := w.figuresOf(ref); used != 8 {
			t.Errorf("%d are used", used)
		}
	})
}
