package redisstore

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/redisstore/driver"
)

// mostTogether is the most elements of one run of a script: Lua's stack bounds the arguments of one
// command, and a longer run would delay the other clients of the server.
const mostTogether = 1000

// Set implements bucket.Filter.
func (s *Store) Set(ctx context.Context, partition bucket.Partition, levels []bucket.Level) error {
	const op = "fill a filter"
	for len(levels) > 0 {
		n := min(len(levels), mostTogether)
		now := levels[:n]
		levels = levels[n:]
		arg := make(packer, 0, 16+32*n).array(4)
		arg = decimals(arg, 0, n, func(i int) int64 { return now[i].Bucket })
		arg = numbers(arg, 0, n, func(i int) int64 { return now[i].Fill })
		arg = numbers(arg, 0, n, func(i int) int64 { return now[i].Outstanding })
		arg = numbers(arg, 0, n, func(i int) int64 { return now[i].Added })
		if _, err := s.filter(ctx, op, partition, filterSet, arg); err != nil {
			return err
		}
	}
	return nil
}

// Take implements bucket.Filter. A call with many amounts runs the script several times; if a later
// run fails, the filter has lost what the earlier ones took until the next fill.
func (s *Store) Take(ctx context.Context, partition bucket.Partition,
	takes []bucket.Take) ([]bucket.Taken, error) {
	out := make([]bucket.Taken, 0, len(takes))
	for len(takes) > 0 {
		n, amounts := 0, 0
		for n < len(takes) &&
			(n == 0 || amounts+len(takes[n].Amounts) <= mostTogether && n < mostTogether) {
			amounts += len(takes[n].Amounts)
			n++
		}
		taken, err := s.take(ctx, partition, takes[:n], amounts)
		if err != nil {
			return nil, err
		}
		out, takes = append(out, taken...), takes[n:]
	}
	return out, nil
}

// take runs the script once.
func (s *Store) take(ctx context.Context, partition bucket.Partition, takes []bucket.Take,
	amounts int) ([]bucket.Taken, error) {
	const op = "take from a filter"
	n := len(takes)
	arg := make(packer, 0, 16+24*n+5*amounts).array(5).array(n)
	for i := range takes {
		arg = arg.decimal(takes[i].Bucket)
	}
	arg = arg.array(n)
	for i := range takes {
		arg = arg.number(takes[i].Fill)
	}
	arg = arg.array(n)
	for i := range takes {
		arg = arg.number(takes[i].Back)
	}
	arg = arg.array(n)
	for i := range takes {
		arg = arg.number(int64(len(takes[i].Amounts)))
	}
	arg = arg.array(amounts)
	for i := range takes {
		for _, amount := range takes[i].Amounts {
			arg = arg.number(amount)
		}
	}
	answer, err := s.filter(ctx, op, partition, filterTake, arg)
	if err != nil {
		return nil, err
	}
	values, ok := integers(answer)
	if !ok || len(values) < 2*n {
		return nil, strange(op, partition, answer)
	}
	out, fits := make([]bucket.Taken, n), make([]bool, amounts)
	for i := range fits {
		fits[i] = true
	}
	for _, place := range values[2*n:] {
		if place < 1 || place > int64(amounts) {
			return nil, strange(op, partition, answer)
		}
		fits[place-1] = false
	}
	for i := range takes {
		count := len(takes[i].Amounts)
		out[i] = bucket.Taken{
			Stale:   values[2*i] < 0,
			Fill:    values[2*i],
			Balance: values[2*i+1],
			Fits:    fits[:count:count],
		}
		if out[i].Stale {
			out[i].Fill = 0
			clear(out[i].Fits)
		}
		fits = fits[count:]
	}
	return out, nil
}

// filter runs a script on the key of a partition's filter.
func (s *Store) filter(ctx context.Context, op string, partition bucket.Partition,
	script *driver.Script, arg packer) (
	any, error) {
	if err := s.Known(op, partition); err != nil {
		return nil, err
	}
	k := s.keys[partition.Index]
	return s.Run(ctx,
		driver.Call{Op: op, Partition: partition, Script: script, Keys: k.filter,
			Args: []any{[]byte(arg)}})
}
