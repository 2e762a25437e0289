package bucket

import "testing"

// FuzzParseReceipt checks that only what Receipt wrote is a receipt.
func FuzzParseReceipt(f *testing.F) {
	for _, text := range []string{Receipt(1, 1), Receipt(1<<62, 9), "", "1", "0.1", "1.01", "+1.1", "1.1.1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if bucket, epoch, ok := ParseReceipt(text); ok && (bucket < 1 || epoch < 1 || Receipt(bucket, epoch) != text) {
			t.Errorf("%q: %d, %d", text, bucket, epoch)
		}
	})
}
