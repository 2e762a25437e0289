package bucket

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/budgetd/budgetd/budget"
)

// TestQueueTakes: a call takes the same number of items of each owner that has them, the oldest first, and nobody
// twice before the others had their turn.
func TestQueueTakes(t *testing.T) {
	tests := []struct {
		name   string
		queued []int // owner*100 + n
		size   int
		busy   int // owner of whom nothing may be taken
		want   [][]int
	}{
		{"one owner", []int{101, 102, 103}, 2, 0, [][]int{{101, 102}, {103}, {}}},
		{"all of it", []int{101, 201, 102}, 5, 0, [][]int{{101, 201, 102}, {}}},
		{"a crowd and two others", []int{101, 102, 103, 104, 105, 106, 107, 201, 301}, 4, 0,
			[][]int{{101, 201, 301, 102}, {103, 104, 105, 106}, {107}}},
		{"more owners than a call takes", []int{101, 102, 201, 202, 301, 302}, 2, 0,
			[][]int{{101, 201}, {301, 102}, {202, 302}, {}}},
		{"one is busy", []int{101, 102, 201, 102, 301}, 3, 1, [][]int{{201, 301}, {}}},
		{"all are busy", []int{101, 102}, 3, 1, [][]int{{}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q := queueOf(test.queued)
			var busy func(*item[int, int]) bool
			if test.busy > 0 {
				busy = func(it *item[int, int]) bool { return it.owner == int64(test.busy) }
			}
			for i, want := range test.want {
				got := []int{}
				for _, it := range q.take(test.size, busy) {
					got = append(got, it.question)
				}
				if !slices.Equal(got, want) {
					t.Errorf("call %d takes %v, want %v", i, got, want)
				}
			}
		})
	}
}

func queueOf(items []int) *queue[int, int] {
	q := &queue[int, int]{}
	of := &ticket[int]{}
	for _, n := range items {
		q.append(&item[int, int]{question: n, owner: int64(n / 100), of: of})
	}
	return q
}

// TestQueueAtRandom: whatever is done, nothing is in the queue twice, lost, or out of its owner's order; a call is as
// large as it can be; and nobody who could have had one more had less than another.
func TestQueueAtRandom(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		q, waiting, n := &queue[int, int]{}, map[int64][]int{}, 0
		tickets := []*ticket[int]{{}, {}, {}}
		var all []*item[int, int]
		for range 200 {
			switch rnd.IntN(4) {
			case 0, 1:
				for range rnd.IntN(6) {
					n++
					it := &item[int, int]{question: n, owner: int64(rnd.IntN(5)), of: tickets[rnd.IntN(3)]}
					q.append(it)
					all = append(all, it)
					waiting[it.owner] = append(waiting[it.owner], n)
				}
			case 2:
				takeAtRandom(t, q, waiting, 1+rnd.IntN(12))
			case 3:
				gone := tickets[rnd.IntN(3)]
				removeOf(q, gone, all, waiting)
			}
			length := 0
			for _, items := range waiting {
				length += len(items)
			}
			if q.length != length || t.Failed() {
				t.Fatalf("seed %d: the length is %d, want %d", seed, q.length, length)
			}
		}
	}
}

func takeAtRandom(t *testing.T, q *queue[int, int], waiting map[int64][]int, size int) {
	t.Helper()
	got, length, per := q.take(size, nil), 0, map[int64]int{}
	for _, items := range waiting {
		length += len(items)
	}
	for _, it := range got {
		if len(waiting[it.owner]) == 0 || waiting[it.owner][0] != it.question {
			t.Fatalf("took %d of %d, who has %v", it.question, it.owner, waiting[it.owner])
		}
		waiting[it.owner] = waiting[it.owner][1:]
		per[it.owner]++
	}
	if len(got) != min(size, length) {
		t.Fatalf("took %d of %d, at most %d", len(got), length, size)
	}
	for owner, items := range waiting {
		for other, had := range per {
			if len(items) > 0 && per[owner] < had-1 {
				t.Fatalf("%d had %d while %d had %d and %d more waited", other, had, owner, per[owner], len(items))
			}
		}
	}
}

// removeOf removes what waits of one ticket.
func removeOf(q *queue[int, int], of *ticket[int], all []*item[int, int], waiting map[int64][]int) {
	var gone []*item[int, int]
	for _, it := range all {
		if it.of == of && slices.Contains(waiting[it.owner], it.question) {
			gone = append(gone, it)
			waiting[it.owner] = slices.DeleteFunc(waiting[it.owner], func(n int) bool { return n == it.question })
		}
	}
	q.remove(gone)
}

// TestBatcherFullIsFair: when no more may wait, whoever has least waiting gets room, and the one who has most gives it.
func TestBatcherFullIsFair(t *testing.T) {
	g := newGates()
	b := &batcher[int, int]{run: g.run, size: 10, bound: 4, workers: 1, owner: func(i int) int64 { return int64(i / 100) }}
	ctx := context.Background()
	first := b.hand([]int{1})
	<-g.began
	crowd := b.hand([]int{101, 102, 103, 104, 105}) // the last one finds no room
	other := b.hand([]int{201, 202})                // in the place of 104 and 103
	third := b.hand([]int{203, 301})                // 203 finds nobody who has more; 301 takes the place of a second one
	for _, item := range []int{1, 101} {
		g.goOn(item)
	}
	b.wait(ctx, first)
	for _, h := range []struct {
		name string
		of   handed[int, int]
		want []int
	}{{"crowd", crowd, []int{1010, 0, 0, 0, 0}}, {"other", other, []int{2010, 2020}}, {"third", third, []int{0, 3010}}} {
		got := b.wait(ctx, h.of)
		if !slices.Equal(answersOf(got), h.want) {
			t.Errorf("%s: %v, want %v", h.name, answersOf(got), h.want)
		}
		for i, r := range got {
			if h.want[i] == 0 && !budget.Is(r.err, budget.Unavailable) {
				t.Error(fmt.Sprintf("%s: item %d: %v, want unavailable", h.name, i, r.err))
			}
		}
	}
}
