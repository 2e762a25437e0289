package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/redisstore/driver"
)

var (
	_ bucket.Counter   = (*Store)(nil)
	_ bucket.Entries   = (*Store)(nil)
	_ bucket.Changes   = (*Store)(nil)
	_ bucket.Memories  = (*Store)(nil)
	_ bucket.Copies    = (*Store)(nil)
	_ bucket.Inspected = (*Store)(nil)
)

// Config identifies the Redis of an instance and bounds the waits for it.
type Config = driver.Config

// Sentinels identifies a group of sentinels and the master that they watch.
type Sentinels = driver.Sentinels

// Store is one Redis instance with its partitions. It is safe for concurrent use.
type Store struct {
	*driver.Instance
	keys   []*keyset // by partition
	sweeps []sweeper // by partition
}

// New returns a store without connecting. It returns Invalid with every faulty field.
func New(config Config) (*Store, error) {
	instance, err := driver.New(config)
	if err != nil {
		return nil, err
	}
	s := &Store{Instance: instance, sweeps: make([]sweeper, config.Partitions)}
	for i := range config.Partitions {
		s.keys = append(s.keys, newKeyset(instance.Prefix(bucket.Partition{Instance: config.Name,
			Index: i})))
	}
	return s, nil
}

// mostTogether is the most elements of one run of a script: Lua's stack bounds the arguments of one
// command, and a longer run would delay the other clients of the server.
const mostTogether = 1000

// call runs a script: the memory's arguments precede those given.
func (s *Store) call(ctx context.Context, op string, m bucket.Memory, script *driver.Script,
	keys []string, args ...any) (any, error) {
	all := append(
		[]any{s.Config().InstallationID, m.Incarnation, driver.ReplicationID(m.Identity)},
		args...)
	return s.Run(ctx,
		driver.Call{Op: op, Partition: m.Partition, Identity: m.Identity, Script: script, Keys: keys,
			Args: all})
}

// keysOf returns the keys of the partition of a memory. Errors: Unavailable, Invalid.
func (s *Store) keysOf(op string, m bucket.Memory) (*keyset, error) {
	if err := s.Known(op, m.Partition); err != nil {
		return nil, err
	}
	if !budget.ValidAmount(m.Incarnation) || m.Identity == "" {
		return nil, budget.Refuse(budget.Invalid, op, "incarnation %d of %q names no memory",
			m.Incarnation, m.Identity)
	}
	return s.keys[m.Partition.Index], nil
}

// mostSlices is how often a call is repeated because the slice of the records advanced.
const mostSlices = 3

// sliced makes a call that needs the keys of the present slice, and repeats it with another slice
// when the script says so, in which case it did nothing.
func (s *Store) sliced(op string, m bucket.Memory, k *keyset,
	try func(slice int64) (any, error)) (any, error) {
	for range mostSlices {
		answer, err := try(k.slice.Load())
		var told *driver.Rejection
		if !errors.As(err, &told) {
			return answer, err
		}
		slice, parseErr := strconv.ParseInt(told.Text, 10, 64)
		if parseErr != nil {
			return nil, strange(op, m.Partition, told.Text)
		}
		k.slice.Store(slice)
	}
	return nil, budget.Refuse(budget.Unavailable, op, "the records of partition %s advance too fast",
		m.Partition)
}

// strange returns the error for an answer of an unknown form.
func strange(op string, partition bucket.Partition, answer any) error {
	return &budget.Error{Code: budget.OutcomeUnknown, Op: op, Message: fmt.Sprintf(
		"partition %s answered a script with %.200s", partition, fmt.Sprint(answer))}
}

// inParts calls do for at most mostTogether elements at a time. If a later part fails, an earlier
// one is already done, so a "not done" error becomes OutcomeUnknown.
func inParts(op string, n int, do func(from, to int) error) error {
	for from := 0; from < n; from += mostTogether {
		if err := do(from, min(from+mostTogether, n)); err != nil {
			if from > 0 && !budget.Is(err, budget.OutcomeUnknown) {
				return &budget.Error{
					Code:    budget.OutcomeUnknown,
					Op:      op,
					Err:     err,
					Message: "a part of the call was done",
				}
			}
			return err
		}
	}
	return nil
}

// integers reads an answer of integers only.
func integers(answer any) ([]int64, bool) {
	list, ok := answer.([]any)
	if !ok {
		return nil, false
	}
	out := make([]int64, len(list))
	for i, v := range list {
		if out[i], ok = v.(int64); !ok {
			return nil, false
		}
	}
	return out, true
}
