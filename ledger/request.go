package ledger

// Request is what a ledger row keeps of a deduct request beside its place. Texts that may be empty
// are "" then.
type Request struct {
	ID string
	// Amount is in minor units, 1 … budget.MaxAmount.
	Amount int64
	// Fingerprint is 16 bytes: see RequestFingerprint.
	Fingerprint string
	// Nonce is 8 random bytes of one HTTP call, kept across its inner retries: a row that carries it
	// is the call's own.
	Nonce     string
	Reference string
	// Dimensions is the canonical JSON of the dimensions.
	Dimensions string
	// HoldTTL makes a hold of it: how long it lasts from its commit, in milliseconds; 0 stands for a
	// deduction that is used at once.
	HoldTTL int64
	// Group names the holds that are confirmed or rolled back together.
	Group string
	// Counts is the canonical JSON of own amounts for single limits.
	Counts string
	// By is the principal that deducts, "" on a server that authenticates nobody. It is not part of
	// the fingerprint: a repeat may come from another principal.
	By string
}
