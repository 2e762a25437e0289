package redisstore

import (
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

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
	predict bool
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
		} else if x := r.buckets[at]; r.predict || x.epoch != d.Epoch || r.terms[x.terms] != d.Terms {
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
	keys = append(keys, k.marker, k.entry[0], k.entry[1], k.entry[2], k.entry[3], k.limits, k.changed)
	for _, p := range r.pages {
		keys = append(keys, k.records(slice, p.number), k.records(slice-1, p.number),
			k.counters[p.number])
	}
	return keys
}

// argument returns the script's MessagePack argument; see lua/deduct.lua.
func (r *scriptRun) argument(slice int64) packer {
	a := make(packer, 0, 256+192*r.size).array(7).decimal(slice).array(len(r.buckets))
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
		a = a.number(paired(t))
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
	if r.predict {
		return a.number(1)
	}
	return a.number(0)
}

// paired returns 1 if a limit has a sliding or first_hit window, whose counter has pairs.
func paired(t *bucket.Terms) int64 {
	for l := range t.Limits {
		switch t.Limits[l].Kind {
		case budget.WindowSliding, budget.WindowFirstHit:
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
		record = appendRecord(record[:0], r.memory.Incarnation, &r.all[i],
			r.tags[r.buckets[p.bucketOf[j]].terms])
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
