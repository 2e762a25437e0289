package bucket

import (
	"strconv"
	"strings"
)

// Receipt locates a deduction for calls that come later. It is opaque to callers.
func Receipt(bucket, epoch int64) string {
	var text [2 * 20]byte
	b := append(strconv.AppendInt(text[:0], bucket, 10), '.')
	return string(strconv.AppendInt(b, epoch, 10))
}

// ParseReceipt reads a receipt; ok is false where the text is none.
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
