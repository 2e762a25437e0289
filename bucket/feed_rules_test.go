package bucket

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

func TestFeedShares(t *testing.T) {
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
		got, next := feedShares(test.waiting, test.limit, test.turn)
		if !slices.Equal(got, test.want) {
			t.Errorf("%v, limit %d, turn %d: %v, want %v", test.waiting, test.limit, test.turn, got, test.want)
		}
		if slices.Max(test.waiting) > 2 && next != test.next {
			t.Errorf("%v, limit %d, turn %d: next turn %d, want %d", test.waiting, test.limit, test.turn,
				next, test.next)
		}
	}
}

// TestFeedSharesReachEveryBucket: whatever waits, pages are full, no bucket gets more than it has,
// and each that waits gets a place within as many pages as buckets are.
func TestFeedSharesReachEveryBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		waiting := rapid.SliceOfN(rapid.Int64Range(0, 30), 1, 12).Draw(t, "waiting")
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		turn := rapid.IntRange(0, len(waiting)-1).Draw(t, "turn")
		idle := make([]int, len(waiting))
		for range len(waiting) {
			var shares []int64
			shares, turn = feedShares(waiting, limit, turn)
			given, there := int64(0), int64(0)
			for i := range waiting {
				if shares[i] < 0 || shares[i] > waiting[i] {
					t.Fatalf("%d of %d", shares[i], waiting[i])
				}
				given, there = given+shares[i], there+waiting[i]
				if idle[i]++; shares[i] > 0 || waiting[i] == 0 {
					idle[i] = 0
				}
			}
			if given != min(int64(limit), there) {
				t.Fatalf("gave %d places of %d to %v", given, limit, waiting)
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

func TestFeedCursorIsReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		position := rapid.Int64Range(0, budget.MaxAmount)
		c := feedCursor{budget: rapid.Int64Range(1, 1e6).Draw(t, "budget"), made: position.Draw(t, "made"),
			read: rapid.SliceOfN(position, 1, 40).Draw(t, "read")}
		c.turn = rapid.IntRange(0, len(c.read)-1).Draw(t, "turn")
		text := c.text()
		got, ok := parseFeedCursor(text)
		if !ok || got.budget != c.budget || got.made != c.made || got.turn != c.turn || !slices.Equal(got.read, c.read) {
			t.Fatalf("%+v became %+v, %v", c, got, ok)
		}
		// One character changed, one less, one more: never another position.
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		with := rapid.SampledFrom(strings.Split("A B z 0 _ - = \n / é", " ")).Draw(t, "with")
		for _, bad := range []string{text[:at] + with + text[at+1:], text[:at] + text[at+1:], text + with, text[:at] + with + text[at:]} {
			if _, ok := parseFeedCursor(bad); ok && bad != text {
				t.Fatalf("%q of %q is taken for a cursor", bad, text)
			}
		}
	})
}

func TestFeedCursorSizes(t *testing.T) {
	c := feedCursor{budget: budget.MaxAmount, made: budget.MaxAmount, read: make([]int64, budget.MaxBuckets)}
	for i := range c.read {
		c.read[i] = budget.MaxAmount
	}
	c.turn = budget.MaxBuckets - 1
	text := c.text()
	if _, ok := parseFeedCursor(text); !ok || len(text) > maxFeedCursorBytes {
		t.Errorf("the largest cursor has %d characters, the most are %d: %v", len(text), maxFeedCursorBytes, ok)
	}
	for _, bad := range []string{"", "AQ", "!", strings.Repeat("A", maxFeedCursorBytes+1)} {
		if _, ok := parseFeedCursor(bad); ok {
			t.Errorf("%.20q is taken for a cursor", bad)
		}
	}
}

func TestStartFeed(t *testing.T) {
	made := time.UnixMilli(1_800_000_000_000)
	bounds := []FeedBound{{Bucket: 7, Key: "b:bucket-0", Archived: 3, Last: 9}, {Bucket: 8, Key: "b:bucket-1", Last: 2}}
	cursor := func(edit func(*feedCursor)) string {
		c := feedCursor{budget: 5, made: made.UnixMilli(), read: []int64{4, 2}}
		edit(&c)
		return c.text()
	}
	for name, test := range map[string]struct {
		after string
		code  budget.Code
		read  []int64
	}{
		"from the beginning":    {"", "", []int64{3, 0}},
		"in the middle":         {cursor(func(*feedCursor) {}), "", []int64{4, 2}},
		"at the archive":        {cursor(func(c *feedCursor) { c.read[0] = 3 }), "", []int64{3, 2}},
		"below the archive":     {cursor(func(c *feedCursor) { c.read[0] = 2 }), budget.CursorExpired, nil},
		"ahead":                 {cursor(func(c *feedCursor) { c.read[1] = 3 }), budget.Invalid, nil},
		"of another budget":     {cursor(func(c *feedCursor) { c.budget = 6 }), budget.Invalid, nil},
		"of another database":   {cursor(func(c *feedCursor) { c.made++ }), budget.Invalid, nil},
		"before a resize":       {cursor(func(c *feedCursor) { c.read = c.read[:1] }), "", []int64{4, 0}},
		"of more buckets":       {cursor(func(c *feedCursor) { c.read = append(c.read, 0) }), budget.Invalid, nil},
		"no cursor":             {"next", budget.Invalid, nil},
		"ahead and archived":    {cursor(func(c *feedCursor) { c.read = []int64{10, 2} }), budget.Invalid, nil},
		"with space":            {cursor(func(*feedCursor) {}) + " ", budget.Invalid, nil},
		"the whole text, twice": {strings.Repeat(cursor(func(*feedCursor) {}), 2), budget.Invalid, nil},
	} {
		c, err := startFeed(test.after, 5, made, bounds)
		if budget.CodeOf(err) != test.code || err == nil && !slices.Equal(c.read, test.read) {
			t.Errorf("%s: %v, %v; want %v, %q", name, c.read, err, test.read, test.code)
		}
		if e, ok := err.(*budget.Error); ok && test.code == budget.Invalid &&
			(len(e.Fields) != 1 || e.Fields[0].Field != "after") {
			t.Errorf("%s: fields %+v", name, e.Fields)
		}
	}
}

func TestFirstMissing(t *testing.T) {
	row := func(bucket, entry int64) ledger.FeedEntry { return ledger.FeedEntry{Bucket: bucket, Entry: entry} }
	spans := []FeedSpan{{Bucket: 2, After: 4, UpTo: 6}, {Bucket: 1, After: 0, UpTo: 1}}
	for name, test := range map[string]struct {
		rows []ledger.FeedEntry
		want FeedSpan
		is   bool
	}{
		"none":         {[]ledger.FeedEntry{row(2, 5), row(2, 6), row(1, 1)}, FeedSpan{}, false},
		"the first":    {[]ledger.FeedEntry{row(2, 6), row(1, 1)}, FeedSpan{2, 4, 5}, true},
		"one between":  {[]ledger.FeedEntry{row(2, 5), row(1, 1)}, FeedSpan{2, 5, 6}, true},
		"the last":     {[]ledger.FeedEntry{row(2, 5), row(2, 6)}, FeedSpan{1, 0, 1}, true},
		"all":          {nil, FeedSpan{2, 4, 5}, true},
		"one is twice": {[]ledger.FeedEntry{row(2, 5), row(2, 5), row(2, 6), row(1, 1)}, FeedSpan{2, 5, 6}, true},
	} {
		if got, is := firstMissing(spans, test.rows); is != test.is || got != test.want {
			t.Errorf("%s: %+v, %v", name, got, is)
		}
	}
}

func TestInterleave(t *testing.T) {
	at := time.UnixMilli(1_800_000_000_000)
	row := func(bucket, entry int64, ms int) ledger.FeedEntry {
		return ledger.FeedEntry{Bucket: bucket, Entry: entry, At: at.Add(time.Duration(ms) * time.Millisecond)}
	}
	spans := []FeedSpan{{Bucket: 2, UpTo: 3}, {Bucket: 1, After: 6, UpTo: 8}}
	// Entry 2 of bucket 2 was written by a node whose clock is late.
	got := interleave(spans, []ledger.FeedEntry{row(2, 1, 10), row(2, 2, 3), row(2, 3, 30), row(1, 7, 5), row(1, 8, 10)})
	var order []int64
	for _, e := range got {
		order = append(order, e.Bucket*10+e.Entry)
	}
	if want := []int64{17, 21, 22, 18, 23}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

func TestFittingFeed(t *testing.T) {
	entry := func(bytes int) FeedEntry {
		return FeedEntry{FeedEntry: ledger.FeedEntry{Dimensions: strings.Repeat("x", bytes)}}
	}
	for _, test := range []struct {
		entries []FeedEntry
		want    int
	}{
		{nil, 0},
		{[]FeedEntry{entry(1), entry(2)}, 2},
		{[]FeedEntry{entry(feedBytes), entry(0)}, 2},
		{[]FeedEntry{entry(feedBytes), entry(1)}, 1},
		{[]FeedEntry{entry(feedBytes + 1), entry(0)}, 1},
	} {
		if got := fittingFeed(test.entries); got != test.want {
			t.Errorf("%d of %d entries, want %d", got, len(test.entries), test.want)
		}
	}
}
