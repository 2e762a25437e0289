package redisstore

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Deduct implements bucket.Counter. Deductions of one bucket with different epochs or terms go into
// different runs of the script, because a run has one epoch and one Terms per bucket.
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
		r := newScriptRun(m, deductions)
		rest = r.fill(rest)
		answer, err := s.sliced(op, m, k, func(slice int64) (any, error) {
			return s.call(ctx, op, m, deduct, r.keys(k, slice), []byte(r.argument(slice)))
		})
		switch {
		case err != nil && begun && !budget.Is(err, budget.OutcomeUnknown):
			err = &budget.Error{
				Code:    budget.OutcomeUnknown,
				Op:      op,
				Err:     err,
				Message: "a part of the call was done",
			}
		case err == nil && !r.read(answer, &out):
			err = strange(op, m.Lane, answer)
		}
		if err != nil {
			return bucket.StoreAnswer{}, err
		}
	}
	return out, nil
}

// scriptRun holds the deductions of one run of the script.
type scriptRun struct {
	memory  bucket.Memory
	all     []bucket.StoreDeduction
	index   map[int64]int // of buckets, by id
	buckets []runBucket
	terms   []*bucket.Terms
	tags    [][]uint32
	pages   []*page
	byPage  [pages]*page
	size    int // deductions in the run
}

// runBucket is a bucket of a run. terms is an index of scriptRun.terms.
type runBucket struct {
	bucket, epoch int64
	terms         int
}

// page holds the deductions of a run whose records are in one page.
type page struct {
	number   int
	ops      []int // indexes of scriptRun.all
	bucketOf []int // of each deduction, an index of scriptRun.buckets
	values   []int // of each deduction, its value's index in list plus 1, or 0
	names    map[valueName]int
	// list has the values that limits count, names their indexes plus 1, and valueBucket their
	// buckets. own says that a deduction has counts or bounds of its own.
	list        []valueName
	valueBucket []int
	own         bool
}

// valueName names a counter.
type valueName struct {
	bucket int64
	value  string
}

func newScriptRun(m bucket.Memory, all []bucket.StoreDeduction) *scriptRun {
	return &scriptRun{memory: m, all: all, index: make(map[int64]int)}
}

// fill adds waiting deductions to the run and returns those that must wait for the next one.
func (r *scriptRun) fill(waiting []int) (rest []int) {
	for n, i := range waiting {
		if r.size == mostTogether {
			return append(rest, waiting[n:]...)
		}
		d := &r.all[i]
		at, known := r.index[d.Bucket]
		if !known {
			at = len(r.buckets)
			r.index[d.Bucket] = at
			r.buckets = append(r.buckets, runBucket{d.Bucket, d.Epoch, r.term(d.Terms)})
		} else if x := r.buckets[at]; x.epoch != d.Epoch || r.terms[x.terms] != d.Terms {
			rest = append(rest, i)
			continue
		}
		r.add(i, at)
	}
	return rest
}

// term returns the index of terms, and adds them if necessary.
func (r *scriptRun) term(t *bucket.Terms) int {
	// The buckets of a budget are mostly consecutive.
	for i := len(r.terms) - 1; i >= 0 && i >= len(r.terms)-8; i-- {
		if r.terms[i] == t {
			return i
		}
	}
	tags := make([]uint32, len(t.Limits))
	for l := range t.Limits {
		tags[l] = tagOf(&t.Limits[l])
	}
	r.terms, r.tags = append(r.terms, t), append(r.tags, tags)
	return len(r.terms) - 1
}

// newPage returns an empty page with room for a number of deductions.
func newPage(number, room int) *page {
	places := make([]int, 3*room)
	return &page{number: number, ops: places[:0:room], bucketOf: places[room : room : 2*room],
		values: places[2*room : 2*room], names: make(map[valueName]int, room)}
}

// add puts a deduction on its page.
func (r *scriptRun) add(i, at int) {
	d := &r.all[i]
	number := pageOf(d.Bucket)
	p := r.byPage[number]
	if p == nil {
		p = newPage(number, min(len(r.all), mostTogether)/(1+len(r.pages)))
		r.byPage[number], r.pages = p, append(r.pages, p)
	}
	value := 0
	if d.Value != "" && len(d.Terms.Limits) > 0 {
		name := valueName{d.Bucket, d.Value}
		value = p.names[name]
		if value == 0 {
			p.list, p.valueBucket = append(p.list, name), append(p.valueBucket, at)
			value = len(p.list)
			p.names[name] = value
		}
		p.own = p.own || d.Counts != nil || d.Max != nil
	}
	p.ops, p.bucketOf, p.values = append(p.ops, i), append(p.bucketOf, at), append(p.values, value)
	r.size++
}

// keys returns the script's keys.
func (r *scriptRun) keys(k *keyset, slice int64) []string {
	keys := make([]string, 0, 7+3*len(r.pages))
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
	for _, p := range r.pages {
		keys = append(
			keys,
			k.records(slice, p.number),
			k.records(slice-1, p.number),
			k.counters[p.number],
		)
	}
	return keys
}

// argument returns the script's MessagePack argument; see lua/deduct.lua.
func (r *scriptRun) argument(slice int64) packer {
	a := make(packer, 0, 256+192*r.size).array(6).decimal(slice).array(len(r.buckets))
	for i := range r.buckets {
		a = a.decimal(r.buckets[i].bucket)
	}
	a = a.array(len(r.buckets))
	for i := range r.buckets {
		a = a.decimal(r.buckets[i].epoch)
	}
	a = a.array(len(r.buckets))
	for i := range r.buckets {
		a = a.number(int64(r.buckets[i].terms) + 1)
	}
	a = a.array(len(r.terms))
	for i, t := range r.terms {
		a = a.array(4 + 8*len(t.Limits)).
			number(t.EndMS).
			number(t.LimitsVersion).
			number(int64(len(t.Limits)))
		a = a.number(slides(t))
		for l := range t.Limits {
			x := &t.Limits[l]
			a = a.number(int64(r.tags[i][l])).number(kindOf(x.Kind)).number(x.FromMS).number(x.ToMS)
			a = a.number(x.LengthMS).number(x.SlotMS).number(x.Max).number(measureOf(x.Measure))
		}
	}
	a = a.array(len(r.pages))
	var record packer
	for _, p := range r.pages {
		a, record = r.page(a, p, record)
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

// page appends a page to the argument. record is scratch space.
func (r *scriptRun) page(a packer, p *page, record packer) (argument, scratch packer) {
	n := len(p.ops)
	a = a.array(9).array(n)
	for _, i := range p.ops {
		a = a.field(r.all[i].Bucket, r.all[i].ID)
	}
	a = a.array(n)
	for j, i := range p.ops {
		record = appendRecord(
			record[:0],
			r.memory.Activation,
			&r.all[i],
			r.tags[r.buckets[p.bucketOf[j]].terms],
		)
		a = a.bytes(record)
	}
	a = a.array(n)
	for _, i := range p.ops {
		a = a.number(r.all[i].Amount)
	}
	a = a.array(n)
	for _, at := range p.bucketOf {
		a = a.number(int64(at) + 1)
	}
	a = a.array(n)
	for _, i := range p.ops {
		a = a.number(r.all[i].NotAfterMS)
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
	for _, at := range p.valueBucket {
		a = a.number(int64(r.buckets[at].terms) + 1)
	}
	if !p.own {
		return a.number(0), record
	}
	a = a.array(n)
	for _, i := range p.ops {
		a = a.array(2).numbers(r.all[i].Counts).numbers(r.all[i].Max)
	}
	return a, record
}

// read copies the script's answer into the outcomes. It returns false for any other answer.
func (r *scriptRun) read(answer any, out *bucket.StoreAnswer) bool {
	parts, ok := answer.([]any)
	if !ok || len(parts) != 4 {
		return false
	}
	now, ok := parts[0].(int64)
	balances, ok2 := integers(parts[1])
	exceptions, ok3 := parts[2].([]any)
	raws, ok4 := parts[3].([]any)
	if !ok || !ok2 || !ok3 || !ok4 || len(balances) != len(r.buckets) || len(exceptions)%3 != 0 ||
		len(raws) != len(r.pages) {
		return false
	}
	out.NowMS = now
	base := int64(0)
	for n, p := range r.pages {
		for j, i := range p.ops {
			o := &out.Outcomes[i]
			o.Verdict = bucket.Accepted
			if len(exceptions) > 0 && exceptions[0] == base+int64(1+j) {
				if !readException(exceptions[1], exceptions[2], o) {
					return false
				}
				exceptions = exceptions[3:]
			}
			at := p.bucketOf[j]
			switch o.Verdict {
			case bucket.Accepted:
				balances[at] -= r.all[i].Amount
				o.Balance = balances[at]
			case bucket.Short, bucket.Limited:
				o.Balance = balances[at]
			}
		}
		base += int64(len(p.ops))
		if !r.uses(p, raws[n], now, out) {
			return false
		}
	}
	return len(exceptions) == 0
}

// readException reads the outcome of an operation that was not accepted.
func readException(verdict, record any, o *bucket.StoreOutcome) bool {
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

// uses sets how far limits are used. It computes the state after each accepted operation from the
// counter before the call, because all operations of a call fall into the same windows.
func (r *scriptRun) uses(p *page, raws any, now int64, out *bucket.StoreAnswer) bool {
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
		at := r.buckets[p.valueBucket[u]].terms
		states[u], room = carve(room, len(r.tags[at]), len(p.list)-u)
		usesOf(states[u], r.terms[at], r.tags[at], text, now)
	}
	for j, i := range p.ops {
		d, o := &r.all[i], &out.Outcomes[i]
		if p.values[j] == 0 || o.Verdict != bucket.Accepted && o.Verdict != bucket.Limited {
			continue
		}
		state := states[p.values[j]-1]
		o.Limits, answers = carve(answers, len(state), len(p.ops)-j)
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
			tags := r.tags[r.buckets[p.bucketOf[j]].terms]
			o.Slots = slotsOf(state, d.Terms, tags, text, now)
		}
	}
	return true
}

// carve cuts n elements off room. If room is too small, it first allocates room for more lists.
func carve(room []bucket.LimitUse, n, more int) (list, rest []bucket.LimitUse) {
	if len(room) < n {
		room = make([]bucket.LimitUse, n*more)
	}
	return room[:n:n], room[n:]
}
