package redisstore_test

import (
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// predictions: Predict evaluates each deduction as if it came alone, and changes nothing.
func predictions(k *kit) {
	terms := k.terms(bucket.LimitTerms{Name: "l", Changed: 1, Kind: budget.WindowLifetime, Max: 6,
		Measure: budget.MeasureAmount})
	of := func(bucketID int64, id string, amount int64) bucket.StoreDeduction {
		d := k.deduction(id, amount, terms)
		d.Bucket, d.Value = bucketID, "user"
		return d
	}
	predict := func(want bucket.Verdict, all ...bucket.StoreDeduction) []bucket.StoreOutcome {
		k.Helper()
		answer, err := k.store.Predict(k.Context(), k.m, all)
		k.must(err)
		for i := range all {
			k.verdict("predict "+all[i].ID, answer.Outcomes[i].Verdict, want)
		}
		return answer.Outcomes
	}
	k.fill(1, 1, 5)
	k.fill(2, 1, 5)
	k.deducted(of(1, "known", 2), bucket.Accepted)
	before := k.changes()

	for i, out := range predict(bucket.Accepted, of(1, "a", 3), of(1, "b", 3), of(2, "c", 5),
		of(2, "d", 5), of(1, "", 3)) {
		k.used(out, []int64{2, 2, 0, 0, 2}[i])
	}
	k.same("record", predict(bucket.Known, of(1, "known", 2))[0].Record.Amount, int64(2))
	k.used(predict(bucket.Short, of(1, "e", 4))[0], 2)
	out := predict(bucket.Limited, of(1, "f", 5))[0]
	k.used(out, 2)
	k.same("exceeded", out.Limits[0].Exceeded, true)
	late := of(1, "late", 1)
	late.Terms = &bucket.Terms{EndMS: 1, LimitsVersion: 1}
	predict(bucket.Over, late)

	k.same("changes", k.changes(), before)
	k.entry(1, 1, bucket.Entry{Verdict: bucket.Accepted, Epoch: 1, Balance: 3, Taken: 2,
		LastGrant: 1})
	k.find("a", bucket.NotFound)
	k.used(k.deducted(of(1, "a", 3), bucket.Accepted), 5)

	// Without a live entry the bucket is empty, and its counters still count.
	k.close(1, 1, false, bucket.Accepted)
	k.used(predict(bucket.Short, of(1, "g", 1))[0], 5)
	predict(bucket.Limited, of(1, "h", 2))
	predict(bucket.Known, of(1, "known", 2))
	predict(bucket.Short, of(3, "never opened", 1))
	k.open(1, 2, bucket.Accepted)
	k.close(1, 2, true, bucket.Accepted)
	moving := of(1, "i", 1)
	moving.Epoch = 2
	predict(bucket.Moving, moving)
}

// sumsStayNumbers: an epoch whose units were given back and taken again takes no more than the
// largest quantity, whatever its balance is.
func sumsStayNumbers(k *kit) {
	k.fill(1, 1, budget.MaxAmount)
	k.deducted(k.deduction("all", budget.MaxAmount-1, k.terms()), bucket.Accepted)
	k.rollback("all", "", 0, bucket.Accepted)
	k.deducted(k.deduction("last", 1, k.terms()), bucket.Accepted)
	k.deducted(k.deduction("more", 1, k.terms()), bucket.Short)
	k.entry(1, 1, bucket.Entry{Verdict: bucket.Accepted, Epoch: 1, Balance: budget.MaxAmount - 1,
		Taken: budget.MaxAmount, GivenBack: budget.MaxAmount - 1, LastGrant: 1})
}
