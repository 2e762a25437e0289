package ring

import "math"

// The 32-bit parameters of FNV-1a, by Fowler, Noll and Vo
// (http://www.isthe.com/chongo/tech/comp/fnv/).
const (
	fnvOffset = 2166136261 - 1<<32 // the offset basis as a signed 32-bit number
	fnvPrime  = 16777619
)

// Hash maps s to a place on the circle, a number in 0 … 2147483647: FNV-1a over the UTF-16 code
// units of s in signed 32-bit arithmetic, then five mixing steps, then the absolute value. It is
// bit-exact with testdata/hash.tsv: Hash("") is 1494218850, Hash("a") is 649470159.
//
// A byte of s that is not part of valid UTF-8 counts as one U+FFFD, so every string has a hash;
// strings that differ only in such bytes share theirs. Nothing is normalised: the two ways to write
// é are two keys. The hash is not cryptographic: callers who choose keys can choose their places.
//
// It does not allocate and is safe for concurrent use.
func Hash(s string) uint32 {
	return absolute(mix(fnv(fnvOffset, s)))
}

// fnv continues the FNV-1a state h over the UTF-16 code units of s. One step takes a whole code
// unit, where plain FNV-1a takes a byte; for ASCII there is no difference.
func fnv(h int32, s string) int32 {
	const (
		firstSupplementary = 0x10000 // from here on, a code point is two code units
		highSurrogate      = 0xD800
		lowSurrogate       = 0xDC00
	)
	for _, c := range s { // yields U+FFFD for each bad byte
		if c >= firstSupplementary {
			c -= firstSupplementary
			h = (h ^ (highSurrogate + c>>10)) * fnvPrime
			c = lowSurrogate + c&0x3FF
		}
		h = (h ^ c) * fnvPrime
	}
	return h
}

// mix spreads every bit of h over the word. Without it, labels that differ in their last
// characters stay close together on the circle. The shifts to the right are arithmetic, as the
// vectors demand: h ^= h>>7 and h ^= h>>17 leave a number that is not negative.
func mix(h int32) int32 {
	h += h << 13
	h ^= h >> 7
	h += h << 3
	h ^= h >> 17
	h += h << 5
	return h
}

// absolute returns the absolute value of h. MinInt32, which has no positive counterpart in 32 bits,
// gives 0.
func absolute(h int32) uint32 {
	if h < 0 {
		h = -h
	}
	return uint32(h) & math.MaxInt32
}
