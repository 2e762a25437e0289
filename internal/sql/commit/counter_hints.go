package commit

import (
	"strings"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/budgetd/budgetd/internal/sql/counters"
	"github.com/budgetd/budgetd/limit"
)

const (
	// maxCounterHints is the number of limit rows that are remembered, and maxHintedCounts the
	// longest, in bytes: together at most some 70 MB.
	maxCounterHints = 1 << 17
	maxHintedCounts = 256
	// maxTrusted is the number of budgets whose trust is remembered.
	maxTrusted = 1 << 14
	// readsAfterChange is the number of flights that read all limit rows of a budget after one that
	// this node remembered turned out to be written by somebody else.
	readsAfterChange = 256
	// absentRows is the number of rows in succession that were not there when they were read, after
	// which the next ones are taken for absent.
	absentRows = 1000
)

// counterHints are the limit rows as this node's flights wrote them, so that the next flight need
// not read them. The fast form fails if a row has another version or should not be there, and a
// refusal is never judged by a hint. Where rows are also written by others, such as another node
// with the same users, hints fail too often; trust says whether they are used.
type counterHints struct {
	rows  *lru.Cache[counters.Key, counterHint]
	trust *lru.Cache[int64, *counterTrust]
}

// counterHint is a limit row: its version and its packed counts.
type counterHint struct {
	version int64
	counts  string
}

// counterTrust says whether hints about a budget's rows are used.
type counterTrust struct {
	// reads is the number of coming flights that read all rows.
	reads atomic.Int64
	// absent counts rows that were not there when they were read, since one was.
	absent atomic.Int64
}

func newCounterHints() *counterHints {
	rows, err := lru.New[counters.Key, counterHint](maxCounterHints)
	trust, e := lru.New[int64, *counterTrust](maxTrusted)
	if err != nil || e != nil {
		panic(err) // only for a size below 1
	}
	return &counterHints{rows, trust}
}

// of returns the trust of a budget.
func (h *counterHints) of(budgetID int64) *counterTrust {
	if t, ok := h.trust.Get(budgetID); ok {
		return t
	}
	t := &counterTrust{}
	if before, ok, _ := h.trust.PeekOrAdd(budgetID, t); ok {
		return before
	}
	return t
}

// fill puts the hints into the rows of a flight. It returns the keys of the others, which must be
// read. A row that no longer counts may have been removed and is read.
func (h *counterHints) fill(b *limitRows, nowMS int64) (unknown []counters.Key) {
	var trust *counterTrust
	reads, absent := false, false
	for i, p := range b.list {
		if i == 0 || p.Key.Budget != b.list[i-1].Key.Budget {
			trust = h.of(p.Key.Budget)
			absent = trust.absent.Load() >= absentRows
			if reads = trust.reads.Load() > 0; reads {
				trust.reads.Add(-1)
			}
		}
		hint, known := h.rows.Get(p.Key)
		if known && !reads {
			counts, err := limit.ReadCounters(hint.counts)
			expires := counts.ExpiresMS()
			if err == nil && (expires == 0 || expires > nowMS) {
				p.Version, p.Counts, p.exists, b.hinted = hint.version, counts, true, true
				continue
			}
		}
		if known || reads || !absent {
			unknown = append(unknown, p.Key)
		} else {
			b.hinted = true
		}
	}
	return unknown
}

// check compares rows that were read with what is remembered.
func (h *counterHints) check(keys []counters.Key, found map[counters.Key]*counters.Row) {
	for _, key := range keys {
		hint, known := h.rows.Peek(key)
		row := found[key]
		switch {
		case row == nil && known:
			h.rows.Remove(key)
		case row == nil:
			h.of(key.Budget).absent.Add(1)
		case !known:
			h.of(key.Budget).absent.Store(0)
		case hint.version != row.Version:
			h.rows.Remove(key)
			h.of(key.Budget).reads.Store(readsAfterChange)
		}
	}
}

// keep remembers the rows that a flight wrote.
func (h *counterHints) keep(b *limitRows, version func(*limitRow) int64) {
	for _, p := range b.list {
		switch key := p.Key; {
		case !p.counted:
		case len(p.packed) > maxHintedCounts:
			h.rows.Remove(key)
		default:
			if !h.rows.Contains(key) { // the value is a part of a longer text
				key.Value = strings.Clone(key.Value)
			}
			h.rows.Add(key, counterHint{version(p), p.packed})
		}
	}
}

// forget drops the hints of a flight's rows, whose outcome is not known here.
func (h *counterHints) forget(f *flight) {
	for i := range f.ops {
		for j := range f.ops[i].Charges {
			h.rows.Remove(keyOf(f.ops[i].Budget.ID, &f.ops[i].Charges[j]))
		}
	}
}
