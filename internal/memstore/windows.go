package memstore

import (
	"maps"
	"math/big"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// limitName identifies what a limit counts.
type limitName struct {
	name    string
	changed int64
}

// window is the count of a limit for a value.
type window struct {
	began, counted int64
	// slots are those of a sliding window, in order; counted is their sum.
	slots []slot
}

type slot struct{ first, counted int64 }

// counter is all windows of a value. It is replaced, never changed in place.
type counter struct {
	expiresMS int64 // 0 means never
	windows   map[limitName]window
}

// present returns a limit's window at an instant, without what no longer counts.
func present(t *bucket.LimitTerms, w window, nowMS int64) window {
	switch t.Kind {
	case budget.WindowCalendar:
		if w.began < t.FromMS {
			return window{began: t.FromMS}
		}
	case budget.WindowFirstHit:
		if w.began == 0 || nowMS >= w.began+t.LengthMS {
			return window{began: nowMS}
		}
	case budget.WindowSliding:
		first := nowMS - t.LengthMS + 1
		first -= first % t.SlotMS
		var kept window
		for _, x := range w.slots {
			if x.first >= first {
				kept.slots, kept.counted = append(kept.slots, x), kept.counted+x.counted
			}
		}
		return kept
	}
	return w
}

// use returns the usage of a present window.
func use(t *bucket.LimitTerms, w window, nowMS int64) bucket.LimitUse {
	out := bucket.LimitUse{Used: w.counted}
	switch t.Kind {
	case budget.WindowCalendar:
		out.ResetMS = w.began + t.ToMS - t.FromMS
	case budget.WindowFirstHit:
		out.ResetMS = w.began + t.LengthMS
	case budget.WindowSliding:
		oldest := nowMS - nowMS%t.SlotMS
		for _, x := range w.slots {
			if x.counted > 0 {
				oldest = min(oldest, x.first)
			}
		}
		out.ResetMS = oldest + t.SlotMS - 1 + t.LengthMS
	}
	return out
}

// counted returns a window with n added.
func counted(t *bucket.LimitTerms, w window, n, nowMS int64) window {
	w.counted += n
	if t.Kind != budget.WindowSliding {
		return w
	}
	w.slots = slices.Clone(w.slots)
	first, last := nowMS-nowMS%t.SlotMS, len(w.slots)-1
	if last >= 0 && w.slots[last].first >= first {
		w.slots[last].counted += n
	} else {
		w.slots = append(w.slots, slot{first, n})
	}
	return w
}

// ends returns when a window no longer counts; 0 means never.
func ends(t *bucket.LimitTerms, w window, nowMS int64) int64 {
	switch t.Kind {
	case budget.WindowCalendar:
		return w.began + t.ToMS - t.FromMS
	case budget.WindowFirstHit:
		return w.began + t.LengthMS
	case budget.WindowSliding:
		return nowMS + t.SlotMS + t.LengthMS
	}
	return 0
}

// lowered returns a window less n of a deduction counted at an instant, if the window includes it.
func lowered(t *bucket.LimitTerms, w window, n, atMS int64) window {
	switch {
	case t.Kind == budget.WindowSliding:
		w.slots = slices.Clone(w.slots)
		for i := range w.slots {
			if w.slots[i].first == atMS-atMS%t.SlotMS {
				n = min(n, w.slots[i].counted)
				w.slots[i].counted, w.counted = w.slots[i].counted-n, max(w.counted-n, 0)
			}
		}
	case atMS >= w.began && (t.Kind != budget.WindowFirstHit || atMS < w.began+t.LengthMS):
		w.counted = max(w.counted-n, 0)
	}
	return w
}

// kept returns what a deduction still counts after units were given back: a call as long as a unit
// is left, units in proportion, rounded up.
func kept(measure budget.Measure, counts, amount, back int64) int64 {
	left := amount - back
	switch {
	case left <= 0:
		return 0
	case measure == budget.MeasureCount || left >= amount:
		return counts
	case counts == amount:
		return left
	}
	product := new(big.Int).Mul(big.NewInt(counts), big.NewInt(left))
	product.Add(product, big.NewInt(amount-1))
	return product.Div(product, big.NewInt(amount)).Int64()
}

// note is the part of a record that concerns limits.
type note struct {
	value   string
	version int64
	counts  map[limitName]int64 // nil means one call, or the amount
}

// lower subtracts units that were given back from the windows in which their deduction was counted.
func (l *partition) lower(id bucket.RecordID, r bucket.Record, terms *bucket.Terms,
	before, after int64) {
	n := l.notes[id]
	c, known := l.counters[valueName{id.Bucket, n.value}]
	if n.value == "" || terms == nil || !known {
		return
	}
	c.windows = maps.Clone(c.windows)
	for i := range terms.Limits {
		t := &terms.Limits[i]
		name := limitName{t.Name, t.Changed}
		counts, own := n.counts[name]
		switch {
		case !own && t.Measure == budget.MeasureCount:
			counts = 1
		case !own:
			counts = r.Amount
		}
		less := kept(t.Measure, counts, r.Amount, before) - kept(t.Measure, counts, r.Amount, after)
		if w, known := c.windows[name]; known && t.Changed <= n.version && less > 0 {
			c.windows[name] = lowered(t, w, less, r.AtMS)
		}
	}
	l.counters[valueName{id.Bucket, n.value}] = c
}
