package feed

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

func TestShares(t *testing.T) {
	for _, test := range []struct {
		waiting     []int64
		limit, turn int
		want        []int64
		next        int
	}{
		{[]int64{5, 0, 1, 9}, 8, 0, []int64{4, 0, 1, 3}, 1},
		{[]int64{5, 0, 1, 9}, 8, 1, []int64{3, 0, 1, 4}, 0},
		{[]int64{5, 5, 5}, 1, 2, []int64{0, 0, 1}, 0},
		{[]int64{5, 5, 5}, 2, 2, []int64{1, 0, 1}, 1},
		{[]int64{0, 0, 5}, 2, 0, []int64{0, 0, 2}, 0},
		{[]int64{1, 2, 3}, 1000, 1, []int64{1, 2, 3}, 1},
		{[]int64{0, 0}, 5, 1, []int64{0, 0}, 1},
		{[]int64{9}, 4, 0, []int64{4}, 0},
	} {
		got, next := shares(test.waiting, test.limit, test.turn)
		if !slices.Equal(got, test.want) {
			t.Errorf("%v, limit %d, turn %d: %v, want %v", test.waiting, test.limit, test.turn, got, test.want)
		}
		if slices.Max(test.waiting) > 2 && next != test.next {
			t.Errorf("%v, limit %d, turn %d: next turn %d, want %d", test.waiting, test.limit, test.turn,
				next, test.next)
		}
	}
}

// TestSharesReachEveryBucket checks that pages are full, that no bucket gets more than it has, and
// that each waiting one gets a place within as many pages as there are buckets.
func TestSharesReachEveryBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		waiting := rapid.SliceOfN(rapid.Int64Range(0, 30), 1, 12).Draw(t, "waiting")
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		turn := rapid.IntRange(0, len(waiting)-1).Draw(t, "turn")
		idle := make([]int, len(waiting))
		for range len(waiting) {
			var given []int64
			given, turn = shares(waiting, limit, turn)
			sum, there := int64(0), int64(0)
			for i := range waiting {
				if given[i] < 0 || given[i] > waiting[i] {
					t.Fatalf("%d of %d", given[i], waiting[i])
				}
				sum, there = sum+given[i], there+waiting[i]
				if idle[i]++; given[i] > 0 || waiting[i] == 0 {
					idle[i] = 0
				}
			}
			if sum != min(int64(limit), there) {
				t.Fatalf("gave %d places of %d to %v", sum, limit, waiting)
			}
			if turn < 0 || turn >= len(waiting) {
				t.Fatalf("turn %d of %d", turn, len(waiting))
			}
		}
		if slices.Max(idle) >= len(waiting) {
			t.Fatalf("no place within %d pages: %v", len(waiting), idle)
		}
	})
}

func TestCursorIsReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Int64Range(0, budget.MaxAmount)
		c := cursor{budget: rapid.Int64Range(1, 1e6).Draw(t, "budget"), made: number.Draw(t, "made")}
		for _, entry := range rapid.SliceOfN(number, 1, 40).Draw(t, "read") {
			within := min(rapid.Int64Range(0, 600).Draw(t, "within"), entry)
			c.read = append(c.read, position{entry, within})
		}
		c.turn = rapid.IntRange(0, len(c.read)-1).Draw(t, "turn")
		text := c.text()
		got, ok := parse(text)
		if !ok || got.budget != c.budget || got.made != c.made || got.turn != c.turn ||
			!slices.Equal(got.read, c.read) {
			t.Fatalf("%+v became %+v, %v", c, got, ok)
		}
		// A changed, missing or additional character never gives another position.
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		with := rapid.SampledFrom(strings.Split("A B z 0 _ - = \n / é", " ")).Draw(t, "with")
		for _, bad := range []string{text[:at] + with + text[at+1:], text[:at] + text[at+1:], text + with,
			text[:at] + with + text[at:]} {
			if _, ok := parse(bad); ok && bad != text {
				t.Fatalf("%q of %q is taken for a cursor", bad, text)
			}
		}
	})
}

func TestCursorSizes(t *testing.T) {
	c := cursor{budget: budget.MaxAmount, made: budget.MaxAmount, read: make([]position, budget.MaxBuckets)}
	for i := range c.read {
		c.read[i] = position{budget.MaxAmount, budget.MaxAmount}
	}
	c.turn = budget.MaxBuckets - 1
	text := c.text()
	if _, ok := parse(text); !ok || len(text) > maxCursorBytes {
		t.Errorf("the largest cursor has %d characters, the most are %d: %v", len(text), maxCursorBytes, ok)
	}
	for _, bad := range []string{"", "AQ", "!", strings.Repeat("A", maxCursorBytes+1)} {
		if _, ok := parse(bad); ok {
			t.Errorf("%.20q is taken for a cursor", bad)
		}
	}
}

func TestStart(t *testing.T) {
	const made = 1_800_000_000_000
	bounds := []bound{{Bucket: 7, Key: "b:bucket-0", Last: 9}, {Bucket: 8, Key: "b:bucket-1", Last: 2}}
	text := func(edit func(*cursor)) string {
		c := cursor{budget: 5, made: made, read: []position{{4, 1}, {2, 0}}}
		edit(&c)
		return c.text()
	}
	for name, test := range map[string]struct {
		after string
		code  budget.Code
		read  []position
	}{
		"from the beginning":    {"", "", []position{{}, {}}},
		"in the middle":         {text(func(*cursor) {}), "", []position{{4, 1}, {2, 0}}},
		"ahead":                 {text(func(c *cursor) { c.read[1].entry = 3 }), budget.Invalid, nil},
		"of another budget":     {text(func(c *cursor) { c.budget = 6 }), budget.Invalid, nil},
		"of another database":   {text(func(c *cursor) { c.made++ }), budget.Invalid, nil},
		"before a resize":       {text(func(c *cursor) { c.read = c.read[:1] }), "", []position{{4, 1}, {}}},
		"of more buckets":       {text(func(c *cursor) { c.read = append(c.read, position{}) }), budget.Invalid, nil},
		"no cursor":             {"next", budget.Invalid, nil},
		"with space":            {text(func(*cursor) {}) + " ", budget.Invalid, nil},
		"the whole text, twice": {strings.Repeat(text(func(*cursor) {}), 2), budget.Invalid, nil},
	} {
		c, err := start(test.after, 5, made, bounds)
		if budget.CodeOf(err) != test.code || err == nil && !slices.Equal(c.read, test.read) {
			t.Errorf("%s: %v, %v; want %v, %q", name, c.read, err, test.read, test.code)
		}
		if e, ok := err.(*budget.Error); ok && (len(e.Fields) != 1 || e.Fields[0].Field != "after") {
			t.Errorf("%s: fields %+v", name, e.Fields)
		}
	}
}

func TestEntriesAreSorted(t *testing.T) {
	at := time.UnixMilli(1_800_000_000_000)
	made := func(bucket, first, ms int64, count int) row {
		return row{Bucket: bucket, First: first, Count: int64(count), Entries: make([]ledger.FeedEntry, count),
			CreatedMS: at.UnixMilli() + ms}
	}
	p := &page{bounds: []bound{{Bucket: 1, Key: "one"}, {Bucket: 2, Key: "two"}},
		ordinals: map[int64]int{1: 0, 2: 1}}
	spans := []span{{Bucket: 2, From: 1, After: 0, UpTo: 3}, {Bucket: 1, From: 5, After: 6, UpTo: 8}}
	// Entry 2 of bucket 2 was written by a node whose clock is late. Bucket 1 is read from the middle of
	// one row to the middle of another.
	got := p.entries(spans, []row{made(2, 1, 10, 1), made(2, 2, 3, 1), made(2, 3, 30, 1), made(1, 5, 5, 3), made(1, 8, 10, 2)})
	var order []int64
	for _, e := range got {
		order = append(order, e.Bucket*10+e.Entry)
	}
	if want := []int64{17, 21, 22, 18, 23}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if got[3].within != 1 || got[0].within != 0 || got[0].BucketKey != "one" {
		t.Errorf("%+v, %+v", got[0], got[3])
	}
}

// TestMove checks that the cursor follows a page's entries, even if the page was cut or numbers
// have no entries.
func TestMove(t *testing.T) {
	spans := []span{{Bucket: 1, After: 3, UpTo: 9}}
	for name, test := range map[string]struct {
		all, read map[int64]position
		want      position
	}{
		"whole":                      {map[int64]position{1: {9, 0}}, map[int64]position{1: {9, 0}}, position{9, 0}},
		"to the middle of a row":     {map[int64]position{1: {9, 2}}, map[int64]position{1: {9, 2}}, position{9, 2}},
		"numbers missing at the end": {map[int64]position{1: {7, 0}}, map[int64]position{1: {7, 0}}, position{9, 0}},
		"no entries at all":          {nil, nil, position{9, 0}},
		"cut":                        {map[int64]position{1: {9, 0}}, map[int64]position{1: {5, 1}}, position{5, 1}},
		"cut before the first":       {map[int64]position{1: {9, 0}}, nil, position{3, 0}},
	} {
		p := &page{ordinals: map[int64]int{1: 0}, cursor: cursor{read: []position{{entry: 3}}}}
		p.move(spans, test.all, test.read)
		if p.cursor.read[0] != test.want {
			t.Errorf("%s: %+v, want %+v", name, p.cursor.read[0], test.want)
		}
	}
}
