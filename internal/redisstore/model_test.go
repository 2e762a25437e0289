package redisstore_test

import (
	"slices"
	"strings"

	"github.com/budgetd/budgetd/bucket"
)

// modelBucket is what one partition has of one bucket, by the contract of package bucket. It knows
// neither keys nor scripts. It keeps the list of what every limit counted, and sums it up each
// time.
type modelBucket struct {
	newest, epoch                  int64
	state                          string // "" without an entry, or open, closed, moving, copied, copying ATTEMPT
	balance, taken, given, granted int64
	limits                         int64                // the newest version of the limits
	late                           map[int64]int64      // by epoch
	changed                        map[int64]bool       // by epoch; 0 is the entry
	records                        map[string]*recorded // by id
	counted                        map[limitOf][]count
}

// recorded is a record with what concerns limits.
type recorded struct {
	bucket.Record
	value   string
	version int64
	counts  map[limitOf]int64
}

// limitOf names the count of a value in a limit.
type limitOf struct {
	value, name string
	changed     int64
}

// count is what one deduction counts.
type count struct {
	id      string
	atMS, n int64
}

func newModelBucket() *modelBucket {
	return &modelBucket{late: map[int64]int64{}, changed: map[int64]bool{},
		records: map[string]*recorded{}, counted: map[limitOf][]count{}}
}

// begin sets the entry to an epoch without units.
func (b *modelBucket) begin(epoch int64, state string) {
	b.epoch, b.newest, b.state = epoch, max(b.newest, epoch), state
	b.balance, b.taken, b.given, b.granted = 0, 0, 0, 0
}

// leaves reports whether the bucket is being moved, here or to here.
func (b *modelBucket) leaves() bool {
	return b.state == "moving" || b.state == "copied" || strings.HasPrefix(b.state, "copying")
}

// entry returns a verdict with the entry's figures.
func (b *modelBucket) entry(v bucket.Verdict) bucket.Entry {
	if v == bucket.Lost || v == bucket.NotFound || v == bucket.Broken {
		return bucket.Entry{Verdict: v}
	}
	return bucket.Entry{Verdict: v, Epoch: b.epoch, Balance: b.balance, Taken: b.taken,
		GivenBack: b.given, LastGrant: b.granted}
}

func (b *modelBucket) open(o bucket.Opening) bucket.Entry {
	here := b.state != "" && b.epoch == o.Epoch
	switch {
	case b.newest > o.Epoch, here && b.state != "open" && b.state != "moving":
		return b.entry(bucket.Closed)
	case here && b.state == "moving":
		return b.entry(bucket.Moving)
	case here:
	case b.newest == o.Epoch:
		return b.entry(bucket.Lost)
	case strings.HasPrefix(b.state, "copying"),
		o.CopyOf > 0 && (b.state != "copied" || b.epoch != o.CopyOf):
		return b.entry(bucket.Moving)
	default:
		b.begin(o.Epoch, "open")
	}
	return b.entry(bucket.Accepted)
}

func (b *modelBucket) grant(g bucket.StoreGrant) bucket.Entry {
	here := b.state != "" && b.epoch == g.Epoch
	switch {
	case !here && b.newest > g.Epoch, here && b.state == "closed":
		return b.entry(bucket.Closed)
	case !here:
		return b.entry(bucket.Lost)
	case b.leaves():
		return b.entry(bucket.Moving)
	case g.Number > b.granted+1:
		return b.entry(bucket.Gap)
	case g.Number == b.granted+1:
		b.balance, b.granted = b.balance+g.Amount, g.Number
	}
	return b.entry(bucket.Accepted)
}

func (b *modelBucket) close(epoch int64, moving bool) bucket.Entry {
	here, state := b.state != "" && b.epoch == epoch, "closed"
	if moving {
		state = "moving"
	}
	switch {
	case b.newest > epoch, here && b.leaves() && b.state != "moving":
		return b.entry(bucket.Closed)
	case here && (b.state == "open" || moving):
		b.state = state
	case here:
	case b.newest == epoch:
		return b.entry(bucket.Lost)
	default:
		b.begin(epoch, state)
	}
	return b.entry(bucket.Accepted)
}

// verdict is the verdict on the entry, whatever its epoch.
func (b *modelBucket) verdict() bucket.Verdict {
	switch {
	case b.state == "":
		return bucket.Lost
	case b.leaves():
		return bucket.Moving
	case b.state == "closed":
		return bucket.Closed
	}
	return bucket.Accepted
}

func (b *modelBucket) read(epoch int64) bucket.Entry {
	out := b.entry(bucket.NotFound)
	switch {
	case b.state == "" && b.newest == epoch:
		out = b.entry(bucket.Lost)
	case b.state != "" && b.epoch == epoch:
		out = b.entry(b.verdict())
	}
	out.Late = b.late[epoch]
	return out
}

// sum returns the changed sum of an ended epoch, or of the entry if epoch is 0.
func (b *modelBucket) sum(id, epoch int64) bucket.Sum {
	units, known := b.late[epoch]
	switch {
	case epoch > 0 && known:
		return bucket.Sum{Bucket: id, Epoch: epoch, Late: true, LateSum: units, Verdict: bucket.Accepted}
	case epoch > 0:
		return bucket.Sum{Bucket: id, Epoch: epoch, Late: true, Verdict: bucket.Lost}
	case b.state == "":
		return bucket.Sum{Bucket: id, Epoch: b.newest, Verdict: bucket.Lost}
	}
	return bucket.Sum{Bucket: id, Epoch: b.epoch, Taken: b.taken, GivenBack: b.given,
		Verdict: b.verdict()}
}

func (b *modelBucket) acknowledge(sum bucket.Sum) {
	epoch := int64(0)
	if sum.Late {
		epoch = sum.Epoch
	}
	now := b.sum(sum.Bucket, epoch)
	if now.Verdict != bucket.Lost && now.Epoch == sum.Epoch && now.Taken == sum.Taken &&
		now.GivenBack == sum.GivenBack && now.LateSum == sum.LateSum {
		delete(b.changed, epoch)
	}
}

// beginCopy removes what the bucket has, and names the attempt.
func (b *modelBucket) beginCopy(epoch int64, attempt string) bucket.Verdict {
	if b.newest > epoch || b.state != "" && b.epoch == epoch &&
		b.state != "copied" && !strings.HasPrefix(b.state, "copying") {
		return bucket.Closed
	}
	b.begin(epoch, "copying "+attempt)
	clear(b.records)
	clear(b.counted)
	clear(b.late)
	return bucket.Accepted
}

// addCopy adds what another partition has of the bucket. Records of its incarnations before since
// cannot be rolled back here.
func (b *modelBucket) addCopy(epoch int64, attempt string, from *modelBucket, since, incarnation int64) bucket.Verdict {
	if b.epoch != epoch || b.state != "copying "+attempt {
		return bucket.Closed
	}
	for id, r := range from.records {
		moved := *r
		moved.Incarnation = 0
		if r.Incarnation >= since {
			moved.Incarnation = incarnation
		}
		b.records[id] = &moved
	}
	for of, list := range from.counted {
		b.counted[of] = slices.Clone(list)
	}
	for epoch, units := range from.late {
		b.late[epoch], b.changed[epoch] = units, true
	}
	return bucket.Accepted
}

func (b *modelBucket) endCopy(epoch int64, attempt string) bucket.Verdict {
	switch {
	case b.epoch == epoch && b.state == "copied":
	case b.epoch == epoch && b.state == "copying "+attempt:
		b.state = "copied"
	default:
		return bucket.Closed
	}
	return bucket.Accepted
}
