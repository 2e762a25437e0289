package bench

import (
	"fmt"
	"testing"
)

// BenchmarkCaller measures the work of the load generator per deduction, without a network.
func BenchmarkCaller(b *testing.B) {
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch %d", batch), func(b *testing.B) {
			p := testPlan()
			p.Batch, p.Users, p.RollbackShare = batch, 100_000, 0
			c := testCaller(p)
			buf, _ := c.Request(nil)
			answer := answerTo(p, c.items)
			b.ReportAllocs()
			for b.Loop() {
				// The same numbers each time, so that the answer is to this request.
				c.next = 0
				buf, _ = c.Request(buf[:0])
				c.Answer(200, answer)
			}
			if c.tally.wrong > 0 {
				b.Fatal(c.tally.wrongWords)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/deduction")
		})
	}
}

// answerTo returns an answer as long as budgetd's that accepts these deductions.
func answerTo(p *Plan, items []item) []byte {
	one := func(to []byte, i item) []byte {
		to = append(to, `{"request_id":"`...)
		to = p.appendID(to, i)
		return append(to, `","outcome":"accepted","amount":1,"state":"used","bucket":"spring-sale:bucket-3",`+
			`"bucket_remaining":124999998765,"budget_remaining":999999987654,"limits":[{"name":"per-day","dimension":"user",`+
			`"value":"u12345","used":17,"max":1000000000,"reset_at":"2026-11-23T00:00:00Z"},{"name":"per-user",`+
			`"dimension":"user","value":"u12345","used":17,"max":1000000000}],"receipt":"r1:4711:12:123456","replayed":false}`...)
	}
	if p.Batch == 1 {
		return one(nil, items[0])
	}
	text := []byte(`{"results":[`)
	for n, i := range items {
		if n > 0 {
			text = append(text, ',')
		}
		text = one(text, i)
	}
	return append(text, "]}\n"...)
}
