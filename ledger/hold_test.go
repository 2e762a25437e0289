package ledger_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var holdUntil = time.UnixMilli(1_000_000).UTC()

// hold returns a hold of 10 units of which rolledBack were given back.
func hold(rolledBack int64) ledger.Deduction {
	d := ledger.Deduction{RequestID: "order", Amount: 10, State: ledger.StateHeld, HoldUntil: holdUntil}
	return ledger.AfterRollback(d, rolledBack)
}

func confirmed(n int64) *ledger.HoldEnd {
	return &ledger.HoldEnd{RequestID: "order", Kind: ledger.FeedConfirm, Amount: n, Returned: 10 - n, Asked: n,
		Whole: n == 10}
}

func TestDecideConfirm(t *testing.T) {
	void := ledger.Deduction{RequestID: "order", State: ledger.StateVoid}
	used := ledger.Deduction{RequestID: "order", Amount: 10, State: ledger.StateUsed}
	part := ledger.AfterEnd(hold(0), *confirmed(4))
	gone := ledger.AfterRollback(ledger.AfterEnd(hold(0), *confirmed(10)), 10)
	expired := ledger.AfterEnd(hold(0), ledger.Expire(hold(0)))
	in, late := holdUntil.Add(-time.Millisecond), holdUntil.Add(time.Hour)
	for name, test := range map[string]struct {
		deduction      ledger.Deduction
		earlier        *ledger.HoldEnd
		amount         int64
		now            time.Time
		amountIs, back int64
		replay         bool
		code           budget.Code
	}{
		"the whole":                          {hold(0), nil, 0, in, 10, 0, false, ""},
		"all, by its amount":                 {hold(0), nil, 10, in, 10, 0, false, ""},
		"a part":                             {hold(0), nil, 4, in, 4, 6, false, ""},
		"what rollbacks left":                {hold(3), nil, 0, in, 7, 0, false, ""},
		"a part of what they left":           {hold(3), nil, 5, in, 5, 2, false, ""},
		"more than they left":                {hold(3), nil, 8, in, 0, 0, false, budget.AmountExceedsRemaining},
		"at its expiry":                      {hold(0), nil, 0, holdUntil, 0, 0, false, budget.HoldExpired},
		"after its end, not swept yet":       {hold(0), nil, 0, late, 0, 0, false, budget.HoldExpired},
		"expired":                            {expired, nil, 0, late, 0, 0, false, budget.HoldExpired},
		"expired by a clock that was ahead":  {expired, nil, 0, in, 0, 0, false, budget.HoldExpired},
		"rolled back":                        {hold(10), nil, 0, in, 0, 0, false, budget.NotHeld},
		"rolled back, after its end":         {hold(10), nil, 0, late, 0, 0, false, budget.NotHeld},
		"not a hold":                         {used, nil, 0, in, 0, 0, false, budget.NotHeld},
		"a tombstone":                        {void, nil, 0, in, 0, 0, false, budget.RequestVoid},
		"a repeated part":                    {part, confirmed(4), 4, in, 4, 6, true, ""},
		"a repeated part after its end":      {part, confirmed(4), 4, late, 4, 6, true, ""},
		"the whole after a part":             {part, confirmed(4), 0, in, 0, 0, false, budget.RequestConflict},
		"another part":                       {part, confirmed(4), 5, in, 0, 0, false, budget.RequestConflict},
		"the whole again, rolled back since": {gone, confirmed(10), 0, late, 10, 0, true, ""},
		"the whole again, by its amount":     {gone, confirmed(10), 10, late, 10, 0, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			end, replay, err := ledger.DecideConfirm(test.deduction, test.earlier, test.amount, test.now)
			if test.code != "" {
				if !budget.Is(err, test.code) {
					t.Errorf("%+v, %v; want %s", end, err, test.code)
				}
				return
			}
			if err != nil || end.Amount != test.amountIs || end.Returned != test.back || replay != test.replay {
				t.Errorf("%+v, replay %v, %v; want %d, %d, %v", end, replay, err, test.amountIs, test.back, test.replay)
			}
		})
	}
}

func TestAfterEnd(t *testing.T) {
	if d := ledger.AfterEnd(hold(3), ledger.HoldEnd{Kind: ledger.FeedConfirm, Amount: 5, Returned: 2}); d.State != ledger.StateUsed ||
		d.Confirmed != 5 || d.RolledBack != 5 {
		t.Errorf("confirmed: %+v", d)
	}
	if d := ledger.AfterEnd(hold(3), ledger.Expire(hold(3))); d.State != ledger.StateExpired || d.Confirmed != 0 ||
		d.RolledBack != 10 {
		t.Errorf("expired: %+v", d)
	}
}

func TestMembers(t *testing.T) {
	in, late := holdUntil.Add(-time.Millisecond), holdUntil
	open := hold(0)
	longer := open
	longer.RequestID, longer.HoldUntil = "longer", late.Add(time.Hour)
	part, expired, back := ledger.AfterEnd(open, *confirmed(4)), ledger.AfterEnd(open, ledger.Expire(open)), hold(10)
	all := func(list ...ledger.Deduction) []ledger.Deduction { return list }
	for name, test := range map[string]struct {
		state           ledger.GroupState
		members         []ledger.Deduction
		now             time.Time
		use             int
		replay          bool
		confirm, extend budget.Code
	}{
		"no member":                  {ledger.GroupOpen, nil, in, 0, false, budget.DeductionNotFound, budget.DeductionNotFound},
		"all held":                   {ledger.GroupOpen, all(open, longer), in, 2, false, "", ""},
		"one over":                   {ledger.GroupOpen, all(open, longer), late, 0, false, budget.HoldExpired, budget.HoldExpired},
		"one expired":                {ledger.GroupOpen, all(expired, longer), in, 0, false, budget.HoldExpired, budget.HoldExpired},
		"one rolled back":            {ledger.GroupOpen, all(back, longer), in, 1, false, "", ""},
		"one confirmed":              {ledger.GroupOpen, all(part, longer), in, 1, false, "", ""},
		"all confirmed one by one":   {ledger.GroupOpen, all(part), in, 0, false, "", budget.NotHeld},
		"all rolled back one by one": {ledger.GroupOpen, all(back), in, 0, false, budget.NotHeld, budget.NotHeld},
		"confirmed before":           {ledger.GroupUsed, all(part), late, 0, true, "", budget.NotHeld},
		"rolled back before":         {ledger.GroupRolledBack, all(back), in, 0, false, budget.NotHeld, budget.NotHeld},
	} {
		t.Run(name, func(t *testing.T) {
			m := ledger.Members{Group: "g", State: test.state, Deductions: test.members}
			use, replay, err := m.Confirm(test.now)
			if budget.CodeOf(err) != test.confirm && err != nil || (err == nil) != (test.confirm == "") ||
				len(use) != test.use || replay != test.replay {
				t.Errorf("confirm: %+v, %v, %v", use, replay, err)
			}
			if _, err := m.Extend(test.now); (err == nil) != (test.extend == "") || err != nil && budget.CodeOf(err) != test.extend {
				t.Errorf("extend: %v, want %q", err, test.extend)
			}
		})
	}
	m := ledger.Members{Group: "g", State: ledger.GroupUsed, Deductions: all(part, back, longer)}
	given, replay, err := m.Rollback()
	if err != nil || replay || len(given) != 2 || given[0].Amount != 4 || given[1].Amount != 10 {
		t.Errorf("rollback: %+v, %v, %v", given, replay, err)
	}
}

// TestDecideConfirmLate decides confirms of a hold that allows more, after its expiry.
func TestDecideConfirmLate(t *testing.T) {
	open := hold(3)
	open.Above = ledger.AboveAvailable
	expired := ledger.AfterEnd(open, ledger.Expire(open))
	other := expired
	other.Expired = 8
	gone := hold(10)
	gone.Above = ledger.AboveAvailable
	late := holdUntil.Add(time.Hour)
	earlier := &ledger.HoldEnd{Kind: ledger.FeedConfirm, Above: 7, Late: true, Asked: 7, Whole: true}
	part := &ledger.HoldEnd{Kind: ledger.FeedConfirm, Above: 7, Late: true, Asked: 7}
	for name, test := range map[string]struct {
		deduction ledger.Deduction
		earlier   *ledger.HoldEnd
		amount    int64
		above     int64
		replay    bool
		code      budget.Code
	}{
		"not swept yet":              {open, nil, 0, 7, false, ""},
		"not swept yet, more":        {open, nil, 30, 30, false, ""},
		"swept":                      {expired, nil, 0, 7, false, ""},
		"swept, less":                {expired, nil, 2, 2, false, ""},
		"again":                      {expired, earlier, 7, 7, true, ""},
		"again, without an amount":   {expired, earlier, 0, 7, true, ""},
		"another, without an amount": {other, part, 0, 0, false, budget.RequestConflict},
		"another amount":             {expired, earlier, 8, 0, false, budget.RequestConflict},
		"rolled back":                {gone, nil, 5, 0, false, budget.AlreadyRolledBack},
	} {
		t.Run(name, func(t *testing.T) {
			end, replay, err := ledger.DecideConfirm(test.deduction, test.earlier, test.amount, late)
			if test.code != "" {
				if !budget.Is(err, test.code) {
					t.Errorf("%+v, %v; want %s", end, err, test.code)
				}
				return
			}
			if err != nil || !end.Late || end.Above != test.above || end.Amount+end.Returned != 0 || replay != test.replay {
				t.Errorf("%+v, replay %v, %v; want %d, %v", end, replay, err, test.above, test.replay)
			}
		})
	}
}

// TestExpiresAsUsed corrects expiries that confirmed what was held.
func TestExpiresAsUsed(t *testing.T) {
	open := hold(3)
	open.ExpiresAs = ledger.ExpiresUsed
	expired := ledger.AfterEnd(open, ledger.Expire(open))
	if expired.State != ledger.StateUsed || expired.Left() != 7 || expired.Confirmed != 7 || expired.Late {
		t.Errorf("expired: %+v", expired)
	}
	more := expired
	more.Above = ledger.AboveAvailable
	part := ledger.AfterRollback(expired, 2)
	late := holdUntil.Add(time.Hour)
	for name, test := range map[string]struct {
		deduction           ledger.Deduction
		amount              int64
		used, returned, add int64
		code                budget.Code
	}{
		"not swept yet":          {open, 5, 5, 2, 0, ""},
		"all":                    {expired, 0, 7, 0, 0, ""},
		"less":                   {expired, 4, 4, 3, 0, ""},
		"more":                   {expired, 8, 0, 0, 0, budget.AmountExceedsRemaining},
		"more is allowed":        {more, 9, 7, 0, 2, ""},
		"a part was rolled back": {part, 4, 4, 1, 0, ""},
		"all was rolled back":    {ledger.AfterRollback(expired, 7), 4, 0, 0, 0, budget.NotHeld},
	} {
		t.Run(name, func(t *testing.T) {
			end, replay, err := ledger.DecideConfirm(test.deduction, nil, test.amount, late)
			if test.code != "" {
				if !budget.Is(err, test.code) {
					t.Errorf("%+v, %v; want %s", end, err, test.code)
				}
				return
			}
			want := ledger.HoldEnd{RequestID: end.RequestID, Kind: ledger.FeedConfirm, Amount: test.used,
				Returned: test.returned, Above: test.add, Late: true, Asked: test.used + test.add,
				Whole: test.amount == 0 || test.amount == test.used && test.returned == 0}
			if err != nil || replay || end != want {
				t.Errorf("%+v, replay %v, %v; want %+v", end, replay, err, want)
			}
			d := ledger.AfterEnd(test.deduction, end)
			if d.State != ledger.StateUsed || d.Confirmed != test.used || d.Left() != test.used || !d.Late {
				t.Errorf("after it: %+v", d)
			}
			if _, _, err := ledger.DecideConfirm(d, &end, test.used+1, late); test.add == 0 &&
				!budget.Is(err, budget.RequestConflict) {
				t.Errorf("a second correction: %v", err)
			}
		})
	}
	if err := ledger.DecideExtend(expired, late); !budget.Is(err, budget.HoldExpired) {
		t.Errorf("extended: %v", err)
	}
	m := ledger.Members{Group: "g", State: ledger.GroupOpen, Deductions: []ledger.Deduction{open, expired}}
	if use, _, err := m.Confirm(late); err != nil || len(use) != 0 {
		t.Errorf("a group of expired holds: %+v, %v", use, err)
	}
}
