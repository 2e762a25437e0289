package deduct

import "sync"

// Recent holds the amounts of the last deductions of a budget that were accepted on this node. It
// is safe for concurrent use.
type Recent struct {
	mu   sync.Mutex
	last [16]int64
	sum  int64 // of last: 16 amounts of at most budget.MaxAmount
	n    int
}

// Add records an accepted deduction. It returns the mean of the amounts, rounded up.
func (r *Recent) Add(amount int64) (mean int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	place := r.n % len(r.last)
	r.sum += amount - r.last[place]
	r.last[place] = amount
	r.n++
	return (r.sum-1)/int64(min(r.n, len(r.last))) + 1
}

// Usual returns the second largest of the amounts, so that one large deduction does not decide; 0
// if there are fewer than two.
func (r *Recent) Usual() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, second := int64(0), int64(0)
	for _, amount := range r.last[:min(r.n, len(r.last))] {
		switch {
		case amount > first:
			first, second = amount, first
		case amount > second:
			second = amount
		}
	}
	return second
}
