package redisstore_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// valued returns a deduction that counts for a value in the limits of terms.
func (k *kit) valued(id string, amount int64, value string,
	terms *bucket.Terms) bucket.StoreDeduction {
	d := k.deduction(id, amount, terms)
	d.Value = value
	return d
}

// calendarWindow checks that a window begins empty, and that a caller with another window gets
// WindowOver.
func calendarWindow(k *kit) {
	k.fill(1, 1, 100)
	now := k.now()
	day := bucket.LimitTerms{Name: "day", Changed: 1, Kind: budget.WindowCalendar, FromMS: now - 600_000,
		ToMS: now + 300, Max: 3, Measure: budget.MeasureCount}
	first := k.terms(day)
	out := k.deducted(k.valued("a", 9, "u", first), bucket.Accepted)
	k.same("reset", out.Limits[0].ResetMS, now+300)
	k.used(k.deducted(k.valued("b", 9, "u", first), bucket.Accepted), 2)
	k.used(k.deducted(k.valued("c", 9, "v", first), bucket.Accepted), 1)
	time.Sleep(350 * time.Millisecond)
	k.deducted(k.valued("d", 9, "u", first), bucket.WindowOver)
	day.FromMS, day.ToMS = now+300, now+600_000
	second := k.terms(day)
	k.used(k.deducted(k.valued("d", 9, "u", second), bucket.Accepted), 1)
	// A rollback of a deduction in the previous window does not lower this one.
	k.rollback("a", "r", 0, bucket.Accepted, second)
	k.used(k.deducted(k.valued("e", 9, "u", second), bucket.Accepted), 2)
	k.rollback("e", "r", 0, bucket.Accepted, second)
	k.used(k.deducted(k.valued("f", 9, "u", second), bucket.Accepted), 2)
}

// windowOfOthers checks that a count stays when a node whose zone data differ counts in a window that
// overlaps the one it was counted in, whichever began first, and in what it shows.
func windowOfOthers(k *kit) {
	k.fill(1, 1, 100)
	const hour = 3_600_000
	now := k.now()
	of := func(from int64) *bucket.Terms {
		return k.terms(bucket.LimitTerms{Name: "day", Changed: 1, Kind: budget.WindowCalendar, FromMS: now + from,
			ToMS: now + from + 24*hour, Max: 3, Measure: budget.MeasureCount})
	}
	earlier, later := of(-5*hour), of(-3*hour)
	k.used(k.deducted(k.valued("a", 1, "u", earlier), bucket.Accepted), 1)
	k.used(k.deducted(k.valued("b", 1, "u", later), bucket.Accepted), 2)
	k.used(k.deducted(k.valued("c", 1, "u", earlier), bucket.Accepted), 3)
	k.deducted(k.valued("d", 1, "u", later), bucket.Limited)
	k.used(k.deducted(k.valued("e", 1, "v", later), bucket.Accepted), 1)
	k.used(k.deducted(k.valued("f", 1, "v", earlier), bucket.Accepted), 2)
	k.rollback("a", "r", 0, bucket.Accepted, later)
	k.used(k.deducted(k.valued("g", 1, "u", later), bucket.Accepted), 3)
}

// slidingWindow checks that slots leave the window one by one.
func slidingWindow(k *kit) {
	k.fill(1, 1, 100)
	terms := k.terms(bucket.LimitTerms{Name: "s", Changed: 1, Kind: budget.WindowSliding,
		LengthMS: 600, SlotMS: 100, Max: 5, Measure: budget.MeasureAmount})
	k.used(k.deducted(k.valued("a", 2, "u", terms), bucket.Accepted), 2)
	time.Sleep(300 * time.Millisecond)
	k.used(k.deducted(k.valued("b", 3, "u", terms), bucket.Accepted), 5)
	out := k.deducted(k.valued("c", 1, "u", terms), bucket.Limited)
	if reset := out.Limits[0].ResetMS - k.now(); reset > 400 {
		k.Errorf("the oldest slot leaves in %d ms", reset)
	}
	time.Sleep(420 * time.Millisecond) // a has left, b has not
	k.used(k.deducted(k.valued("d", 1, "u", terms), bucket.Accepted), 4)
	k.rollback("b", "r", 1, bucket.Accepted, terms)
	k.used(k.deducted(k.valued("e", 1, "u", terms), bucket.Accepted), 4)
	time.Sleep(800 * time.Millisecond)
	k.used(k.deducted(k.valued("f", 5, "u", terms), bucket.Accepted), 5)
}

// firstHitWindow checks that the window begins with a deduction.
func firstHitWindow(k *kit) {
	k.fill(1, 1, 100)
	terms := k.terms(bucket.LimitTerms{Name: "f", Changed: 1, Kind: budget.WindowFirstHit,
		LengthMS: 300, Max: 2, Measure: budget.MeasureCount})
	out := k.deducted(k.valued("a", 9, "u", terms), bucket.Accepted)
	if in := out.Limits[0].ResetMS - k.now(); in > 300 || in < 0 {
		k.Errorf("ends in %d ms", in)
	}
	k.deducted(k.valued("b", 9, "u", terms), bucket.Accepted)
	k.used(k.deducted(k.valued("c", 9, "u", terms), bucket.Limited), 2)
	time.Sleep(350 * time.Millisecond)
	k.used(k.deducted(k.valued("c", 9, "u", terms), bucket.Accepted), 1)
	k.rollback("a", "r", 0, bucket.Accepted, terms)
	k.used(k.deducted(k.valued("d", 9, "u", terms), bucket.Accepted), 2)
}

// lifetimeWindow checks that the window never ends and is never swept.
func lifetimeWindow(k *kit) {
	k.fill(1, 1, 100)
	terms := k.terms(bucket.LimitTerms{Name: "l", Changed: 1, Kind: budget.WindowLifetime, Max: 7,
		Measure: budget.MeasureAmount})
	out := k.deducted(k.valued("a", 4, "u", terms), bucket.Accepted)
	k.same("reset", out.Limits[0].ResetMS, int64(0))
	time.Sleep(window + 50*time.Millisecond)
	k.sweep()
	k.used(k.deducted(k.valued("b", 4, "u", terms), bucket.Limited), 4)
	k.close(1, 1, false, bucket.Accepted)
	k.fill(1, 2, 100)
	d := k.valued("c", 3, "u", terms)
	d.Epoch = 2 // counters outlive epochs
	k.used(k.deducted(d, bucket.Accepted), 7)
}

// limitChanged checks that a limit with another definition starts over, that the others continue,
// and that older terms are refused.
func limitChanged(k *kit) {
	k.fill(1, 1, 100)
	kept := bucket.LimitTerms{Name: "kept", Changed: 1, Kind: budget.WindowLifetime, Max: 50,
		Measure: budget.MeasureAmount}
	changed := bucket.LimitTerms{Name: "x", Changed: 1, Kind: budget.WindowLifetime, Max: 50,
		Measure: budget.MeasureAmount}
	old := k.terms(changed, kept)
	k.used(k.deducted(k.valued("a", 4, "u", old), bucket.Accepted), 4, 4)
	changed.Changed, changed.Kind, changed.LengthMS, changed.SlotMS = 2, budget.WindowSliding,
		600_000, 1000
	young := k.terms(kept, changed) // in another order
	young.LimitsVersion = 2
	k.used(k.deducted(k.valued("b", 3, "u", young), bucket.Accepted), 7, 3)
	k.deducted(k.valued("c", 1, "u", old), bucket.Outdated)
	k.deducted(k.deduction("c", 1, k.terms()), bucket.Outdated)
	// The changed limit never counted this, so it is not lowered.
	k.rollback("a", "r", 0, bucket.Accepted, young)
	k.used(k.deducted(k.valued("d", 1, "u", young), bucket.Accepted), 4, 4)
	none := &bucket.Terms{LimitsVersion: 3}
	if out := k.deducted(k.valued("e", 1, "u", none), bucket.Accepted); out.Limits != nil {
		k.Errorf("without limits: %+v", out.Limits)
	}
	k.deducted(k.valued("f", 1, "u", young), bucket.Outdated)
}

// ownCounts checks that a deduction may count its own amounts, and that a value may have its own
// bounds.
func ownCounts(k *kit) {
	k.fill(1, 1, 100)
	terms := k.terms(bucket.LimitTerms{Name: "a", Changed: 1, Kind: budget.WindowLifetime, Max: 10,
		Measure: budget.MeasureAmount}, bucket.LimitTerms{Name: "b", Changed: 1,
		Kind: budget.WindowLifetime, Max: 2, Measure: budget.MeasureCount})
	d := k.valued("a", 4, "u", terms)
	d.Counts = []int64{8, 0}
	k.used(k.deducted(d, bucket.Accepted), 8, 0)
	d = k.valued("b", 4, "u", terms)
	out := k.deducted(d, bucket.Limited)
	k.same("exceeded", []bool{out.Limits[0].Exceeded, out.Limits[1].Exceeded}, []bool{true, false})
	d.Max = []int64{1 << 50, 1}
	k.used(k.deducted(d, bucket.Accepted), 12, 1)
	k.rollback("a", "half", 2, bucket.Accepted, terms) // 8 of 4: half of it
	d = k.valued("c", 1, "u", terms)
	d.Max = []int64{1 << 50, 5}
	k.used(k.deducted(d, bucket.Accepted), 9, 2)
	huge := k.valued("d", 1, "u", terms)
	huge.Counts, huge.Max = []int64{
		budget.MaxAmount,
		0,
	}, []int64{
		budget.MaxAmount,
		budget.MaxAmount,
	}
	k.deducted(huge, bucket.Limited) // no count exceeds 2^53 - 1
}

// rollbackLargeCounts checks that units in proportion are exact where their product exceeds 2^53:
// each quotient is slightly above a whole number, so one more is kept.
func rollbackLargeCounts(k *kit) {
	terms := k.terms(bucket.LimitTerms{Name: "a", Changed: 1, Kind: budget.WindowLifetime,
		Max: budget.MaxAmount, Measure: budget.MeasureAmount})
	random := rand.New(rand.NewPCG(1, 2))
	for i := int64(1); i <= 20; {
		amount := budget.MaxAmount - random.Int64N(budget.MaxAmount/2)
		left := 1 + random.Int64N(amount-1)
		inverse := new(big.Int).ModInverse(big.NewInt(left), big.NewInt(amount))
		if inverse == nil {
			continue
		}
		counts := inverse.Int64()
		k.fill(i, 1, amount)
		d := k.valued("a", amount, "u", terms)
		d.Bucket, d.Counts = i, []int64{counts}
		k.used(k.deducted(d, bucket.Accepted), counts)
		got, err := k.store.Rollback(k.Context(), k.m, []bucket.StoreRollback{
			{RecordID: d.RecordID, RollbackID: "r", Amount: amount - left, Terms: terms}})
		k.must(err)
		k.verdict("rollback", got[0].Verdict, bucket.Accepted)
		kept := inverse.Div(inverse.Mul(inverse, big.NewInt(left)), big.NewInt(amount)).Int64() + 1
		d.ID, d.Amount, d.Counts = "b", 1, []int64{0}
		k.used(k.deducted(d, bucket.Accepted), kept)
		i++
	}
}

// sameValue checks that deductions of one value in one call are counted in sequence.
func sameValue(k *kit) {
	k.fill(1, 1, 100)
	terms := k.terms(bucket.LimitTerms{Name: "n", Changed: 1, Kind: budget.WindowLifetime, Max: 3,
		Measure: budget.MeasureCount})
	var all []bucket.StoreDeduction
	for i := range 6 {
		all = append(all, k.valued(fmt.Sprint(i), 1, []string{"u", "v"}[i%2], terms))
	}
	all = append(all, k.valued("6", 1, "u", terms))
	var got []int64
	out := k.deduct(all...)
	for _, o := range out {
		got = append(got, o.Limits[0].Used)
	}
	k.same("used", got, []int64{1, 1, 2, 2, 3, 3, 3})
	k.verdict("the seventh", out[6].Verdict, bucket.Limited)
	k.same("balance", out[6].Balance, int64(94))
}
