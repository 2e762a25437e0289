package bucket

import "sync/atomic"

// recentIDs remembers request ids that were committed lately, so that their repetitions are answered from the ledger without
// a store. An id's hash says which of the places is its own, so a new id takes the place of one that was remembered
// before: of the last n some four in five are, of the last n/10 all but a few. An LRU would take 170 bytes in several objects
// for each, through which the collector looks; a place is 8 bytes. An id that was forgotten is executed again and
// found to be a duplicate; one that is taken for another, where 64 bits of their hashes agree, is looked up in vain. Safe
// for concurrent use.
type recentIDs struct{ places []atomic.Uint64 }

// newRecentIDs remembers about n ids, at least one.
func newRecentIDs(n int) recentIDs {
	const each = 4
	places := 1
	for places < each*n {
		places *= 2
	}
	return recentIDs{make([]atomic.Uint64, places)}
}

func (r recentIDs) add(id ID) {
	h := id.hash()
	r.places[h&uint64(len(r.places)-1)].Store(h)
}

func (r recentIDs) has(id ID) bool {
	h := id.hash()
	return r.places[h&uint64(len(r.places)-1)].Load() == h
}

// hash is FNV-1a over the budget's number and the request id, never 0. http://www.isthe.com/chongo/tech/comp/fnv/
func (id ID) hash() uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := (uint64(offset) ^ uint64(id.Budget)) * prime //nolint:gosec // as bits
	for i := range len(id.RequestID) {
		h = (h ^ uint64(id.RequestID[i])) * prime
	}
	return max(h^h>>32, 1) // the low bits choose the place
}
