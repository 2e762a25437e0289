package redisstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

var _ bucket.Counters = (*Store)(nil)

// mostValueBytes is how long a value may be to be a field itself: with it and its counter below
// hash-max-listpack-value a page stays one piece of memory.
const mostValueBytes = 48

// fieldOf returns the field of a value in a page: two values never share one.
func fieldOf(value string) string {
	if len(value) <= mostValueBytes {
		return "=" + value
	}
	sum := sha256.Sum256([]byte(value))
	return "#" + string(sum[:20])
}

// loadedText writes what the ledger has of a counter as limits.lua keeps it.
func loadedText(n *bucket.Count) string {
	l := n.Loaded
	switch n.Window.Kind {
	case budget.WindowSliding:
		slots := slices.Clone(l.Slots)
		slices.SortFunc(slots, func(a, b bucket.CountSlot) int { return cmp.Compare(a.Begin, b.Begin) })
		parts, before := make([]string, len(slots)), int64(0)
		for i, slot := range slots {
			number := slot.Begin / n.Window.Slot
			parts[i] = strconv.FormatInt(number-before, 10) + ":" + strconv.FormatInt(slot.Used, 10)
			before = number
		}
		return strings.Join(parts, " ")
	case budget.WindowFirstHit:
		return strconv.FormatInt(l.Used, 10) + " " + strconv.FormatInt(l.Began, 16)
	}
	return strconv.FormatInt(l.Used, 10)
}

// told reads what deduct.lua tells of operations' limits, one after the other.
type told struct {
	text string
	now  int64
	cut  bool // it was too short
	// counts and states are room for what is read.
	counts []bucket.Counted
	states []bucket.CountState
}

func toldOf(now int64, text string, operations int) told {
	t := told{text: text, now: now}
	if text != "" {
		t.counts = make([]bucket.Counted, 0, operations)
		t.states = make([]bucket.CountState, 0, len(text)/8)
	}
	return t
}

func (t *told) next() int64 {
	if len(t.text) < 8 {
		t.cut = true
		return 0
	}
	n := int64At(t.text, 0)
	t.text = t.text[8:]
	return n
}

// counted returns what is told of an operation that counts; nil where nothing is.
func (t *told) counted(verdict bucket.Verdict, c *bucket.Counting) *bucket.Counted {
	out := bucket.Counted{Now: t.now, Over: -1}
	switch verdict {
	case bucket.OverLimit:
		out.Over = int(t.next())
		t.cut = t.cut || out.Over < 0 || out.Over >= len(c.Counts)
		fallthrough
	case bucket.OK:
		out.Limits = t.limits(c.Counts)
	case bucket.Unloaded:
		out.Marks = make([]int64, len(c.Counts))
		for j := range out.Marks {
			out.Marks[j] = t.next()
		}
	case bucket.Outdated:
	default:
		return nil
	}
	t.counts = append(t.counts, out)
	return &t.counts[len(t.counts)-1]
}

// limits reads how far limits are used.
func (t *told) limits(counts []bucket.Count) []bucket.CountState {
	first := len(t.states)
	for j := range counts {
		w := &counts[j].Window
		state := bucket.CountState{Used: t.next(), Reset: w.End} // 0 of a lifetime
		if inGenerations(w.Kind) {
			state.Reset = t.next()
		}
		t.states = append(t.states, state)
	}
	return t.states[first:len(t.states):len(t.states)]
}

// Unload forgets counters. See bucket.Counters.
func (s *Store) Unload(ctx context.Context, at bucket.Lane, orders []bucket.Unloading) error {
	const op = "unload"
	for i := range orders {
		if err := orders[i].Check(); err != nil {
			return err
		}
	}
	if len(orders) == 0 {
		return nil
	}
	l, err := s.find(op, at)
	if err != nil {
		return err
	}
	keys, argv := make([]any, 0, len(orders)), make([]any, 0, len(orders))
	for i := range orders {
		c := &orders[i].Counting
		keys = append(keys, countersKey(l.prefix, orders[i].Ref.Bucket, c.From))
		argv = append(argv, unloading(c))
	}
	_, err = s.eval(ctx, op, l, verbUnload, keys, argv)
	return err
}

// unloading is what unload.lua reads of an order.
func unloading(c *bucket.Counting) []byte {
	p := packing{limits: limitTable(nil).with(c)}
	p.text = append(p.limits.append(append8(nil, c.Ahead)), byte(len(c.Counts)))
	p.addCounts(c)
	p.endCounts()
	return p.text
}

// scanned is how many keys one step of dropCounters looks at, about.
const scanned = 1000

// dropCounters removes the counters of buckets that began with epochs up to those named: all keys of the
// lane's server are looked at. What began later is another key, so nothing that is in use is touched.
func (s *Store) dropCounters(ctx context.Context, op string, l *lane, refs []bucket.Ref) error {
	newest := map[int64]int64{}
	for _, ref := range refs {
		newest[ref.Bucket] = max(newest[ref.Bucket], ref.Epoch)
	}
	for cursor := uint64(0); ; {
		answer, err := s.command(ctx, op, l, "SCAN", strconv.FormatUint(cursor, 10),
			[]any{"MATCH", globOf(l.prefix) + "*:l:" + keyFormat + "*", "COUNT", scanned})
		if err != nil {
			return err
		}
		var found []string
		if cursor, found, err = scannedOf(answer); err != nil {
			return s.strange(op, answer)
		}
		var gone []any
		for _, key := range found {
			if b, from, ok := countersOf(l.prefix, key); ok && from <= newest[b] {
				gone = append(gone, key)
			}
		}
		if len(gone) > 0 {
			if _, err := s.command(ctx, op, l, "UNLINK", gone[0].(string), gone[1:]); err != nil {
				return err
			}
		}
		if cursor == 0 {
			return nil
		}
	}
}

func scannedOf(answer any) (cursor uint64, keys []string, err error) {
	parts, ok := answer.([]any)
	if !ok || len(parts) != 2 {
		return 0, nil, redis.Nil
	}
	text, _ := parts[0].(string)
	if cursor, err = strconv.ParseUint(text, 10, 64); err != nil {
		return 0, nil, err
	}
	list, _ := parts[1].([]any)
	for _, key := range list {
		if name, ok := key.(string); ok {
			keys = append(keys, name)
		}
	}
	return cursor, keys, nil
}

// globOf writes a text so that a pattern matches it alone.
func globOf(text string) string {
	var out strings.Builder
	for i := range len(text) {
		if strings.IndexByte(`\*?[]^-`, text[i]) >= 0 {
			out.WriteByte('\\')
		}
		out.WriteByte(text[i])
	}
	return out.String()
}
