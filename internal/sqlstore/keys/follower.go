package keys

import (
	"context"
	"log/slog"
	"time"

	"github.com/budgetd/budgetd/access"
)

// Follower keeps a book of keys in step with the database.
type Follower struct {
	// DB is read outside of transactions.
	DB Tx
	// Note writes the hours of use, as NoteUse does; nil means outside of transactions.
	Note func(ctx context.Context, used map[string]int64) error
	Book *access.Book
	Log  *slog.Logger
	// Now is the clock for the expiry of keys.
	Now func() time.Time

	version int64
	noted   int64 // the hour in which use was written last
}

// RunOnce reads the keys once. The daemon calls it before it serves, so that the first request
// finds them.
func (f *Follower) RunOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	// The version is read first: a change between the two reads is read again the next time.
	began := f.Now().UnixMilli()
	version, err := Version(ctx, f.DB)
	if err != nil {
		return err
	}
	if version == f.version {
		f.Book.Confirm(began)
		return f.noteUse(ctx, began)
	}
	all, odd, err := All(ctx, f.DB)
	if err != nil {
		return err
	}
	if odd != nil {
		f.Log.Error("a key cannot be understood: it is refused", "error", odd)
	}
	f.Book.Replace(all, began)
	f.version = version
	return nil
}

// noteUse writes the last use at most once a minute.
func (f *Follower) noteUse(ctx context.Context, nowMS int64) error {
	if nowMS-f.noted < time.Minute.Milliseconds() {
		return nil
	}
	f.noted = nowMS
	used := f.Book.Used()
	if len(used) == 0 {
		return nil
	}
	note := f.Note
	if note == nil {
		note = func(ctx context.Context, used map[string]int64) error { return NoteUse(ctx, f.DB, used) }
	}
	if err := note(ctx, used); err != nil {
		return err
	}
	f.version = 0 // read them again, so that they are not told once more
	return nil
}
