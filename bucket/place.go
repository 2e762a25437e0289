package bucket

import (
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/budget"
)

// Lane names the part of an instance in which one script can touch every key.
type Lane struct {
	Instance string
	Index    int
}

// String names a lane as the placement ring and people do.
func (l Lane) String() string { return l.Instance + "/" + strconv.Itoa(l.Index) }

// KeyOf is the public name of a budget's bucket: `<budget's name>:bucket-<ordinal>`.
func KeyOf(name string, ordinal int) string { return name + ":bucket-" + strconv.Itoa(ordinal) }

// Ref names one life of one bucket: every message to a store carries it, and the store refuses it
// when it is not the life it knows.
type Ref struct {
	Bucket, Epoch int64
	// Activation is the incarnation of the lane under which the epoch was opened.
	Activation int64
}

// Check returns what is wrong with the numbers of a Ref, as an error of code Invalid: stores make
// keys, ids and Lua numbers of them.
func (r Ref) Check() error {
	if r.Bucket < 1 || !budget.ValidAmount(r.Epoch) || !budget.ValidAmount(r.Activation) {
		return budget.Refuse(budget.Invalid, "address a bucket",
			"bucket %d, epoch %d, activation %d: each must be at least 1, the last two at most %d",
			r.Bucket, r.Epoch, r.Activation, budget.MaxAmount)
	}
	return nil
}

// Receipt locates a deduction for calls that come later. It is opaque to callers.
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
