package access

import (
	"sync"
	"sync/atomic"
)

// Book holds all keys in memory. Authenticate takes no lock and allocates nothing. A change costs
// as much as the keys that changed, however many there are. It is safe for concurrent use.
type Book struct {
	shards [shards]atomic.Pointer[map[string]*entry]
	// confirmedMS is when the database last confirmed the keys; 0 means never.
	confirmedMS atomic.Int64
	// staleAfterMS is the age in ms at which the keys become stale; 0 means never.
	staleAfterMS int64
	// mu excludes other changes.
	mu sync.Mutex
}

// shards is the number of maps that share the keys, so that a change copies a small one.
const shards = 1 << 10

type entry struct {
	key       Key
	principal *Principal
	// usedMS is the hour of the last use on this node, rounded down. notedMS is the one that the
	// database knows.
	usedMS, notedMS *atomic.Int64
}

// NewBook returns a book without keys. It refuses every key as Stale until the first Replace, and
// whenever its keys were not confirmed for longer than staleAfterMS, because a revocation may have
// been missed. With staleAfterMS 0 the keys are accepted at any age.
func NewBook(staleAfterMS int64) *Book { return &Book{staleAfterMS: staleAfterMS} }

// shardOf returns the shard of an id (FNV-1a).
func shardOf(id string) int {
	sum := uint32(2166136261)
	for i := range len(id) {
		sum = (sum ^ uint32(id[i])) * 16777619
	}
	return int(sum % shards)
}

// find returns the entry of an id, or nil.
func (b *Book) find(id string) *entry {
	shard := b.shards[shardOf(id)].Load()
	if shard == nil {
		return nil
	}
	return (*shard)[id]
}

// Replace installs keys in place of all earlier ones. readMS is when the read began. The recorded
// use of keys is kept.
func (b *Book) Replace(keys []Key, readMS int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := make([]map[string]*entry, shards)
	for i := range next {
		next[i] = make(map[string]*entry)
	}
	for i := range keys {
		next[shardOf(keys[i].ID)][keys[i].ID] = b.entryOf(&keys[i])
	}
	for i := range next {
		b.shards[i].Store(&next[i])
	}
	b.confirmedMS.Store(readMS)
}

// Update installs keys that were added or changed, and removes those with the ids in gone. It does
// not confirm the others.
func (b *Book) Update(changed []Key, gone []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := make(map[int]map[string]*entry)
	shard := func(id string) map[string]*entry {
		n := shardOf(id)
		if next[n] == nil {
			next[n] = b.copyOf(n)
		}
		return next[n]
	}
	for i := range changed {
		shard(changed[i].ID)[changed[i].ID] = b.entryOf(&changed[i])
	}
	for _, id := range gone {
		delete(shard(id), id)
	}
	for n, entries := range next {
		b.shards[n].Store(&entries)
	}
}

// copyOf copies a shard. The caller holds mu.
func (b *Book) copyOf(n int) map[string]*entry {
	out := make(map[string]*entry)
	if now := b.shards[n].Load(); now != nil {
		for id, e := range *now {
			out[id] = e
		}
	}
	return out
}

// entryOf returns the entry of a key, with the use that is recorded already.
func (b *Book) entryOf(key *Key) *entry {
	e := &entry{key: *key, principal: key.PrincipalOf(), usedMS: new(atomic.Int64),
		notedMS: new(atomic.Int64)}
	if previous := b.find(key.ID); previous != nil {
		e.usedMS, e.notedMS = previous.usedMS, previous.notedMS
	} else {
		e.usedMS.Store(key.LastUsedMS)
	}
	e.notedMS.Store(max(e.notedMS.Load(), key.LastUsedMS))
	return e
}

// maxDead bounds the keys in memory that are revoked or expired.
const maxDead = 100_000

// Forget removes keys that were revoked or expired before an instant; they are refused as Unknown
// from then on. If more than 100,000 others have ended until nowMS, it removes those too, so that
// keys that are made and ended all the time do not fill the memory.
func (b *Book) Forget(beforeMS, nowMS int64) { b.forget(beforeMS, nowMS, maxDead) }

func (b *Book) forget(beforeMS, nowMS int64, most int) {
	var long, dead []string
	b.each(func(e *entry) {
		switch {
		case e.key.EndedBefore(beforeMS):
			long = append(long, e.key.ID)
		case e.key.Check(nowMS) != Accepted:
			dead = append(dead, e.key.ID)
		}
	})
	if len(dead) > most {
		long = append(long, dead...)
	}
	if len(long) > 0 {
		b.Update(nil, long)
	}
}

// each calls do with every entry.
func (b *Book) each(do func(*entry)) {
	for i := range b.shards {
		if shard := b.shards[i].Load(); shard != nil {
			for _, e := range *shard {
				do(e)
			}
		}
	}
}

// Confirm records that the database had these keys at readMS.
func (b *Book) Confirm(readMS int64) {
	if b.confirmedMS.Load() != 0 {
		b.confirmedMS.Store(readMS)
	}
}

// Authenticate returns the principal that a token stands for at an instant. For any other token it
// returns the reason: Malformed, Mistyped, Stale, Unknown, WrongSecret, Revoked or Expired. Unknown
// and WrongSecret take the same time. A key that is not in a book that the database has not
// confirmed for a few seconds is Stale: it may be new. It records the use of the key, to the hour.
func (b *Book) Authenticate(text string, nowMS int64) (*Principal, Reason) {
	token, reason := ParseToken(text)
	if reason != Accepted {
		return nil, reason
	}
	confirmed := b.confirmedMS.Load()
	if confirmed == 0 || b.staleAfterMS > 0 && nowMS-confirmed > b.staleAfterMS {
		return nil, Stale
	}
	found := b.find(token.ID())
	known := found != nil
	if !known {
		found = &nobody
	}
	// Compare for an unknown id as well, so that it takes as long.
	if right := token.Hash().Equal(found.key.Hash); !known || !right {
		switch {
		case !known && nowMS-confirmed > newKeysMS:
			return nil, Stale
		case !known:
			return nil, Unknown
		}
		return nil, WrongSecret
	}
	if reason := found.key.Check(nowMS); reason != Accepted {
		return nil, reason
	}
	if hour := nowMS - nowMS%HourMS; found.usedMS.Load() < hour {
		found.usedMS.Store(hour)
	}
	return found.principal, Accepted
}

// newKeysMS is the age of a book that may lack keys. A loop confirms it several times as often.
const newKeysMS = 5_000

// nobody stands in for a key that does not exist.
var nobody entry

// Used returns the hour of the last use on this node of at most `most` keys that were used since
// the use the database knows, in milliseconds by key id.
func (b *Book) Used(most int) map[string]int64 {
	out := map[string]int64{}
	b.each(func(e *entry) {
		if used := e.usedMS.Load(); used > e.notedMS.Load() && len(out) < most {
			out[e.key.ID] = used
		}
	})
	return out
}

// Noted records that the database knows these uses.
func (b *Book) Noted(used map[string]int64) {
	for id, ms := range used {
		if e := b.find(id); e != nil {
			e.notedMS.Store(max(e.notedMS.Load(), ms))
		}
	}
}

// Len returns the number of keys.
func (b *Book) Len() int {
	n := 0
	b.each(func(*entry) { n++ })
	return n
}
