package bucket

import (
	"context"
	"testing"
)

// TestLanesCommitsAndLookUpsAreFair: a budget whose deductions fill the queue of a lane, of the commits, or of the looks for
// ids in the ledger, leaves room for the others there, and a place in the next call.
func TestLanesCommitsAndLookUpsAreFair(t *testing.T) {
	const room, hot, cold = 8, 1, 2
	s, err := New(Config{Rand: func([]byte) {}, Lanes: map[string]int{"a": 1},
		Settings: Settings{Queue: room, Committers: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("deducts of a lane", func(t *testing.T) {
		leavesRoom(t, s.lanes[s.laneOrder[0]].deducts, room, Operation{Budget: hot}, Operation{Budget: cold})
	})
	s.committer.beside = nil
	t.Run("commits", func(t *testing.T) {
		leavesRoom(t, s.committer, room, mark{budget: hot}, mark{budget: cold})
	})
	s.lookups.workers = 1
	t.Run("looks for ids", func(t *testing.T) {
		leavesRoom(t, s.lookups, room, ID{Budget: hot}, ID{Budget: cold})
	})
}

// leavesRoom fills a batcher with somebody's items while a call is under way, and hands in another one's.
func leavesRoom[Q comparable, A any](t *testing.T, b *batcher[Q, A], room int, hot, cold Q) {
	t.Helper()
	b.size = 2
	begun, goOn := make(chan []Q, room), make(chan struct{})
	b.run = func(items []Q) []result[A] {
		begun <- items
		<-goOn
		return make([]result[A], len(items))
	}
	questions := make([]Q, 1+room)
	for i := range questions {
		questions[i] = hot
	}
	first := b.hand(questions[:1])
	<-begun
	full := b.hand(questions[1:])
	other := b.hand([]Q{cold})
	goOn <- struct{}{}
	if next := <-begun; next[0] != cold && next[1] != cold {
		t.Error("the other one's item is not in the next call")
	}
	close(goOn)
	if r := b.wait(context.Background(), other)[0]; r.err != nil {
		t.Errorf("the other one: %v", r.err)
	}
	refused := 0
	for _, r := range append(b.wait(context.Background(), full), b.wait(context.Background(), first)...) {
		if r.err != nil {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d are refused, want 1: room for %d, %d waiting", refused, room, room+1)
	}
}
