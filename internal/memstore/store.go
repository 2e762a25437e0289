package memstore

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

var (
	_ bucket.Counter  = (*Store)(nil)
	_ bucket.Entries  = (*Store)(nil)
	_ bucket.Changes  = (*Store)(nil)
	_ bucket.Memories = (*Store)(nil)
	_ bucket.Copies   = (*Store)(nil)
)

// Config describes a store.
type Config struct {
	Name string
	// Partitions is the number of partitions, at least 1.
	Partitions int
	// Installation is written into markers.
	Installation string
	// Window is the record window; 0 means ten minutes.
	Window time.Duration
	// Now is the clock of every partition; nil means the system clock.
	Now func() time.Time
}

// Store is an instance in memory. It executes one call at a time and is safe for concurrent use.
type Store struct {
	config Config
	faults faults

	mu         sync.Mutex
	partitions []*partition
	runs       int // the number of identities so far
}

// New returns a store with empty partitions.
func New(config Config) *Store {
	if config.Window == 0 {
		config.Window = 10 * time.Minute
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	s := &Store{config: config}
	for range max(config.Partitions, 1) {
		s.partitions = append(s.partitions, newPartition(s.identity()))
	}
	return s
}

// identity returns a new identity.
func (s *Store) identity() string {
	s.runs++
	return fmt.Sprintf("run%d replication%d master", s.runs, s.runs)
}

// partition is the memory of one partition.
type partition struct {
	identity string
	marker   bucket.Marker
	// slice is the present slice, sliceMS its beginning.
	slice, sliceMS int64
	newest         map[int64]int64 // by bucket, the newest epoch
	entries        map[int64]entry
	versions       map[int64]int64 // of limits
	late           map[epochName]lateSum
	changed        map[epochName]bool // epoch 0: the entry
	records        map[int64]map[bucket.RecordID]bucket.Record
	notes          map[bucket.RecordID]note
	counters       map[valueName]counter
}

// epochName identifies an epoch of a bucket, valueName a value that limits count.
type (
	epochName struct{ bucket, epoch int64 }
	valueName struct {
		bucket int64
		value  string
	}
)

// lateSum has the units given back after the end of an epoch, and the slice in which the sum last
// grew.
type lateSum struct{ units, slice int64 }

func newPartition(identity string) *partition {
	return &partition{identity: identity, newest: map[int64]int64{},
		entries: map[int64]entry{}, versions: map[int64]int64{}, late: map[epochName]lateSum{},
		changed: map[epochName]bool{}, records: map[int64]map[bucket.RecordID]bucket.Record{},
		notes: map[bucket.RecordID]note{}, counters: map[valueName]counter{}}
}

// clone returns a copy. It shares only values that are never changed in place.
func (l *partition) clone() *partition {
	c := *l
	c.newest = maps.Clone(l.newest)
	c.entries = maps.Clone(l.entries)
	c.versions, c.late, c.changed = maps.Clone(l.versions), maps.Clone(l.late), maps.Clone(l.changed)
	c.notes, c.counters = maps.Clone(l.notes), maps.Clone(l.counters)
	c.records = map[int64]map[bucket.RecordID]bucket.Record{}
	for slice, records := range l.records {
		c.records[slice] = maps.Clone(records)
	}
	return &c
}

// nowMS returns the partition's clock.
func (s *Store) nowMS() int64 { return s.config.Now().UnixMilli() }

// at returns a partition of this store. The caller holds s.mu.
func (s *Store) at(op string, of bucket.Partition) (*partition, error) {
	if of.Instance != s.config.Name || of.Index < 0 || of.Index >= len(s.partitions) {
		return nil, budget.Refuse(budget.Unavailable, op, "instance %s has no partition %s",
			s.config.Name, of)
	}
	return s.partitions[of.Index], nil
}

// with executes a call on the memory that it names, subject to faults.
func with[T any](s *Store, op string, m bucket.Memory, do func(*partition) (T, error)) (T, error) {
	return faulty(s, op, func() (T, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		var none T
		l, err := s.at(op, m.Partition)
		if err != nil {
			return none, err
		}
		if l.identity != m.Identity || l.marker.Incarnation != m.Incarnation || m.Incarnation == 0 {
			return none, bucket.ErrOtherMemory
		}
		return do(l)
	})
}
