package bench

import (
	"context"
	"crypto/rand"
	"strconv"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/cmd/budgetctl/bench/load"
)

// Plan says what is sent to which budgets, how fast, and what is watched meanwhile.
type Plan struct {
	// Host is the server as the Host header names it, Path what its URLs begin with ("" or "/x").
	Host, Path string
	// Token is the key that each call carries; "": none.
	Token string
	// Tenant is whose budgets are meant; "": the server's default.
	Tenant string
	// Budgets are names, all of the same tenant; they are used equally.
	Budgets []string
	// IDPrefix begins the request ids; another run needs another one.
	IDPrefix string
	// Amount of every deduction, minor units.
	Amount int64
	// Batch is the number of deductions per call, 1 … client.MaxBatch; 1 uses the single call.
	Batch int
	// Users is how many values Dimension has, used equally; 0: the deductions carry no dimension.
	Users     int
	Dimension string
	// RollbackShare of the accepted deductions are given back, by a call of its own each; RepeatShare
	// of the deductions repeat an accepted one. 0 to 1, below 1 for repeats.
	RollbackShare, RepeatShare float64
	// Load is how much is sent, and how fast. Kinds is filled in.
	Load        load.Plan
	Connections int
	// Warmup is how long the same load runs before anything is measured; what it deducts counts in the
	// exactness check like everything else.
	Warmup time.Duration
	// Settle is how long the budget may take, after the load, to agree with the callers' books.
	Settle time.Duration
	// Processes are watched: their CPU time and memory.
	Processes []load.Process
}

// Service is what a run needs of *client.Client.
type Service interface {
	Budget(ctx context.Context, name string) (*client.Budget, error)
	Audit(ctx context.Context, name string) (*client.AuditReport, error)
	Deduct(ctx context.Context, name string, r client.DeductRequest) (*client.DeductAnswer, error)
	Rollback(ctx context.Context, name string, r client.RollbackRequest) (*client.Deduction, error)
	Cancel(ctx context.Context, name string, r client.CancelRequest) (*client.Deduction, error)
}

// item is one deduction: the number of its caller and its own.
type item struct {
	caller, number uint32
	repeat         bool
}

// deductionOf returns the whole of a deduction: everything but the budget's name.
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

// MaxPrefixBytes leaves room for a caller's number and a deduction's in a request id.
const MaxPrefixBytes = budget.MaxRequestIDBytes - 22

// NewIDPrefix returns a prefix that no other run has.
func NewIDPrefix() string { return "b" + rand.Text()[:12] }
