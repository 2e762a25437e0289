package sim

import (
	"sync"
	"time"
)

// instants hands out instants of virtual time, each to one goroutine only. Safe for concurrent use.
type instants struct {
	seed uint64

	mu      sync.Mutex
	claimed map[int64]struct{} // by those who wait
	// now is the present instant, asked what was asked for at it.
	now       int64
	asked     map[uint64]struct{}
	ambiguous int
}

func newInstants(seed uint64) *instants {
	return &instants{seed: seed, claimed: map[int64]struct{}{}, asked: map[uint64]struct{}{}}
}

// until waits for an instant of its own, no earlier than least and, but for what others have taken, no
// later than least + spread from now. what names who asks and for what. It returns a number that is
// as good as random and the same whenever the same is asked for at the same instant.
func (in *instants) until(what uint64, least, spread time.Duration) uint64 {
	in.mu.Lock()
	now, chance := in.ask(what)
	due := in.claim(now+int64(max(least, 1))+int64(mix(chance)%uint64(max(spread, 1))), 1)
	in.mu.Unlock()
	in.wait(due)
	return chance
}

// turn waits a moment. Several turns are asked for at the same instant, in no certain order; each place
// has nanoseconds of its own, so that none takes another's.
func (in *instants) turn(what uint64, place int64) {
	const places, rounds = 1024, 4
	in.mu.Lock()
	now, chance := in.ask(what)
	due := in.claim(now+1+place%places+places*int64(chance%rounds), places)
	in.mu.Unlock()
	in.wait(due)
}

func (in *instants) wait(due int64) {
	time.Sleep(time.Duration(due - virtual()))
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.claimed, due)
}

// ask notes what is asked for at the present instant, and returns both as a number. in.mu is held.
func (in *instants) ask(what uint64) (now int64, chance uint64) {
	now = virtual()
	if now != in.now {
		in.now = now
		clear(in.asked)
	}
	if _, twice := in.asked[what]; twice {
		in.ambiguous++
	}
	in.asked[what] = struct{}{}
	return now, mix(mix(in.seed^what) ^ uint64(now))
}

// claim takes the first instant of due, due + step, … that is free. in.mu is held.
func (in *instants) claim(due, step int64) int64 {
	for {
		if _, taken := in.claimed[due]; !taken {
			in.claimed[due] = struct{}{}
			return due
		}
		due += step
	}
}

// virtual is the bubble's clock in nanoseconds.
func virtual() int64 { return time.Now().UnixNano() }

// mix is the finalizer of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
// Generators, 2014): every bit of the result depends on every bit of x.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// name turns a text into a number for instants.until (FNV-1a, 64 bits).
func name(text string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 0x100000001b3
	}
	return h
}
