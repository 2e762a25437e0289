// Package archive keeps what leaves the ledger's feed as files of JSON lines.
package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

var _ bucket.Archiver = (*Directory)(nil)

// Directory keeps each segment in a file of its own:
//
//	DIR/<tenant>/<budget>.<id>/<day>/<bucket's ordinal>.<first entry>-<last entry>.jsonl
//
// A file appears under its name when all of it is on the disk, and never changes; keeping a segment
// again replaces it by the same bytes. So all files of a folder together hold each entry once,
// whatever crashed meanwhile. Names that begin with a dot are of writes that were broken off, and can
// be removed. Safe for concurrent use, also by several processes.
type Directory struct{ path string }

// Open makes the directory where it is missing, and makes sure that files can be written there.
func Open(path string) (*Directory, error) {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return nil, err
	}
	probe, err := os.CreateTemp(path, ".probe-*")
	if err != nil {
		return nil, err
	}
	return &Directory{path: filepath.Clean(path)}, errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// line is an entry as written: the same members as in the feed's answers.
type line struct {
	Kind       ledger.FeedKind `json:"kind"`
	Bucket     string          `json:"bucket"`
	Entry      int64           `json:"entry"`
	RequestID  string          `json:"request_id"`
	RollbackID string          `json:"rollback_id,omitempty"`
	Cancelled  bool            `json:"cancelled,omitempty"`
	OfGroup    bool            `json:"of_group,omitempty"`
	Amount     int64           `json:"amount"`
	Held       bool            `json:"held"`
	Dimensions json.RawMessage `json:"dimensions,omitempty"`
	Reference  string          `json:"reference,omitempty"`
	At         time.Time       `json:"at"`
}

func lineOf(e *bucket.FeedEntry) line {
	l := line{Kind: e.Kind, Bucket: e.BucketKey, Entry: e.Entry, RequestID: e.RequestID,
		RollbackID: e.RollbackID, Amount: e.Amount, Held: e.Held, Reference: e.Reference, At: e.At.UTC()}
	if json.Valid([]byte(e.Dimensions)) {
		l.Dimensions = json.RawMessage(e.Dimensions)
	}
	switch e.RollbackID {
	case ledger.CancelID:
		l.RollbackID, l.Cancelled = "", true
	case ledger.GroupRollbackID:
		l.RollbackID, l.OfGroup = "", true
	}
	return l
}

// Keep writes a segment and waits until it is on the disk, with its name.
func (d *Directory) Keep(_ context.Context, s bucket.Segment) error {
	if len(s.Entries) == 0 {
		return nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	for i := range s.Entries {
		if err := encoder.Encode(lineOf(&s.Entries[i])); err != nil {
			return fmt.Errorf("entry %d of bucket %d: %w", s.Entries[i].Entry, s.Bound.Bucket, err)
		}
	}
	folder := filepath.Join(d.path, s.Bound.Tenant, fmt.Sprintf("%s.%d", s.Bound.Name, s.Bound.Budget), s.Day)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	name := fmt.Sprintf("%04d.%016d-%016d.jsonl", s.Bound.Ordinal, s.Entries[0].Entry,
		s.Entries[len(s.Entries)-1].Entry)
	if err := replace(filepath.Join(folder, name), text.Bytes()); err != nil {
		return err
	}
	for ; len(folder) >= len(d.path) && folder != "."; folder = filepath.Dir(folder) {
		if err := flush(folder); err != nil {
			return err
		}
		if folder == d.path {
			break
		}
	}
	return nil
}

// replace puts a file in the place of another, or of none, as a whole.
func replace(path string, text []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".writing-*")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Chmod(0o640), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// flush waits until the names in a folder are on the disk.
func flush(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
