package bucket

import (
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ring"
)

// Partition names a part of an instance in which one script can access every key.
type Partition struct {
	Instance string
	Index    int
}

// String returns the partition's name in the placement ring and in texts for people.
func (l Partition) String() string { return l.Instance + "/" + strconv.Itoa(l.Index) }

// KeyOf returns the public name of a budget's bucket: `<budget's name>:bucket-<ordinal>`.
func KeyOf(name string, ordinal int) string { return name + ":bucket-" + strconv.Itoa(ordinal) }

// Ref names one epoch of one bucket. Every message to a store contains it, and the store refuses a
// message for another epoch than its own.
type Ref struct {
	Bucket, Epoch int64
	// Incarnation is the incarnation of the partition under which the epoch was opened.
	Incarnation int64
}

// Check returns an error of code Invalid if the numbers of a Ref are out of range, because stores
// build keys, ids and Lua numbers from them.
func (r Ref) Check() error {
	if r.Bucket < 1 || !budget.ValidAmount(r.Epoch) || !budget.ValidAmount(r.Incarnation) {
		return budget.Refuse(budget.Invalid, "address a bucket",
			"bucket %d, epoch %d, incarnation %d: each must be at least 1, the last two at most %d",
			r.Bucket, r.Epoch, r.Incarnation, budget.MaxAmount)
	}
	return nil
}

// Receipt returns a text that locates a deduction for later calls. It is opaque to callers.
func Receipt(bucket, epoch int64) string {
	var text [2 * 20]byte
	b := append(strconv.AppendInt(text[:0], bucket, 10), '.')
	return string(strconv.AppendInt(b, epoch, 10))
}

// ParseReceipt parses a receipt. ok is false for any other text.
func ParseReceipt(text string) (bucket, epoch int64, ok bool) {
	first, second, _ := strings.Cut(text, ".")
	bucket, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return 0, 0, false
	}
	epoch, err = strconv.ParseInt(second, 10, 64)
	if err != nil || bucket < 1 || epoch < 1 || Receipt(bucket, epoch) != text {
		return 0, 0, false
	}
	return bucket, epoch, true
}

// ringOf returns the ring over the ordinals of n buckets. Budgets with the same number share it.
func (c *Budgets) ringOf(n int) *ring.Ring {
	if n == 0 {
		return nil
	}
	if r, ok := c.rings.Get(n); ok {
		return r
	}
	nodes := make([]string, n)
	for i := range nodes {
		nodes[i] = strconv.Itoa(i)
	}
	r, err := ring.New(nodes, max(min(c.points, maxRingPoints/n), 1))
	if err != nil {
		panic(err) // ordinals are distinct, and n is bounded by budget.MaxBuckets
	}
	c.rings.Add(n, r)
	return r
}
