package bucket

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/budgetd/budgetd/budget"
)

// DeductResult is what became of one request of DeductAll: an answer, or an error as of Deduct.
type DeductResult struct {
	Answer DeductAnswer
	Err    error
}

// DeductAll makes many deductions in one call, each for itself, and returns what became of each, in the
// order given. It is as if Deduct were called for each of them: those of one request id one after the
// other, in the order given, all others side by side.
func (s *Service) DeductAll(ctx context.Context, requests []DeductRequest) []DeductResult {
	results := make([]DeductResult, len(requests))
	var running sync.WaitGroup
	for _, chain := range chainsOf(requests) {
		running.Go(func() {
			for _, i := range chain {
				results[i] = s.deductSafely(ctx, requests[i])
			}
		})
	}
	running.Wait()
	return results
}

// deductSafely is Deduct; a panic becomes an error of that request alone.
func (s *Service) deductSafely(ctx context.Context, r DeductRequest) (result DeductResult) {
	defer func() {
		if why := recover(); why != nil {
			result = DeductResult{Err: &budget.Error{Code: budget.Internal, Op: "deduct",
				Err: fmt.Errorf("panic: %v\n%s", why, debug.Stack())}}
		}
	}()
	answer, err := s.Deduct(ctx, r)
	return DeductResult{Answer: answer, Err: err}
}

// chainsOf groups the requests of each id, in order. The budget does not matter: it may be named in two
// ways, and waiting for another budget's request does no harm.
func chainsOf(requests []DeductRequest) [][]int {
	chains := make([][]int, 0, len(requests))
	byID := make(map[string]int, len(requests))
	for i := range requests {
		at, found := byID[requests[i].RequestID]
		if !found {
			at = len(chains)
			byID[requests[i].RequestID] = at
			chains = append(chains, nil)
		}
		chains[at] = append(chains[at], i)
	}
	return chains
}
