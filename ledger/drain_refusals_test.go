package ledger_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// refusal is a log that must not be drained into a row. want begins the error.
type refusal struct {
	row  ledger.Epoch
	log  ledger.Log
	want string
}

// isMismatch begins the text of every *ledger.Mismatch.
const isMismatch = "log match: "

func (r refusal) check(t *testing.T) {
	_, err := drain(r.row, r.log, books{})
	if err == nil || !strings.HasPrefix(err.Error(), r.want) {
		t.Errorf("%v, want %q", err, r.want)
	}
	var mismatch *ledger.Mismatch
	if errors.As(err, &mismatch) != strings.HasPrefix(r.want, isMismatch) {
		t.Errorf("%v: a mismatch %v", err, mismatch != nil)
	}
}

// full is a log whose entries 0 and 1 are drained into half.
var (
	full = newLog().grant(1, 50).deduct("a", 5).deduct("b", 6)
	half = edited(row(50), func(e *ledger.Epoch) {
		e.DrainedSeq, e.DrainedChain, e.NextGrant = 1, full.entries[1].Chain, 2
	})
)

func edited(e ledger.Epoch, change func(e *ledger.Epoch)) ledger.Epoch {
	change(&e)
	return e
}

func TestDrainRefusesByStatus(t *testing.T) {
	const ended, isFenced = "the epoch has ended", "the bucket is fenced"
	status := func(s ledger.Status) ledger.Epoch {
		return edited(half, func(e *ledger.Epoch) { e.Status = s })
	}
	fenced := edited(half, func(e *ledger.Epoch) { e.Fenced = "broken" })
	lost := edited(fenced, func(e *ledger.Epoch) { e.Status = ledger.Lost })
	bad := newLog().grant(1, 51).deduct("a", 5)
	for name, test := range map[string]refusal{
		"closed":                 {status(ledger.Closed), full.from(1), ended},
		"lost":                   {status(ledger.Lost), full.from(1), ended},
		"lost, with a bad log":   {status(ledger.Lost), bad.from(1), ended},
		"lost and fenced":        {lost, full.from(1), ended},
		"an unknown status":      {status(""), full.from(1), ended},
		"fenced":                 {fenced, full.from(1), isFenced},
		"fenced, with a bad log": {fenced, bad.from(1), isFenced},
	} {
		t.Run(name, test.check)
	}
}

func TestDrainRefusesWhatDoesNotMatch(t *testing.T) {
	const again = "the ledger is ahead of this read of the log"
	const missing = isMismatch + "the drained entry 1 is missing"
	const another = isMismatch + "entry 1 is not the one that was drained"
	const unchained = isMismatch + "entry 2 does not continue the chain"
	read := func(from int64, entries ...ledger.Entry) ledger.Log {
		return ledger.Log{Bucket: 7, Epoch: 3, From: from, Entries: entries}
	}
	e := full.entries
	fork := newLog().grant(1, 51).deduct("a", 5).deduct("b", 6)
	life := (&log{}).add(ledger.OpenLine(7, 3, 9)).grant(1, 50).deduct("a", 5)
	chain, line := e[2], e[2]
	chain.Chain = strings.Repeat("0", ledger.ChainBytes)
	line.Line += "x"
	for name, test := range map[string]refusal{
		"the ledger is ahead":         {half, read(0, e[0]), again},
		"the ledger is ahead of none": {half, read(0), again},

		"the drained entry is missing": {half, read(1), missing},
		"the log ends before it":       {half, read(1, e[0]), missing},
		"the log begins after it":      {half, read(1, e[2], e[3]), missing},
		"the log leaves it out":        {half, read(0, e[0], e[2], e[3]), missing},
		"read from behind it":          {half, read(2, e[2], e[3]), missing},

		"a fork before it":     {half, read(0, fork.entries...), another},
		"another life":         {half, read(0, life.entries...), another},
		"another life's first": {row(50), read(0, life.entries...), isMismatch + "entry 0 is not"},

		"a gap":               {half, read(1, e[1], e[3]), isMismatch + "entry 3 follows entry 1"},
		"an entry twice":      {half, read(1, e[1], e[2], e[2]), isMismatch + "entry 2 follows entry 2"},
		"a wrong chain value": {half, read(1, e[1], chain, e[3]), unchained},
		"another line":        {half, read(1, e[1], line, e[3]), unchained},
		"a fork after it":     {half, read(1, e[1], fork.entries[2]), unchained},
	} {
		t.Run(name, test.check)
	}
}

// TestDrainRefusesEntries: entries that no script writes.
func TestDrainRefusesEntries(t *testing.T) {
	deduct := func(amount int64, change func(r *ledger.Request)) string {
		r := request("c", amount, 4)
		change(&r)
		return ledger.Line(ledger.KindDeduct, amount, ledger.EncodeRequest(r))
	}
	same := func(*ledger.Request) {}
	long := strings.Repeat("x", 1<<16)
	for name, test := range map[string]struct{ line, want string }{
		"a second opening": {ledger.OpenLine(7, 3, 2), "is of kind 'o'"},
		"a grant that SQL never made": {ledger.Line(ledger.KindGrant, 1, "2"),
			"is a grant that SQL never made"},

		"one unit more than is outstanding": {deduct(40, same), "deducts 40 of 39 outstanding"},
		"the largest amount": {deduct(budget.MaxAmount, same),
			"deducts 9007199254740991 of 39 outstanding"},
		"an amount above the largest": {deduct(budget.MaxAmount+1, same), "deducts 9007199254740992"},
		"nothing":                     {deduct(0, same), "deducts 0"},

		"no request id": {deduct(1, func(r *ledger.Request) { r.ID = "" }),
			"has a request id of 0 bytes"},
		"an id that SQL cannot hold": {deduct(1, func(r *ledger.Request) { r.ID = long[:129] }),
			"has a request id of 129 bytes"},
		"a reference that SQL cannot hold": {
			deduct(1, func(r *ledger.Request) { r.Reference = long[:257] }),
			"has a reference of 257 bytes"},
		"dimensions that SQL cannot hold": {deduct(1, func(r *ledger.Request) { r.Dimensions = long }),
			"has dimensions of 65536 bytes"},
	} {
		with := (&log{entries: slices.Clone(full.entries)}).add(test.line)
		t.Run(name, refusal{half, with.from(1), isMismatch + "entry 4 " + test.want}.check)
	}
}

// TestDrainTrustsNoGrantOfTheLog: what arrived is compared with grant_log, to the unit.
func TestDrainTrustsNoGrantOfTheLog(t *testing.T) {
	l := newLog().grant(1, 50).grant(2, 7).deduct("a", 5)
	without := func(number int64) ledger.Log {
		log := l.from(1)
		delete(log.Granted, number)
		return log
	}
	with := func(amount int64) ledger.Log {
		log := l.from(1)
		log.Granted[2] = amount
		return log
	}
	one := edited(row(57), func(e *ledger.Epoch) {
		e.DrainedSeq, e.DrainedChain = 1, l.entries[1].Chain
	})
	for name, test := range map[string]refusal{
		"one unit more":       {one, with(6), isMismatch + "entry 2 is a grant of 7, which SQL made of 6"},
		"one unit less":       {one, with(8), isMismatch + "entry 2 is a grant of 7, which SQL made of 8"},
		"a grant without row": {one, without(2), isMismatch + "entry 2 is a grant that SQL never made"},
	} {
		t.Run(name, test.check)
	}
	got, err := drain(one, without(1), books{}) // drained before: not looked at again
	if err != nil || !slices.Equal(got.Arrived, []int64{2}) || got.After.Outstanding != 52 {
		t.Errorf("%+v, %v", got, err)
	}
	log := l.from(0)
	if got := log.UndrainedGrants(1); !slices.Equal(got, []int64{2}) {
		t.Errorf("undrained grants %v", got)
	}
}

func TestCloseAmount(t *testing.T) {
	const ended, isFenced = "the epoch has ended", "the bucket is fenced"
	const status = isMismatch + "a close entry in an epoch that is "
	const follow = isMismatch + "the close entry 3 does not follow entry "
	const at4 = isMismatch + "the close entry 4 does not follow entry 2"
	const closed = isMismatch + "the store closed with 45 and "
	l := newLog().grant(1, 50).deduct("a", 5).close(45, 1)
	entry := l.entries[3]
	empty := newLog().grant(1, 50).deduct("a", 5).close(0, 1).entries[3]
	unchained, elsewhere := entry, entry
	elsewhere.Seq = 4
	unchained.Chain = l.entries[2].Chain
	with := func(change func(e *ledger.Epoch)) ledger.Epoch {
		e := row(45)
		e.Status, e.DrainedSeq, e.DrainedChain = ledger.Closing, 2, l.entries[2].Chain
		return edited(e, change)
	}
	in := func(s ledger.Status) ledger.Epoch { return with(func(e *ledger.Epoch) { e.Status = s }) }
	outstanding := func(units int64) ledger.Epoch {
		return with(func(e *ledger.Epoch) { e.Outstanding = units })
	}
	drained := func(seq int64, chain string) ledger.Epoch {
		return with(func(e *ledger.Epoch) { e.DrainedSeq, e.DrainedChain = seq, chain })
	}
	fenced := func(s ledger.Status) ledger.Epoch {
		return edited(in(s), func(e *ledger.Epoch) { e.Fenced = "broken" })
	}
	for name, test := range map[string]struct {
		row     ledger.Epoch
		close   ledger.Entry
		missing int64
		units   int64
		want    string
	}{
		"agrees":                    {in(ledger.Closing), entry, 0, 45, ""},
		"with grants under way":     {outstanding(52), entry, 7, 52, ""},
		"of nothing":                {outstanding(0), empty, 0, 0, ""},
		"closed":                    {in(ledger.Closed), entry, 0, 0, ended},
		"lost":                      {in(ledger.Lost), entry, 0, 0, ended},
		"lost and fenced":           {fenced(ledger.Lost), entry, 0, 0, ended},
		"fenced":                    {fenced(ledger.Closing), entry, 0, 0, isFenced},
		"open and fenced":           {fenced(ledger.Open), entry, 0, 0, isFenced},
		"open":                      {in(ledger.Open), entry, 0, 0, status + "open"},
		"opening":                   {in(ledger.Opening), entry, 0, 0, status + "opening"},
		"more is not drained":       {drained(1, l.entries[1].Chain), entry, 0, 0, follow + "1"},
		"drained past it":           {drained(3, entry.Chain), entry, 0, 0, follow + "3"},
		"of another chain":          {drained(2, l.entries[1].Chain), entry, 0, 0, follow + "2"},
		"at another position":       {in(ledger.Closing), elsewhere, 0, 0, at4},
		"with another chain value":  {in(ledger.Closing), unchained, 0, 0, follow + "2"},
		"one unit more outstanding": {outstanding(46), entry, 0, 0, closed + "0 never arrived, but 46"},
		"one unit less outstanding": {outstanding(44), entry, 0, 0, closed + "0 never arrived, but 44"},
		"one unit more missing":     {in(ledger.Closing), entry, 1, 0, closed + "1 never arrived"},
	} {
		t.Run(name, func(t *testing.T) {
			units, err := ledger.CloseAmount(test.row, test.close, test.missing)
			if units != test.units || (err == nil) != (test.want == "") ||
				err != nil && !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%d, %v; want %d, %q", units, err, test.units, test.want)
			}
		})
	}
}
