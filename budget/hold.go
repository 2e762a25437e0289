package budget

import "time"

// MinHoldTTL and MaxHoldTTL bound how long a hold lasts; it is kept in whole milliseconds.
const MinHoldTTL, MaxHoldTTL = time.Millisecond, 366 * 24 * time.Hour

// ValidHoldTTL reports whether a hold may last that long.
func ValidHoldTTL(ttl time.Duration) bool {
	return ttl >= MinHoldTTL && ttl <= MaxHoldTTL && ttl%time.Millisecond == 0
}
