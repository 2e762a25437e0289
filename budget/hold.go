package budget

import "time"

// MinHoldTTL and MaxHoldTTL bound the lifetime of a hold, which is stored in whole milliseconds.
const MinHoldTTL, MaxHoldTTL = time.Millisecond, 366 * 24 * time.Hour

// ValidHoldTTL reports whether ttl is within MinHoldTTL … MaxHoldTTL and in whole milliseconds.
func ValidHoldTTL(ttl time.Duration) bool {
	return ttl >= MinHoldTTL && ttl <= MaxHoldTTL && ttl%time.Millisecond == 0
}
