package bucket

import "time"

// OpenHold is a hold that is neither confirmed, rolled back nor expired.
type OpenHold struct {
	RequestID, Group string
	// Amount is what it still holds, in minor units.
	Amount    int64
	BucketKey string
	// At is when it was made, Until when it expires.
	At, Until time.Time
}
