package auditlog

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// chain returns n successive rows.
func chain(n int) (rows []Row, head Anchor) {
	for i := range n {
		row := Link(head, Row{AtMS: int64(i), Principal: "admin", KeyID: "k", Source: "10.0.0.1", Op: "append",
			Tenant: "default", Target: "sale", RequestID: fmt.Sprint(i), CorrelationID: "c",
			Before: []byte(`{"total":1}`), After: []byte(`{"total":2}`), Outcome: Done})
		rows, head = append(rows, row), row.Anchor()
	}
	return rows, head
}

func verify(rows []Row, from, head Anchor, through ...Anchor) error {
	v := NewVerifier(from, through...)
	for _, row := range rows {
		if err := v.Add(row); err != nil {
			return err
		}
	}
	return v.End(head)
}

func TestWholeChain(t *testing.T) {
	rows, head := chain(20)
	if err := verify(rows, Anchor{}, head, rows[3].Anchor(), rows[19].Anchor()); err != nil {
		t.Error(err)
	}
	// A log whose old rows were removed begins at an anchor, and has a row that says so.
	removed := rows[6].Anchor()
	if err := verify(rows[7:], removed, head); err == nil {
		t.Error("a beginning without a row that records its removal is accepted")
	}
	for _, target := range []Anchor{rows[5].Anchor(), {removed.Seq, Hash{1}}, removed} {
		record := Link(head, Row{Op: OpPrune, Target: target.String(), Outcome: Done})
		err := verify(append(slices.Clone(rows[7:]), record), removed, record.Anchor())
		if (err == nil) != (target == removed) {
			t.Errorf("a row that records the removal of %v, where %v is the last removed one: %v", target, removed, err)
		}
	}
	if err := verify(nil, Anchor{}, Anchor{}); err != nil {
		t.Error(err)
	}
}

// TestAnchorsOfRemovedRows checks that an anchor before the first row is reported as one that cannot
// be checked, and that one at the end of what was removed is checked.
func TestAnchorsOfRemovedRows(t *testing.T) {
	rows, head := chain(5)
	removed := rows[2].Anchor()
	record := Link(head, Row{Op: OpPrune, Target: removed.String(), Outcome: Done})
	left := append(slices.Clone(rows[3:]), record)
	for _, test := range []struct {
		anchor Anchor
		gone   int
		broken bool
	}{{rows[1].Anchor(), 1, false}, {Anchor{2, Hash{7}}, 1, false}, {removed, 0, false}, {Anchor{3, Hash{7}}, 0, true},
		{rows[3].Anchor(), 0, false}} {
		v := NewVerifier(removed, test.anchor)
		var err error
		for _, row := range left {
			err = errors.Join(err, v.Add(row))
		}
		if err = errors.Join(err, v.End(record.Anchor())); (err != nil) != test.broken || len(v.Gone()) != test.gone {
			t.Errorf("%v: %v, %v", test.anchor, v.Gone(), err)
		}
	}
}

// TestEveryEditIsDetected changes every column of every row. The break must be at that row.
func TestEveryEditIsDetected(t *testing.T) {
	whole, head := chain(5)
	fields := reflect.TypeFor[Row]()
	for n := range whole {
		for field := range fields.NumField() {
			name := fields.Field(field).Name
			rows := slices.Clone(whole)
			value := reflect.ValueOf(&rows[n]).Elem().Field(field)
			switch v := value.Addr().Interface().(type) {
			case *int64:
				*v++
			case *string:
				*v += "x"
			case *[]byte:
				*v = append(slices.Clone(*v), ' ')
			case *Hash:
				v[31] ^= 1
			default:
				t.Fatalf("%s has a type that the test does not change", name)
			}
			var broken *Break
			if err := verify(rows, Anchor{}, head); !errors.As(err, &broken) {
				t.Errorf("row %d, %s: not detected: %v", n+1, name, err)
			} else if name != "Seq" && broken.Seq != int64(n+1) {
				t.Errorf("row %d, %s: detected at row %d", n+1, name, broken.Seq)
			}
		}
	}
}

// TestColumnsAreSeparated checks that text moved to the next column changes the hash, and that nil
// and empty definitions have different hashes.
func TestColumnsAreSeparated(t *testing.T) {
	a := Row{Principal: "ab", KeyID: "c", Before: nil}
	for _, b := range []Row{{Principal: "a", KeyID: "bc"}, {Principal: "abc"}, {Principal: "ab", KeyID: "c", Before: []byte{}},
		{Principal: "ab", KeyID: "c", After: []byte{}}} {
		if a.hashAfter(Hash{}) == b.hashAfter(Hash{}) {
			t.Errorf("%+v and %+v have the same hash", a, b)
		}
	}
}

// TestMovedRowsAreDetected removes, exchanges and repeats rows without recomputing the hashes.
func TestMovedRowsAreDetected(t *testing.T) {
	whole, head := chain(6)
	rapid.Check(t, func(t *rapid.T) {
		rows := slices.Clone(whole)
		n := rapid.IntRange(0, 5).Draw(t, "n")
		switch m := rapid.IntRange(0, 5).Draw(t, "m"); rapid.SampledFrom([]string{"remove", "exchange", "repeat", "cut"}).Draw(t, "what") {
		case "remove":
			rows = slices.Delete(rows, n, n+1)
		case "exchange":
			if n == m {
				return
			}
			rows[n], rows[m] = rows[m], rows[n]
		case "repeat":
			rows = slices.Insert(rows, m, rows[n])
		case "cut":
			rows = rows[:n]
		}
		if err := verify(rows, Anchor{}, head); err == nil {
			t.Error("not detected")
		}
	})
	// The rows are exchanged together with their numbers.
	rows := slices.Clone(whole)
	rows[2], rows[3] = rows[3], rows[2]
	rows[2].Seq, rows[3].Seq = 3, 4
	if err := verify(rows, Anchor{}, head); err == nil {
		t.Error("rows exchanged with their numbers are not detected")
	}
}

// TestAnchorsDetectRewriting checks that an anchor reveals a chain that was recomputed, and that
// nothing else does.
func TestAnchorsDetectRewriting(t *testing.T) {
	whole, _ := chain(6)
	kept := whole[4].Anchor()
	rewrite := func(rows []Row) (out []Row, head Anchor) {
		for _, row := range rows {
			row = Link(head, row)
			out, head = append(out, row), row.Anchor()
		}
		return out, head
	}
	edited := slices.Clone(whole)
	edited[1].Principal = "another principal"
	for name, rows := range map[string][]Row{"edited": edited, "removed": slices.Delete(slices.Clone(whole), 1, 2), "cut": slices.Clone(whole[:3])} {
		rows, head := rewrite(rows)
		if err := verify(rows, Anchor{}, head); err != nil {
			t.Errorf("%s: detected without an anchor, so the test did not recompute the chain: %v", name, err)
		}
		if err := verify(rows, Anchor{}, head, kept); err == nil {
			t.Errorf("%s: not detected with an anchor", name)
		}
	}
}

func TestHeadIsChecked(t *testing.T) {
	rows, head := chain(3)
	for _, wrong := range []Anchor{{2, head.Hash}, {4, head.Hash}, {3, Hash{}}} {
		if err := verify(rows, Anchor{}, wrong); err == nil {
			t.Errorf("%v is accepted as the head", wrong)
		}
	}
}

func TestAnchorText(t *testing.T) {
	_, head := chain(12)
	read, err := ParseAnchor(head.String())
	if err != nil || read != head {
		t.Errorf("%v, %v", read, err)
	}
	for _, wrong := range []string{"", ":", "12", "12:", "12:00", "-1:" + head.Hash.String(), "+12:" + head.Hash.String(),
		head.String() + "0", strings.ToUpper(head.String()), "012:" + head.Hash.String()} {
		if _, err := ParseAnchor(wrong); err == nil {
			t.Errorf("%q is parsed", wrong)
		}
	}
}

func FuzzParseAnchor(f *testing.F) {
	_, head := chain(1)
	f.Add(head.String())
	f.Add("0:")
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := ParseAnchor(text); err == nil && a.String() != text {
			t.Errorf("%q is read as %q", text, a)
		}
	})
}

func TestEntry(t *testing.T) {
	ctx := context.Background()
	if FromContext(ctx) != nil {
		t.Fatal("a context without an entry has one")
	}
	FromContext(ctx).Change("a", "b", nil, nil) // background work: no effect, no panic
	begun := Row{AtMS: 1, Principal: "p", Op: "append"}
	e := NewEntry(begun)
	if FromContext(NewContext(ctx, e)) != e {
		t.Fatal("the context does not have its entry")
	}
	if row, left := e.End(Done); !left || row.Outcome != Done || row.Target != "" {
		t.Errorf("a call that did nothing: %+v, %v", row, left)
	}
	after := []byte("2")
	e.Change("t", "sale", []byte("1"), after)
	after[0] = '3' // the entry has its own copy
	want := begun
	want.Tenant, want.Target, want.Before, want.After, want.Outcome = "t", "sale", []byte("1"), []byte("2"), Done
	if diff := cmp.Diff(want, e.Succeed()); diff != "" {
		t.Error(diff)
	}
	if _, left := e.End(Done); left {
		t.Error("an appended row is reported as missing")
	}
	if row, left := e.End("outcome_unknown"); !left || row.After != nil || row.Outcome != "outcome_unknown" {
		t.Errorf("a commit with an unknown outcome: %+v, %v", row, left)
	}
}

func TestRefusalsAreCounted(t *testing.T) {
	var f Refusals
	if row, found := f.Take(); found {
		t.Errorf("%+v", row)
	}
	for n := range int64(3) {
		f.Add(10+n, "k", "10.0.0.1", "append", "revoked")
		f.Add(5, "", "10.0.0.2", []string{"list", "append"}[n%2], "missing")
		f.Forbid(7+n, "shop", "joe", "j", "10.0.0.1", []string{"list", "append"}[n%2])
	}
	want := []Row{{AtMS: 5, Source: "10.0.0.2", Outcome: "missing", Times: 3},
		{AtMS: 7, Tenant: "shop", Principal: "joe", KeyID: "j", Source: "10.0.0.1", Op: "list", Outcome: "forbidden", Times: 2},
		{AtMS: 10, KeyID: "k", Source: "10.0.0.1", Op: "append", Outcome: "revoked", Times: 3},
		{AtMS: 8, Tenant: "shop", Principal: "joe", KeyID: "j", Source: "10.0.0.1", Op: "append", Outcome: "forbidden", Times: 1}}
	got := taken(&f)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, row := range got {
		f.Return(row)
	}
	f.Add(20, "k", "10.0.0.1", "append", "revoked")
	want[2].Times = 4
	if diff := cmp.Diff(want, taken(&f)); diff != "" {
		t.Error(diff)
	}
}

// taken takes all rows.
func taken(f *Refusals) (rows []Row) {
	for {
		row, found := f.Take()
		if !found {
			return rows
		}
		rows = append(rows, row)
	}
}

// TestFloodOfRefusals checks that a flood of different refusals gives a bounded number of rows and
// loses no count.
func TestFloodOfRefusals(t *testing.T) {
	var f Refusals
	var group sync.WaitGroup
	for n := range 4 {
		group.Go(func() {
			for m := range 2000 {
				f.Add(int64(m), fmt.Sprint(m), fmt.Sprint(n), "append", "unknown")
			}
		})
	}
	group.Wait()
	rows, sum := taken(&f), int64(0)
	for _, row := range rows {
		sum += row.Times
	}
	if len(rows) != 4 || sum != 8000 { // one for each source
		t.Errorf("%d rows for %d refusals", len(rows), sum)
	}
}

// TestRefusalsOfOthersStay lets one source, one tenant and one principal have more different refusals
// than are kept. The rows of others stay, and no count is lost.
func TestRefusalsOfOthersStay(t *testing.T) {
	for name, flood := range map[string]func(f *Refusals, n string){
		"a source":    func(f *Refusals, n string) { f.Add(1, n, "10.0.0.9", "append", "unknown") },
		"sources":     func(f *Refusals, n string) { f.Add(1, "", n, "append", "unknown") },
		"a tenant":    func(f *Refusals, n string) { f.Forbid(1, "loud", n, n, "10.0.0.9", "append") },
		"a principal": func(f *Refusals, n string) { f.Forbid(1, "", "jane", n, "10.0.0.9", "append") },
	} {
		t.Run(name, func(t *testing.T) {
			var f Refusals
			other := func(half string) {
				f.Forbid(2, "quiet", "joe", half, "10.0.0.1", "append")
				if name != "sources" { // these are as quiet as it is
					f.Add(2, half, "10.0.0.2", "list", "revoked")
				}
			}
			for n := range 5000 {
				switch n {
				case 0:
					other("before")
				case 4000:
					other("after")
				}
				flood(&f, fmt.Sprint(n))
			}
			rows := taken(&f)
			for _, row := range rows {
				f.Return(row)
			}
			sum, others := int64(0), 0
			for _, row := range taken(&f) {
				sum += row.Times
				if row.Principal == "joe" && row.Tenant == "quiet" || row.Source == "10.0.0.2" {
					others++
				}
			}
			count, want := int64(4), 3 // both authentications share a row
			if name == "sources" {
				count, want = 2, 2
			}
			if sum != 5000+count || others != want || len(rows) > MaxRefusals+2 {
				t.Errorf("%d rows for %d refusals, %d rows of %d others", len(rows), sum, others, want)
			}
		})
	}
}
