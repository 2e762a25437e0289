package access

import (
	"maps"
	"sync/atomic"
)

// Book holds all keys in memory. Authenticate takes no lock and allocates nothing; Replace swaps in
// a new generation atomically. It is safe for concurrent use.
type Book struct {
	current atomic.Pointer[generation]
	// staleAfterMS is the age in ms at which a generation becomes stale; 0 means never.
	staleAfterMS int64
}

// generation is the keys of one read of the database.
type generation struct {
	entries map[string]*entry
	// confirmedMS is when the database last confirmed the keys.
	confirmedMS atomic.Int64
}

type entry struct {
	key       Key
	principal *Principal
	// usedMS is the hour of the last use on this node, rounded down.
	usedMS *atomic.Int64
}

// NewBook returns a book without keys. It refuses every key as Stale until the first Replace, and
// whenever its keys were not confirmed for longer than staleAfterMS, because a revocation may have
// been missed. With staleAfterMS 0 the keys are accepted at any age.
func NewBook(staleAfterMS int64) *Book { return &Book{staleAfterMS: staleAfterMS} }

// Replace installs keys in place of all earlier ones. readMS is when the read began. The recorded
// use of keys is kept.
func (b *Book) Replace(keys []Key, readMS int64) {
	next := &generation{entries: make(map[string]*entry, len(keys))}
	next.confirmedMS.Store(readMS)
	previous := b.current.Load()
	for _, key := range keys {
		used := new(atomic.Int64)
		used.Store(key.LastUsedMS)
		if previous != nil && previous.entries[key.ID] != nil {
			used = previous.entries[key.ID].usedMS
		}
		next.entries[key.ID] = &entry{key: key, principal: key.PrincipalOf(), usedMS: used}
	}
	b.current.Store(next)
}

// Confirm records that the database still had these keys at readMS.
func (b *Book) Confirm(readMS int64) {
	if now := b.current.Load(); now != nil {
		now.confirmedMS.Store(readMS)
	}
}

// Authenticate returns the principal that a token stands for at an instant. For any other token it
// returns the reason: Malformed, Mistyped, Stale, Unknown, WrongSecret, Revoked or Expired. Unknown
// and WrongSecret take the same time. It records the use of the key, to the hour.
//
// The checksum serves people and scanners. It is not checked if the secret is right, which halves
// the time of a call.
func (b *Book) Authenticate(text string, nowMS int64) (*Principal, Reason) {
	if !shaped(text) {
		return nil, Malformed
	}
	now := b.current.Load()
	if now == nil || b.staleAfterMS > 0 && nowMS-now.confirmedMS.Load() > b.staleAfterMS {
		return nil, refusalOf(text, Stale)
	}
	token := Token{text}
	found, known := now.entries[token.ID()]
	if !known {
		found = &nobody
	}
	// Compare for an unknown id as well, so that it takes as long.
	if right := token.Hash().Equal(found.key.Hash); !known || !right {
		if !known {
			return nil, refusalOf(text, Unknown)
		}
		return nil, refusalOf(text, WrongSecret)
	}
	if reason := found.key.Check(nowMS); reason != Accepted {
		return nil, reason
	}
	if hour := nowMS - nowMS%HourMS; found.usedMS.Load() < hour {
		found.usedMS.Store(hour)
	}
	return found.principal, Accepted
}

// refusalOf returns Malformed or Mistyped for a text that is not a token, else otherwise.
func refusalOf(text string, otherwise Reason) Reason {
	if _, reason := ParseToken(text); reason != Accepted {
		return reason
	}
	return otherwise
}

// nobody stands in for a key that does not exist.
var nobody = entry{usedMS: new(atomic.Int64)}

// Used returns the hour of the last use on this node of every key that was used since the use the
// database knows, in milliseconds by key id.
func (b *Book) Used() map[string]int64 {
	out := map[string]int64{}
	now := b.current.Load()
	if now == nil {
		return out
	}
	for id, found := range maps.All(now.entries) {
		if used := found.usedMS.Load(); used > found.key.LastUsedMS {
			out[id] = used
		}
	}
	return out
}

// Len returns the number of keys.
func (b *Book) Len() int {
	if now := b.current.Load(); now != nil {
		return len(now.entries)
	}
	return 0
}
