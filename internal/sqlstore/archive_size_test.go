package sqlstore

import (
	"fmt"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/testservers"
	"github.com/budgetd/budgetd/ledger"
)

// BenchmarkTombstone measures what a deduction takes on disk, with its indexes, before and after it is
// archived: the figures of docs/adr/0005-archiving.md. Run with -benchtime 1x.
func BenchmarkTombstone(b *testing.B) {
	const rows = 20_000
	measure := func(b *testing.B, db *DB, compact string, size string) {
		v := openBudget(b, db, "b", 10*rows, 1)
		log := newLog(v.Buckets[0].Ref())
		log.grant(10*rows, 1)
		bytes := func() float64 {
			var n int64
			for _, text := range []string{compact, size} {
				err := db.read(b.Context(), "size", func(r *reader) error {
					_, err := r.get(&n, text)
					return err
				})
				if err != nil && text == size {
					b.Fatal(err)
				}
			}
			return float64(n)
		}
		empty := bytes()
		for n := range rows {
			r := request(1, fmt.Sprintf("order-%08d-5f3a", n)) // 19 bytes
			r.Reference, r.Dimensions = "spring campaign", `{"country":"de","user":"u-1234567"}`
			log.add(ledger.Line(ledger.KindDeduct, 1, ledger.EncodeRequest(r)))
			if len(log.entries)%500 == 0 || n == rows-1 {
				from := max(0, len(log.entries)-501)
				if _, err := db.Commit(b.Context(), []ledger.Log{log.log(int64(from))}); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric((bytes()-empty)/rows, "bytes/deduction")
		for after := int64(0); after < rows; after += 500 {
			span := bucket.FeedSpan{Bucket: v.Buckets[0].ID, After: after, UpTo: after + 500}
			if _, err := db.BeginArchive(b.Context(), span.Bucket, after, span.UpTo); err != nil {
				b.Fatal(err)
			}
			if done, err := db.EndArchive(b.Context(), span); err != nil || !done {
				b.Fatal(done, err)
			}
		}
		b.ReportMetric((bytes()-empty)/rows, "bytes/tombstone")
	}
	b.Run("sqlite", func(b *testing.B) {
		measure(b, openFile(b, nil), `SELECT 0`, `SELECT SUM(pgsize - unused) FROM dbstat
			WHERE name IN (SELECT name FROM sqlite_master WHERE tbl_name = 'deduction')`)
	})
	b.Run("mariadb", func(b *testing.B) {
		db := mustOpen(b, Config{Driver: "mysql", DSN: testservers.SharedMariaDB(b).NewDatabase(b)})
		measure(b, db, `OPTIMIZE TABLE deduction`, `SELECT SUM(data_length + index_length) FROM information_schema.tables
			WHERE table_schema = DATABASE() AND table_name = 'deduction'`)
	})
}
