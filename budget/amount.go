package budget

import "strconv"

// MaxAmount is the largest amount or quantity, 2^53 - 1 minor units. JSON readers, Lua scripts and
// SQL's BIGINT all represent every integer up to it exactly.
const MaxAmount int64 = 1<<53 - 1

// ParseAmount parses a decimal amount of 1 … MaxAmount minor units, which must match
// `^[1-9][0-9]{0,15}$`: no sign, no leading zero, no fraction, no exponent. ok is false for
// anything else. The text is checked before it is converted, so rounding cannot hide a value out of
// range.
func ParseAmount(text string) (amount int64, ok bool) {
	if len(text) == 0 || len(text) > 16 || text[0] == '0' {
		return 0, false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
	}
	amount, err := strconv.ParseInt(text, 10, 64)
	if err != nil || amount > MaxAmount {
		return 0, false
	}
	return amount, true
}

// ValidAmount reports whether amount is within 1 … MaxAmount.
func ValidAmount(amount int64) bool { return amount >= 1 && amount <= MaxAmount }
