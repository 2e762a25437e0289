// Package row deducts in ledger mode: a deduction is accepted when its row is committed (I7).
package row
