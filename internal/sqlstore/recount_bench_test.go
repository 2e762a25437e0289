package sqlstore

import (
	"fmt"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// BenchmarkRecount counts one part of 5,000 rows, a tenth of them rolled back, of an epoch of 100,000:
// what the audit's recount costs per row. s/million says how long a million takes at full speed.
func BenchmarkRecount(b *testing.B) {
	for _, engine := range engines() {
		b.Run(engine.name, func(b *testing.B) { benchmarkRecount(b, engine.open(b)) })
	}
}

func benchmarkRecount(b *testing.B, db *DB) {
	const rows, part = 100_000, 5_000
	v := openBudget(b, db, "b", 1<<50, 1)
	ref := v.Buckets[0].Ref()
	fillEpoch(b, db, v.ID, ref, rows)
	counted, from := 0, int64(0)
	for b.Loop() {
		r, found, err := db.Recount(b.Context(), bucket.Part{Ref: ref, From: from, UpTo: from + part})
		if err != nil || !found || r.Figures.Deducted != part || r.Figures.Noted != part/10 ||
			r.Returned != part/10 {
			b.Fatalf("%+v, found %v, %v", r, found, err)
		}
		counted += part
		from = (from + part) % rows
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(counted), "s/million")
}

// fillEpoch inserts deductions of one unit and rolls back every tenth, as rows only.
func fillEpoch(b *testing.B, db *DB, budgetID int64, ref bucket.Ref, rows int64) {
	b.Helper()
	err := db.write(b.Context(), "fill", func(t *tx) error {
		var made, back []any
		for seq := int64(1); seq <= rows; seq++ {
			id, noted := []byte(fmt.Sprintf("order-%016x", seq*7919*7919)), 0
			if seq%10 == 0 {
				noted = 1
				back = append(back, budgetID, id, []byte{}, 1, 1, ref.Bucket, ref.Epoch, rows+seq, 0)
			}
			made = append(made, budgetID, id, string(ledger.StateUsed), 1, []byte("0123456789abcdef"),
				[]byte("nonce678"), ref.Bucket, ref.Epoch, seq, seq, 0, noted)
		}
		if err := t.insert(insertDeduction+", rolled_back)", deductionWidth+1, made); err != nil {
			return err
		}
		return t.insert(`INSERT INTO rollback_log (budget_id, request_id, rollback_id, amount, is_whole,
			bucket_id, epoch, entry, created_at)`, 9, back)
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRecountBesideHolds recounts an epoch that has no rows while 100,000 holds of another one are
// open: the recount of
// each epoch finds its own by index.
func BenchmarkRecountBesideHolds(b *testing.B) {
	for _, engine := range engines() {
		b.Run(engine.name, func(b *testing.B) {
			const holds = 100_000
			db := engine.open(b)
			v := openBudget(b, db, "b", 1<<50, 2)
			held, counted := v.Buckets[0].Ref(), v.Buckets[1].Ref()
			fillEpoch(b, db, v.ID, held, holds)
			err := db.write(b.Context(), "hold", func(t *tx) error {
				until := toMS(t.now) + 3_600_000
				err := t.hit(holds, `UPDATE deduction SET state = 'held', hold_until_ms = ? WHERE budget_id = ?`,
					until, v.ID)
				if err != nil {
					return err
				}
				return t.hit(holds, `INSERT INTO open_hold (budget_id, request_id, due_ms, bucket_id, epoch)
					SELECT budget_id, request_id, ?, bucket_id, epoch FROM deduction WHERE budget_id = ?`, until, v.ID)
			})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				r, found, err := db.Recount(b.Context(), bucket.Part{Ref: counted, UpTo: 1 << 40, End: true})
				if err != nil || !found || r.Figures.Deducted != 0 || r.Figures.Held != 0 {
					b.Fatalf("%+v, found %v, %v", r, found, err)
				}
			}
		})
	}
}
