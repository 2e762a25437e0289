package access

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/budgetd/budgetd/access"
)

// follower keeps a book of keys in step with the database.
type follower struct {
	// DB is read outside of transactions.
	DB Tx
	// Note writes the hours of use, as noteUse does; nil means outside of transactions.
	Note func(ctx context.Context, used map[string]int64) error
	Book *access.Book
	Log  *slog.Logger
	// Now is the clock for the expiry of keys.
	Now func() time.Time
	// Keep is how long the book remembers keys that have ended.
	Keep time.Duration

	// read is how far the keys were read, version the number of changes at that time.
	read    Cursor
	version int64
	noted   int64 // when use was written last, in ms
	full    int   // the keys of one page; 0 means pageRows
}

const (
	// pageRows is the most keys that one statement reads.
	pageRows = 5000
	// noteRows is the most uses that one transaction writes.
	noteRows = 1000
	// pageTime bounds a statement. Reading all keys may take many of them.
	pageTime = time.Second
)

// RunOnce reads what changed. The daemon calls it before it serves, so that the first request finds
// the keys.
func (f *follower) RunOnce(ctx context.Context) error {
	// The version is read first: a change between the two reads is read again the next time.
	began := f.Now().UnixMilli()
	version, err := f.newest(ctx)
	switch {
	case err != nil:
		return err
	case version == f.version:
		f.Book.Confirm(began)
		return f.noteUse(ctx, began)
	case f.version == 0, version < f.version: // the first time, or the database was restored
		err = f.readAll(ctx, began)
	default:
		err = f.readChanges(ctx, began)
	}
	if err == nil {
		f.version = version
	}
	return err
}

func (f *follower) newest(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	return newestVersion(ctx, f.DB)
}

// page reads the next keys. more reports whether further ones may follow.
func (f *follower) page(ctx context.Context) (page changes, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	limit := cmp.Or(f.full, pageRows)
	page, err = since(ctx, f.DB, f.read, limit)
	if err != nil {
		return page, false, err
	}
	if page.Err != nil {
		f.Log.Error("a key cannot be understood: it is refused", "error", page.Err)
	}
	f.read = page.Next
	return page, len(page.Keys)+len(page.Odd) == limit, nil
}

// readAll replaces all keys.
func (f *follower) readAll(ctx context.Context, began int64) error {
	f.read, f.version = Cursor{}, 0
	var all []access.Key
	for more := true; more; {
		var page changes
		var err error
		if page, more, err = f.page(ctx); err != nil {
			return err
		}
		all = append(all, page.Keys...)
	}
	f.Book.Replace(all, began)
	return nil
}

// readChanges reads the keys that changed.
func (f *follower) readChanges(ctx context.Context, began int64) error {
	for more := true; more; {
		var page changes
		var err error
		if page, more, err = f.page(ctx); err != nil {
			return err
		}
		f.Book.Update(page.Keys, page.Odd)
	}
	f.Book.Confirm(began)
	return nil
}

// noteUse writes the last use at most once a minute, 1,000 keys at a time. It forgets keys that
// have ended long ago.
func (f *follower) noteUse(ctx context.Context, nowMS int64) error {
	if nowMS-f.noted < time.Minute.Milliseconds() {
		return nil
	}
	used := f.Book.Used(noteRows)
	if len(used) < noteRows {
		f.noted = nowMS
		f.Book.Forget(nowMS-f.Keep.Milliseconds(), nowMS)
	}
	if len(used) == 0 {
		return nil
	}
	note := f.Note
	if note == nil {
		note = func(ctx context.Context, used map[string]int64) error { return noteUse(ctx, f.DB, used) }
	}
	if err := note(ctx, used); err != nil {
		return err
	}
	f.Book.Noted(used)
	return nil
}
