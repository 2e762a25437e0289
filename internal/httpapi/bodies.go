package httpapi

import (
	"errors"
	"io"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/internal/ratelimit"
)

// freeBytes is the part of each body that is not counted. Requests in flight are bounded, so these
// parts are too, and large bodies cannot keep out small ones.
const freeBytes = 16 << 10

// errCrowded means that bodies in progress have as many bytes as they may.
var errCrowded = errors.New("too many bytes of bodies")

// countedBody counts the bytes of a body as they arrive, until the request ends.
type countedBody struct {
	io.Reader
	share  *ratelimit.Share
	bounds []ratelimit.Bound
	// arrived is the number of bytes, taken what was counted of them.
	arrived, taken int64
}

// Read returns errCrowded if the bytes exceed a bound.
func (b *countedBody) Read(into []byte) (int, error) {
	n, err := b.Reader.Read(into)
	b.arrived += int64(n)
	if more := b.arrived - freeBytes - b.taken; more > 0 {
		if !b.share.Take(more, b.bounds...) {
			return 0, errCrowded
		}
		b.taken += more
	}
	return n, err
}

// release returns what was counted.
func (b *countedBody) release() {
	if b.taken > 0 {
		b.share.Return(b.taken, b.bounds...)
		b.taken = 0
	}
}

// boundsOf returns the bounds of a quantity of which all callers together may have most. A tenant
// may have half of it, as may a principal of all tenants. A server without authentication does not
// know whom to bound.
func (a *API) boundsOf(p *access.Principal, most int64) []ratelimit.Bound {
	all := ratelimit.Bound{Most: most}
	if p == nil || a.admission.auth.Open {
		return []ratelimit.Bound{all}
	}
	holder := "principal " + p.Name
	if p.Scope.Tenant != "" {
		holder = "tenant " + p.Scope.Tenant
	}
	return []ratelimit.Bound{all, {Holder: holder, Most: (most + 1) / 2}}
}
