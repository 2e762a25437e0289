package bench

import (
	"crypto/rand"
	"strconv"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/cmd/budgetctl/workload"
)

// Plan is what to send, to which budgets and how fast.
type Plan struct {
	// Host is the value of the Host header, Path the beginning of the server's URLs ("" or "/x").
	Host, Path string
	// Token is the key that each call carries; "" means that it carries no key.
	Token string
	// Tenant is the tenant of the budgets; "" means the server's default.
	Tenant string
	// Budgets are names of budgets of the tenant. Each gets an equal share of the load.
	Budgets []string
	// IDPrefix begins the request ids. Each run needs another one.
	IDPrefix string
	// Amount is the amount of every deduction, in minor units.
	Amount int64
	// Batch is the number of deductions per call, 1 … client.MaxBatch; 1 uses the single call.
	Batch int
	// Users is how many values of Dimension the deductions carry, in equal parts; 0 means that they
	// carry no dimension.
	Users     int
	Dimension string
	// RollbackShare is the share of accepted deductions that are rolled back, each by a separate
	// call; 0 to 1. RepeatShare is the share of deductions that repeat an accepted one; below 1.
	RollbackShare, RepeatShare float64
	// Load is how much to send and how fast. Run sets its Kinds.
	Load        workload.Plan
	Connections int
	// Warmup is how long the load runs before the measured time. The check of exactness includes
	// it.
	Warmup time.Duration
	// Settle is how long a budget may take after the load to agree with the callers' books.
	Settle time.Duration
	// Processes are those whose CPU time and memory are measured.
	Processes []workload.Process
}

// item identifies a deduction by the number of its caller and its own number.
type item struct {
	caller, number uint32
	repeat         bool
}

// deductionOf returns the request of a deduction and the index of its budget.
func (p *Plan) deductionOf(i item) (budgetIndex int, request client.DeductRequest) {
	at, user := p.draw(i)
	request = client.DeductRequest{RequestID: string(p.appendID(nil, i)), Amount: p.Amount}
	if p.Users > 0 {
		request.Dimensions = map[string]string{p.Dimension: string(appendUser(nil, user))}
	}
	return at, request
}

// draw returns the budget and the user of a deduction.
func (p *Plan) draw(i item) (budgetIndex, user int) {
	h := mixed(uint64(i.caller)<<32 | uint64(i.number))
	if p.Users > 0 {
		user = int(uint32(h)) % p.Users
	}
	return int(h>>32) % len(p.Budgets), user
}

// mixed is the last step of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
// Generators, 2014).
func mixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (p *Plan) appendID(to []byte, i item) []byte {
	to = append(to, p.IDPrefix...)
	to = append(to, '-')
	to = strconv.AppendUint(to, uint64(i.caller), 10)
	to = append(to, '-')
	return strconv.AppendUint(to, uint64(i.number), 10)
}

func appendUser(to []byte, user int) []byte {
	return strconv.AppendInt(append(to, 'u'), int64(user), 10)
}

// NewIDPrefix returns a prefix that no other run has.
func NewIDPrefix() string { return "b" + rand.Text()[:12] }
