package redisstore

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Deduct implements bucket.Counter. Deductions of one bucket that carry different epochs or terms
// go into different runs of the script, so that each run has one opinion of a bucket.
func (s *Store) Deduct(
	ctx context.Context,
	m bucket.Memory,
	deductions []bucket.StoreDeduction,
) (
	bucket.StoreAnswer, error) {
	const op = "deduct"
	out := bucket.StoreAnswer{Outcomes: make([]bucket.StoreOutcome, len(deductions))}
	k, err := s.keysOf(op, m)
	if err != nil {
		return out, err
	}
	rest := make([]int, len(deductions))
	for i := range rest {
		rest[i] = i
	}
	for begun := false; len(rest) > 0; begun = true {
		b := newFlight(m, deductions)
		rest = b.board(rest)
		answer, err := s.sliced(op, m, k, func(slice int64) (any, error) {
			return s.call(ctx, op, m, deduct, b.keys(k, slice), []byte(b.argument(slice)))
		})
		switch {
		case err != nil && begun && !budget.Is(err, budget.OutcomeUnknown):
			err = &budget.Error{
				Code:    budget.OutcomeUnknown,
				Op:      op,
				Err:     err,
				Message: "a part of the call was done",
			}
		case err == nil && !b.read(answer, &out):
			err = strange(op, m.Lane, answer)
		}
		if err != nil {
			return bucket.StoreAnswer{}, err
		}
	}
	return out, nil
}

// flight is the deductions of one run of the script.
type flight struct {
	memory bucket.Memory
	all    []bucket.StoreDeduction
	slots  map[int64]int // bucket -> place
	seats  []seat
	terms  []*bucket.Terms
	tags   [][]uint32
	pages  []*page
	byPage [pages]*page
	places int
}

// seat is a bucket of a run.
type seat struct {
	bucket, epoch int64
	terms         int
}

// page is the deductions of a run whose records are in one page.
type page struct {
	number int
	ops    []int // places in the call
	seats  []int // of each
	values []int // place of each one's value from 1; 0: none
	names  map[valueName]int
	// terms and first are those of each value; list is in the order of places.
	list []valueName
	seat []int
	own  bool
}

// valueName names a counter.
type valueName struct {
	bucket int64
	value  string
}

func newFlight(m bucket.Memory, all []bucket.StoreDeduction) *flight {
	return &flight{memory: m, all: all, slots: make(map[int64]int)}
}

// board takes deductions into the run and returns those that have to wait for the next one.
func (f *flight) board(waiting []int) (rest []int) {
	for n, i := range waiting {
		if f.places == mostTogether {
			return append(rest, waiting[n:]...)
		}
		d := &f.all[i]
		at, known := f.slots[d.Bucket]
		if !known {
			at = len(f.seats)
			f.slots[d.Bucket] = at
			f.seats = append(f.seats, seat{d.Bucket, d.Epoch, f.term(d.Terms)})
		} else if x := f.seats[at]; x.epoch != d.Epoch || f.terms[x.terms] != d.Terms {
			rest = append(rest, i)
			continue
		}
		f.add(i, at)
	}
	return rest
}

// term returns the place of terms.
func (f *flight) term(t *bucket.Terms) int {
	// A budget's buckets follow each other, mostly.
	for i := len(f.terms) - 1; i >= 0 && i >= len(f.terms)-8; i-- {
		if f.terms[i] == t {
			return i
		}
	}
	tags := make([]uint32, len(t.Limits))
	for l := range t.Limits {
		tags[l] = tagOf(&t.Limits[l])
	}
	f.terms, f.tags = append(f.terms, t), append(f.tags, tags)
	return len(f.terms) - 1
}

// newPage makes an empty page with room for as many deductions.
func newPage(number, room int) *page {
	places := make([]int, 3*room)
	return &page{number: number, ops: places[:0:room], seats: places[room : room : 2*room],
		values: places[2*room : 2*room], names: make(map[valueName]int, room)}
}

// add puts a deduction on its page.
func (f *flight) add(i, at int) {
	d := &f.all[i]
	number := pageOf(d.Bucket)
	p := f.byPage[number]
	if p == nil {
		p = newPage(number, min(len(f.all), mostTogether)/(1+len(f.pages)))
		f.byPage[number], f.pages = p, append(f.pages, p)
	}
	value := 0
	if d.Value != "" && len(d.Terms.Limits) > 0 {
		name := valueName{d.Bucket, d.Value}
		value = p.names[name]
		if value == 0 {
			p.list, p.seat = append(p.list, name), append(p.seat, at)
			value = len(p.list)
			p.names[name] = value
		}
		p.own = p.own || d.Counts != nil || d.Max != nil
	}
	p.ops, p.seats, p.values = append(p.ops, i), append(p.seats, at), append(p.values, value)
	f.places++
}

// keys returns the script's keys.
func (f *flight) keys(k *keyset, slice int64) []string {
	keys := make([]string, 0, 7+3*len(f.pages))
	keys = append(
		keys,
		k.marker,
		k.entry[0],
		k.entry[1],
		k.entry[2],
		k.entry[3],
		k.limits,
		k.changed,
	)
	for _, p := range f.pages {
		keys = append(
			keys,
			k.records(slice, p.number),
			k.records(slice-1, p.number),
			k.counters[p.number],
		)
	}
	return keys
}

// argument returns the script's MessagePack argument: see lua/deduct.lua.
func (f *flight) argument(slice int64) packer {
	a := make(packer, 0, 256+192*f.places).array(6).decimal(slice).array(len(f.seats))
	for i := range f.seats {
		a = a.decimal(f.seats[i].bucket)
	}
	a = a.array(len(f.seats))
	for i := range f.seats {
		a = a.decimal(f.seats[i].epoch)
	}
	a = a.array(len(f.seats))
	for i := range f.seats {
		a = a.number(int64(f.seats[i].terms) + 1)
	}
	a = a.array(len(f.terms))
	for i, t := range f.terms {
		a = a.array(4 + 8*len(t.Limits)).
			number(t.EndMS).
			number(t.LimitsVersion).
			number(int64(len(t.Limits)))
		a = a.number(slides(t))
		for l := range t.Limits {
			x := &t.Limits[l]
			a = a.number(int64(f.tags[i][l])).number(kindOf(x.Kind)).number(x.FromMS).number(x.ToMS)
			a = a.number(x.LengthMS).number(x.SlotMS).number(x.Max).number(measureOf(x.Measure))
		}
	}
	a = a.array(len(f.pages))
	var record packer
	for _, p := range f.pages {
		a, record = f.page(a, p, record)
	}
	return a
}

// slides returns 1 if a limit has a sliding window.
func slides(t *bucket.Terms) int64 {
	for l := range t.Limits {
		if t.Limits[l].Kind == budget.WindowSliding {
			return 1
		}
	}
	return 0
}

// page adds a page to the argument. record is scratch.
func (f *flight) page(a packer, p *page, record packer) (argument, scratch packer) {
	n := len(p.ops)
	a = a.array(9).array(n)
	for _, i := range p.ops {
		a = a.field(f.all[i].Bucket, f.all[i].ID)
	}
	a = a.array(n)
	for j, i := range p.ops {
		record = appendRecord(
			record[:0],
			f.memory.Activation,
			&f.all[i],
			f.tags[f.seats[p.seats[j]].terms],
		)
		a = a.bytes(record)
	}
	a = a.array(n)
	for _, i := range p.ops {
		a = a.number(f.all[i].Amount)
	}
	a = a.array(n)
	for _, at := range p.seats {
		a = a.number(int64(at) + 1)
	}
	a = a.array(n)
	for _, i := range p.ops {
		a = a.number(f.all[i].NotAfterMS)
	}
	a = a.array(n)
	for _, value := range p.values {
		a = a.number(int64(value))
	}
	a = a.array(len(p.list))
	for _, name := range p.list {
		a = a.field(name.bucket, name.value)
	}
	a = a.array(len(p.list))
	for _, at := range p.seat {
		a = a.number(int64(f.seats[at].terms) + 1)
	}
	if !p.own {
		return a.number(0), record
	}
	a = a.array(n)
	for _, i := range p.ops {
		a = a.array(2).numbers(f.all[i].Counts).numbers(f.all[i].Max)
	}
	return a, record
}

// read copies the script's answer into the outcomes. It returns false for any other answer.
func (f *flight) read(answer any, out *bucket.StoreAnswer) bool {
	parts, ok := answer.([]any)
	if !ok || len(parts) != 4 {
		return false
	}
	now, ok := parts[0].(int64)
	balances, ok2 := integers(parts[1])
	odd, ok3 := parts[2].([]any)
	raws, ok4 := parts[3].([]any)
	if !ok || !ok2 || !ok3 || !ok4 || len(balances) != len(f.seats) || len(odd)%3 != 0 ||
		len(raws) != len(f.pages) {
		return false
	}
	out.NowMS = now
	base := int64(0)
	for at, p := range f.pages {
		for j, i := range p.ops {
			o := &out.Outcomes[i]
			o.Verdict = bucket.Accepted
			if len(odd) > 0 && odd[0] == base+int64(1+j) {
				if !oddOne(odd[1], odd[2], o) {
					return false
				}
				odd = odd[3:]
			}
			seat := p.seats[j]
			switch o.Verdict {
			case bucket.Accepted:
				balances[seat] -= f.all[i].Amount
				o.Balance = balances[seat]
			case bucket.Short, bucket.Limited:
				o.Balance = balances[seat]
			}
		}
		base += int64(len(p.ops))
		if !f.uses(p, raws[at], now, out) {
			return false
		}
	}
	return len(odd) == 0
}

// oddOne reads the outcome of an operation that was not accepted.
func oddOne(verdict, record any, o *bucket.StoreOutcome) bool {
	code, ok := verdict.(int64)
	if !ok || code < 1 || code > int64(bucket.Voided) {
		return false
	}
	o.Verdict = bucket.Verdict(code) //nolint:gosec // checked
	if o.Verdict == bucket.Known {
		text, ok := record.(string)
		if !ok {
			return false
		}
		var err error
		if o.Record, err = readRecord(text); err != nil {
			o.Verdict = bucket.Broken
		}
	}
	return true
}

// uses fills in how far limits are used. What a counter was before the call and the accepted
// operations tell what it was after each: all of them fall into the windows of one instant.
func (f *flight) uses(p *page, raws any, now int64, out *bucket.StoreAnswer) bool {
	list, ok := raws.([]any)
	if !ok || len(list) != len(p.list) {
		return false
	}
	states := make([][]bucket.LimitUse, len(p.list))
	var room, answers []bucket.LimitUse
	for u, raw := range list {
		text, ok := raw.(string)
		if !ok && raw != nil {
			return false
		}
		at := f.seats[p.seat[u]].terms
		states[u], room = lend(room, len(f.tags[at]), len(p.list)-u)
		usesOf(states[u], f.terms[at], f.tags[at], text, now)
	}
	for j, i := range p.ops {
		d, o := &f.all[i], &out.Outcomes[i]
		if p.values[j] == 0 || o.Verdict != bucket.Accepted && o.Verdict != bucket.Limited {
			continue
		}
		state := states[p.values[j]-1]
		o.Limits, answers = lend(answers, len(state), len(p.ops)-j)
		for l := range state {
			n := countOf(d, l)
			exceeded := o.Verdict == bucket.Limited && n > 0 && state[l].Used+n > maxOf(d, l)
			if o.Verdict == bucket.Accepted {
				state[l].Used += n
			}
			o.Limits[l] = state[l]
			o.Limits[l].Exceeded = exceeded
		}
		if o.Verdict == bucket.Limited {
			text, _ := list[p.values[j]-1].(string)
			o.Slots = slotsOf(state, d.Terms, f.tags[f.seats[p.seat[p.values[j]-1]].terms], text, now)
		}
	}
	return true
}

// lend cuts n elements off room, after making room for as many more lists as still come.
func lend(room []bucket.LimitUse, n, more int) (list, rest []bucket.LimitUse) {
	if len(room) < n {
		room = make([]bucket.LimitUse, n*more)
	}
	return room[:n:n], room[n:]
}
