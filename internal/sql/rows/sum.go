package rows

import (
	"strconv"

	"github.com/budgetd/budgetd/budget"
)

// Sum returns the SQL that sums a column of S or H over epochs and stops at budget.MaxAmount. Each
// epoch of an unlimited budget stops there too, and the plain sum of 1,025 of those is more than 64
// bits hold. So the column is summed in two parts of 33 and 20 bits.
func Sum(column string) string {
	high, most := "SUM("+column+" >> 20)", strconv.FormatInt(budget.MaxAmount, 10)
	return "CASE WHEN " + high + " >= 8589934592 THEN " + most + " ELSE " + high +
		" * 1048576 + SUM(" + column + " & 1048575) END"
}
