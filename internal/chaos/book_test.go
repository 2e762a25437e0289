package chaos

import (
	"strings"
	"testing"
)

// TestCompareSees checks that every way in which a ledger can differ from the answers is detected.
func TestCompareSees(t *testing.T) {
	told := func() *book {
		b := newBook("b", 100)
		b.add("plain", 5, "").accepted = true
		part2 := b.add("part", 5, "")
		part2.accepted, part2.parts["p"] = true, &part{amount: 2, done: true}
		whole := b.add("whole", 5, "")
		whole.accepted, whole.parts["p"], whole.parts[""] = true, &part{amount: 2, done: true}, &part{done: true}
		b.add("refused", 5, "")
		b.add("void", 5, "").cancel = cancelVoid
		back := b.add("back", 5, "")
		back.accepted, back.cancel = true, cancelBack
		b.adjust("more", 20).done = true
		b.adjust("less", -50)
		return b
	}
	ledger := func() books {
		return books{
			rows: map[string]row{"plain": {amount: 5}, "part": {amount: 5, rolledBack: 2},
				"whole": {amount: 5, rolledBack: 5}, "void": {isVoid: true}, "back": {amount: 5, rolledBack: 5}},
			adjustments: map[string]string{"more": "done", "less": "refused"},
			total:       120, undistributed: 100, outstanding: 12, used: 8,
		}
	}
	for _, tt := range []struct {
		name   string
		change func(b *book, l *books)
		want   string // part of a difference; "": none
	}{
		{"nothing", func(*book, *books) {}, ""},
		{"an accepted id is missing", func(_ *book, l *books) { delete(l.rows, "plain") },
			"accepted and not there"},
		{"a refused id is there", func(_ *book, l *books) { l.rows["refused"] = row{amount: 5} },
			"never accepted, but there"},
		{"another amount", func(_ *book, l *books) { l.rows["plain"] = row{amount: 6} },
			"another amount"},
		{"a part was not given back", func(_ *book, l *books) {
			l.rows["part"] = row{amount: 5}
		}, "another amount"},
		{"given back twice", func(_ *book, l *books) { l.rows["part"] = row{amount: 5, rolledBack: 4} },
			"another amount"},
		{"a used one is a tombstone", func(_ *book, l *books) { l.rows["plain"] = row{isVoid: true} },
			"another amount"},
		{"a void id took effect", func(_ *book, l *books) { l.rows["void"] = row{amount: 5} },
			"no tombstone"},
		{"a tombstone is missing", func(_ *book, l *books) { delete(l.rows, "void") }, "no tombstone"},
		{"a cancelled one is used", func(_ *book, l *books) { l.rows["back"] = row{amount: 5} },
			"another amount"},
		{"an id nobody sent", func(_ *book, l *books) { l.rows["x"] = row{amount: 1} },
			"nobody sent"},
		{"epochs disagree with rows", func(_ *book, l *books) { l.used, l.outstanding = 9, 11 }, "rows say"},
		{"parts do not add up", func(_ *book, l *books) { l.undistributed = 99 }, "add up to"},
		{"the total", func(_ *book, l *books) { l.total, l.undistributed = 121, 101 }, "callers were told 120"},
		{"an append was lost", func(_ *book, l *books) { l.adjustments["more"] = "pending" }, "adjustment more"},
		{"a refused shrink was done", func(_ *book, l *books) { l.adjustments["less"] = "done" },
			"adjustment less"},
		{"an adjustment nobody sent", func(_ *book, l *books) { l.adjustments["x"] = "done" }, "adjustment x"},
		{"quarantine in ledger mode", func(_ *book, l *books) { l.undistributed, l.quarantined = 90, 10 },
			"ledger mode"},
		{"not settled", func(b *book, _ *books) { b.records["refused"].open = true }, "not settled"},
		{"a rollback not settled", func(b *book, _ *books) { b.records["part"].parts["p"].open = true },
			"not settled"},
		{"store mode: lost and quarantined", func(b *book, l *books) {
			b.store, l.used, l.undistributed, l.quarantined = true, 3, 100, 5
			delete(l.rows, "plain")
		}, ""},
		{"store mode: more lost than quarantined", func(b *book, l *books) {
			b.store, l.used, l.undistributed, l.quarantined = true, 3, 101, 4
			delete(l.rows, "plain")
		}, "lost 5, quarantined 4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, l := told(), ledger()
			tt.change(b, &l)
			got, _ := b.compare(l)
			text := strings.Join(got, "\n")
			if tt.want == "" && text != "" || !strings.Contains(text, tt.want) {
				t.Errorf("differences %q, want one with %q", text, tt.want)
			}
		})
	}
}
