package auditor

import (
	"math"
	"slices"
	"time"
)

// staleMS is how much older the limits may be by which a store judged in store mode: a node may not have heard
// of a change while it cannot reach the database, and what it sent may be late.
const staleMS = 20_000

// counted is a deduction as the ledger has it, made of its rows alone.
type counted struct {
	id           string
	at           int64 // ms
	amount, back int64 // minor units
	values       map[string]string
	own          map[string]int64
	hold         hold
	// nothing: its store counted it and the ledger does not, because it had the id already. It counts nothing, and a
	// window may have begun with it.
	nothing bool
}

// limits are what is known of a budget's limits.
type limits struct {
	version int64
	sets    []limitSet // the last one is in force
	rows    map[string]*counted
	byValue map[string][]*counted // by when they were counted
	groups  map[string][]*counted
	// tried are the attempts of store mode that its store may have counted, by value.
	tried map[string][]*Call
	// admitted are the entries of store mode that were read in a log.
	admitted map[entry]bool
}

// entry is one of a log of store mode: an id, and when its store counted it, in ms.
type entry struct {
	id string
	at int64
}

// limitSet is limits that were in force since an instant in ms.
type limitSet struct {
	since int64
	list  []Limit
}

func newLimits() limits {
	return limits{rows: map[string]*counted{}, byValue: map[string][]*counted{}, groups: map[string][]*counted{},
		tried: map[string][]*Call{}, admitted: map[entry]bool{}}
}

// valueKey names the value of the first of a limit's dimensions; "" where it does not apply.
func (l *Limit) valueKey(values map[string]string) string {
	for _, d := range l.Dimensions {
		if values[d] == "" {
			return ""
		}
	}
	return keyOf(l.Dimensions[0], values[l.Dimensions[0]])
}

func keyOf(dimension, value string) string { return dimension + "=" + value }

// same reports whether two carry the same values of the limit's dimensions.
func (l *Limit) same(a, b map[string]string) bool {
	for _, d := range l.Dimensions {
		if a[d] != b[d] {
			return false
		}
	}
	return true
}

// adds is what a deduction counts: calls or minor units.
func (l *Limit) adds(amount int64, own map[string]int64) int64 {
	if n, is := own[l.Name]; is {
		return n
	}
	if l.Amounts {
		return amount
	}
	return 1
}

// bounds reports whether the limit can refuse the values.
func (l *Limit) bounds(values map[string]string) bool {
	return l.Enforce && l.valueKey(values) != "" && !l.Exempt[values[l.Dimensions[0]]]
}

// keeps is what a deduction still counts after some of it was given back: a call while a unit is left, an
// amount in proportion, rounded up.
func (l *Limit) keeps(c *counted) int64 {
	n, left := l.adds(c.amount, c.own), c.amount-c.back
	switch {
	case left <= 0 || c.nothing:
		return 0
	case !l.Amounts:
		return n
	}
	return (n*left + c.amount - 1) / c.amount
}

// window is the one that holds an instant: [from, to). A sliding one ends with the instant, with the slots it
// is kept in where rough; rows are by when they were counted, of the values.
func (l *Limit) window(rows []*counted, values map[string]string, at int64, rough bool) (from, to int64) {
	switch l.Kind {
	case "calendar":
		from = at - at%l.Every
		return from, from + l.Every
	case "sliding":
		if from = at - l.Length + 1; rough {
			return from - from%l.Slot, math.MaxInt64
		}
		return from, at + 1
	case "first_hit":
		return l.hit(rows, values, at)
	}
	return math.MinInt64, math.MaxInt64
}

// hit is the first_hit window that holds an instant; each begins with the first deduction after the one
// before. Where there is none it is empty.
func (l *Limit) hit(rows []*counted, values map[string]string, at int64) (from, to int64) {
	began, first := int64(math.MinInt64), int64(math.MinInt64)
	if l.Changed != 0 {
		first = l.Changed - l.Length + 1
	}
	for _, c := range rows {
		if c.at > at {
			break
		}
		if c.at < first || !l.same(c.values, values) || l.adds(c.amount, c.own) == 0 {
			continue
		}
		if began == math.MinInt64 || c.at >= began+l.Length {
			began = c.at
		}
	}
	if began == math.MinInt64 || at >= began+l.Length {
		return at, at
	}
	return began, began + l.Length
}

// used is what the ledger has of the values in the window that holds an instant.
func (b *books) used(l *Limit, values map[string]string, at int64, rough bool) (sum int64) {
	rows := b.limits.byValue[l.valueKey(values)]
	from, to := l.window(rows, values, at, rough)
	for i := len(rows) - 1; i >= 0 && rows[i].at >= from; i-- {
		if c := rows[i]; c.at < to && l.same(c.values, values) {
			sum += l.keeps(c)
		}
	}
	return sum
}

// usedByLedger is used where windows begin with the ledger's rows alone: a store that loads a value anew goes on with those,
// whatever repetition it had begun one with before.
func (b *books) usedByLedger(l *Limit, values map[string]string, at int64) int64 {
	key := l.valueKey(values)
	all := b.limits.byValue[key]
	defer func() { b.limits.byValue[key] = all }()
	b.limits.byValue[key] = slices.DeleteFunc(slices.Clone(all), func(c *counted) bool { return c.nothing })
	return b.used(l, values, at, false)
}

// fresh takes the rows that a transaction made. a.mu is held.
func (a *Auditor) fresh(b *books, c *Columns) {
	changed := c.LimitsVersion != b.limits.version
	if changed {
		b.limits.version = c.LimitsVersion
		b.limits.sets = append(b.limits.sets, limitSet{time.Now().UnixMilli(), c.Limits()})
	}
	groups := map[string]bool{}
	for r := range c.Fresh {
		row := b.limits.rows[r.ID]
		if r.Kind == "deduct" {
			row = b.count(&r)
			a.within(b, c, row)
			changed = true
		}
		if row == nil {
			a.note("I7: budget %d: a %s of %q, which has no row", c.Budget, r.Kind, r.ID)
			continue
		}
		a.moved(c.Budget, row, &r)
		if r.Group != "" {
			groups[r.Group] = true
		}
	}
	for group := range groups {
		a.together(b, c, group)
	}
	if changed && !c.StoreMode {
		for call := range b.asking {
			b.reached(call)
		}
	}
}

// count enters a deduction.
func (b *books) count(r *Fresh) *counted {
	row := &counted{id: r.ID, at: r.At, amount: r.Amount, hold: hold{until: r.HoldUntil, group: r.Group}}
	row.values, row.own = r.Values()
	b.limits.rows[r.ID] = row
	if r.Group != "" {
		b.limits.groups[r.Group] = append(b.limits.groups[r.Group], row)
	}
	b.limits.insert(row)
	return row
}

func (l *limits) insert(row *counted) {
	for dimension, value := range row.values {
		key := keyOf(dimension, value)
		rows := l.byValue[key]
		i := len(rows)
		for i > 0 && rows[i-1].at > row.at {
			i--
		}
		l.byValue[key] = slices.Insert(rows, i, row)
	}
}

// Admitted notes an entry that is read in a log of store mode, with when its store counted it, in ms: it counts there until
// its window ends, and a first_hit window may have begun with it, also where the ledger had the id already and gives its units
// back. What is lost with its store is never read, and begins no window. Idempotent.
func (a *Auditor) Admitted(budget int64, id string, at, amount int64, values map[string]string, own map[string]int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := &a.of(budget).limits
	if e := (entry{id, at}); !l.admitted[e] {
		l.admitted[e] = true
		l.insert(&counted{id: id, at: at, amount: amount, values: values, own: own, nothing: true})
	}
}

// within looks at every window that a deduction is in: nobody is above a maximum. In store mode the limits by
// which its store judged may be older, and some that were in force shortly before must allow it. a.mu is held.
func (a *Auditor) within(b *books, c *Columns, row *counted) {
	sets := b.limits.sets
	if len(sets) == 0 {
		return
	}
	above := ""
	for i := len(sets) - 1; i >= 0; i-- {
		what := b.above(sets[i].list, row)
		if what == "" {
			return
		}
		if above == "" {
			above = what
		}
		if !c.StoreMode || sets[i].since < row.at-staleMS {
			break
		}
	}
	a.note("I6: budget %d: with id %q, counted at %d, %s", c.Budget, row.id, row.at, above)
}

// above names a limit whose maximum a deduction exceeds, "" if there is none.
func (b *books) above(list []Limit, row *counted) string {
	for i := range list {
		l := &list[i]
		if !l.bounds(row.values) || l.adds(row.amount, row.own) == 0 {
			continue
		}
		for _, end := range b.ends(l, row) {
			if used := b.used(l, row.values, end, false); used > l.Max && b.usedByLedger(l, row.values, end) > l.Max {
				return text("limit %s (%s) of %v is used %d, maximum %d", l.Name, l.Kind, row.values, used, l.Max)
			}
		}
	}
	return ""
}

// ends are instants, one in each window that a deduction is in: of a sliding one there are as many as there
// are later deductions.
func (b *books) ends(l *Limit, row *counted) []int64 {
	out := []int64{row.at}
	if l.Kind != "sliding" {
		return out
	}
	rows := b.limits.byValue[l.valueKey(row.values)]
	for i := len(rows) - 1; i >= 0 && rows[i].at > row.at; i-- {
		if rows[i].at < row.at+l.Length && l.same(rows[i].values, row.values) {
			out = append(out, rows[i].at)
		}
	}
	return out
}

// reached notes the limits that would refuse a call now, in ledger mode: what is used only grows with a
// commit. a.mu is held.
func (b *books) reached(c *Call) {
	if len(c.Values) == 0 || len(b.limits.sets) == 0 {
		return
	}
	now := time.Now().UnixMilli()
	list := b.limits.sets[len(b.limits.sets)-1].list
	for i := range list {
		l := &list[i]
		add := l.adds(c.Amount, c.Counts)
		if slices.Contains(c.reached, l.Name) || !l.bounds(c.Values) || add == 0 {
			continue
		}
		if b.used(l, c.Values, now, true)+add > l.Max {
			c.reached = append(c.reached, l.Name)
		}
	}
}

// limited looks into an answer limit_exceeded: at some moment of the call the limit had no room for it. a.mu
// is held.
func (a *Auditor) limited(b *books, c *Call, got Answer) {
	a.limitRefusals++
	reached := slices.Contains(c.reached, got.Limit)
	if b.store {
		reached = b.mayBeReached(c, got.Limit)
	}
	if !reached {
		a.note("I6: id %q of budget %d (%v, %d): limit %q refused it and had room, call of %s", c.ID, c.Budget,
			c.Values, c.Amount, got.Limit, c.Began.Format(clock))
	}
}

// mayBeReached reports whether a store may have counted enough to refuse a call: all that the ledger has, also
// what was given back, because a store may not have heard of it, and every attempt that it may have counted
// beside (docs/adr/0016).
func (b *books) mayBeReached(c *Call, name string) bool {
	began := c.Began.UnixMilli()
	for i := len(b.limits.sets) - 1; i >= 0; i-- {
		set := &b.limits.sets[i]
		for j := range set.list {
			if l := &set.list[j]; l.Name == name && l.bounds(c.Values) &&
				b.mayBeCounted(l, c, began)+l.adds(c.Amount, c.Counts) > l.Max {
				return true
			}
		}
		if set.since < began-staleMS {
			break
		}
	}
	return false
}

// mayBeCounted is the most that a store may have counted of a call's values since it began.
func (b *books) mayBeCounted(l *Limit, c *Call, began int64) (sum int64) {
	key, from := l.valueKey(c.Values), began
	switch l.Kind {
	case "calendar":
		from -= began % l.Every
	case "lifetime":
		from = math.MinInt64
	default:
		from -= l.Length + l.Slot
	}
	for _, row := range b.limits.byValue[key] {
		if row.at >= from && (!row.nothing || b.again(row)) && l.same(row.values, c.Values) {
			sum += l.adds(row.amount, row.own)
		}
	}
	seen := map[string]bool{}
	for _, try := range b.limits.tried[key] {
		if try == c || try.nothing || !l.same(try.Values, c.Values) ||
			from != math.MinInt64 && try.Began.UnixMilli() < from-staleMS {
			continue
		}
		if row := b.limits.rows[try.ID]; row != nil && !seen[try.ID] && try.Began.UnixMilli() <= row.at {
			seen[try.ID] = true // that is the one that the ledger has
			continue
		}
		sum += l.adds(try.Amount, try.Counts)
	}
	return sum
}

// again reports whether a store counted an id that the ledger has from another time: it was repeated past the record
// window.
func (b *books) again(admitted *counted) bool {
	row := b.limits.rows[admitted.id]
	return row != nil && row.at != admitted.at
}

// trying notes an attempt in store mode. a.mu is held.
func (b *books) trying(c *Call) {
	if !b.store || len(b.limits.sets) == 0 {
		return
	}
	for dimension, value := range c.Values {
		key := keyOf(dimension, value)
		b.limits.tried[key] = append(b.limits.tried[key], c)
	}
}
