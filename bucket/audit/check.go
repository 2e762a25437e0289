package audit

import (
	"slices"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Check returns every figure that disagrees with its rows, those of buckets first.
func (a *Accounts) Check() []ledger.Discrepancy {
	switch {
	case a.Unlimited && a.Durability == budget.Store:
		return a.checkGrants()
	case a.Unlimited:
		return append(a.checkUnlimited(), a.checkFeed()...)
	case a.Durability == budget.Store:
		return a.checkStore()
	}
	epochs := a.figures()
	out := a.checkFeed()
	out = append(out, ledger.Check(a.Figures, a.Adjusted, epochs)...)
	out = append(out, ledger.CheckPeriods(a.Figures, a.Figures.Period, a.Periods, epochs)...)
	out = append(out, ledger.CheckShrinks(a.Figures, a.Shrinks)...)
	return bucketsFirst(out)
}

func (a *Accounts) figures() []ledger.EpochFigures {
	out := make([]ledger.EpochFigures, len(a.Epochs))
	for i := range a.Epochs {
		out[i] = a.Epochs[i].EpochFigures
	}
	return out
}

// checkFeed compares the units of each bucket's feed with its deductions (I7). It compares whole
// buckets, because entry numbers continue from epoch to epoch. A discrepancy names the newest
// epoch, whose row numbers the feed.
func (a *Accounts) checkFeed() (out []ledger.Discrepancy) {
	if a.Durability == budget.Store {
		return nil
	}
	units := map[int64]int64{}
	for i := range a.Epochs {
		e := &a.Epochs[i]
		units[e.Row.Bucket] += e.Deducted - e.GivenBack
	}
	for i := range a.Epochs {
		e := &a.Epochs[i]
		if want := units[e.Row.Bucket]; e.IsNewest && a.Feed[e.Row.Bucket] != want {
			out = append(out, ledger.Discrepancy{Bucket: e.Bucket, Epoch: e.Row.Number,
				What: "units of the feed", Recorded: a.Feed[e.Row.Bucket], Counted: want})
		}
	}
	return out
}

// checkUnlimited compares S and H with their rows, the only columns that an unlimited budget
// counts. A column stops at budget.MaxAmount, and is not compared once its deductions have reached
// that.
func (a *Accounts) checkUnlimited() (out []ledger.Discrepancy) {
	for i := range a.Epochs {
		e := &a.Epochs[i]
		if e.Deducted >= budget.MaxAmount {
			continue
		}
		for _, of := range []ledger.Discrepancy{
			{What: "outstanding", Recorded: e.Row.Outstanding},
			{What: "returning", Recorded: e.Row.Returning},
			{What: "held", Recorded: e.Row.Held, Counted: e.EpochFigures.Held},
			{What: "used", Recorded: e.Row.Used, Counted: e.Deducted - e.GivenBack - e.EpochFigures.Held},
		} {
			if of.Recorded != of.Counted {
				of.Bucket, of.Epoch = e.Bucket, e.Row.Number
				out = append(out, of)
			}
		}
	}
	return out
}

// checkStore checks what SQL has for a budget in store mode: the equation of I1, and that of each
// epoch's grants.
func (a *Accounts) checkStore() []ledger.Discrepancy {
	out := a.checkGrants()
	quarantined := int64(0)
	for i := range a.Epochs {
		e := &a.Epochs[i]
		quarantined += e.Quarantined - e.Released
		if e.NotedRelease != e.Released {
			out = append(out, ledger.Discrepancy{Bucket: e.Bucket, Epoch: e.Row.Number, What: "released",
				Recorded: e.NotedRelease, Counted: e.Released})
		}
	}
	if a.Figures.Quarantined != quarantined {
		out = append(out, ledger.Discrepancy{What: "quarantined", Recorded: a.Figures.Quarantined,
			Counted: quarantined})
	}
	out = append(out, ledger.CheckBudget(a.Figures, a.Adjusted, a.Shrinks)...)
	out = append(out, ledger.CheckPeriods(a.Figures, a.Figures.Period, a.Periods, a.figures())...)
	return bucketsFirst(out)
}

// checkGrants checks the equation of each epoch's grants in store mode. Units that were released as
// used were not granted to the epoch again. Nothing else can be checked for an unlimited budget.
func (a *Accounts) checkGrants() (out []ledger.Discrepancy) {
	for i := range a.Epochs {
		e := a.Epochs[i].EpochFigures
		e.Granted += a.Epochs[i].ReleasedUsed
		out = append(out, ledger.CheckColumns(&e)...)
	}
	return out
}

// bucketsFirst orders discrepancies of buckets before those of the budget that result from them.
func bucketsFirst(list []ledger.Discrepancy) []ledger.Discrepancy {
	slices.SortStableFunc(list, func(a, b ledger.Discrepancy) int {
		switch {
		case a.Bucket != "" && b.Bucket == "":
			return -1
		case a.Bucket == "" && b.Bucket != "":
			return 1
		}
		return 0
	})
	return list
}
