package ledger

// Request is the payload of a deduct request in a ledger row. Optional texts may be "".
type Request struct {
	ID string
	// Amount is in minor units, 1 … budget.MaxAmount.
	Amount int64
	// Fingerprint is 16 bytes: see RequestFingerprint.
	Fingerprint string
	// Nonce is 8 random bytes of one HTTP call, kept across its inner retries. It identifies a row
	// as the call's own.
	Nonce     string
	Reference string
	// Dimensions is the canonical JSON of the dimensions.
	Dimensions string
	// HoldTTL is the lifetime of a hold from its commit, in milliseconds. 0 means that the units are
	// used at once.
	HoldTTL int64
	// Group names holds that are confirmed or rolled back together.
	Group string
	// Above is AboveAvailable or "".
	Above Above
	// Counts is the canonical JSON of the request's own amounts per limit.
	Counts string
	// By is the principal that deducts, "" on a server without authentication. It is not part of
	// the fingerprint: another principal may repeat the request.
	By string
}
