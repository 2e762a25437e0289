package main

import (
	"io"
	"strings"
	"testing"
)

// TestRows: names are unique, titles say the mode that is measured, and targets and halves speak of rows that there
// are, targets in the mode that they name.
func TestRows(t *testing.T) {
	names, modes := map[string]bool{}, map[string]string{}
	for _, r := range rows {
		if names[r.name] || r.what == "" {
			t.Errorf("row %q: twice, or without a word", r.name)
		}
		names[r.name] = true
		if o, ok := r.measurer.(ours); ok && o.half != "" && !names[o.half] {
			t.Errorf("row %q: there is no row %q before it", r.name, o.half)
		}
		if o, ok := r.measurer.(ours); ok && !o.embedded {
			modes[r.name] = o.durability
			if !strings.Contains(r.what, o.durability+" mode") {
				t.Errorf("row %q is in %s mode, and is called %q", r.name, o.durability, r.what)
			}
		}
	}
	for _, target := range targets {
		if !names[target.row] || target.by != "" && !names[target.by] {
			t.Errorf("target %q: there is no row %q or %q", target.what, target.row, target.by)
		}
		for _, mode := range []string{"ledger", "store"} {
			if strings.Contains(target.what, mode+" mode") && modes[target.row] != mode {
				t.Errorf("target %q is of row %q, which is in %s mode", target.what, target.row, modes[target.row])
			}
		}
	}
}

func TestChosen(t *testing.T) {
	all := []string{"empty", "lua", "memory"}
	if got, err := chosen("lua,empty", all); err != nil || strings.Join(got, " ") != "lua empty" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := chosen("", all); err != nil || len(got) != len(all) {
		t.Errorf("%d rows, %v", len(got), err)
	}
	if _, err := chosen("luna", all); err == nil {
		t.Error("a row that there is not was chosen")
	}
}

func TestMarkdown(t *testing.T) {
	w := &world{log: io.Discard, measured: map[string]measurement{
		"empty": {perS: 50_000},
		"lua":   {perS: 20_000, cpu: []cost{{"server", 42}, {"redis", 25}}},
		"store-single": {perS: 30_000, p50: 1.5, p99: 4.25, cpu: []cost{{"server", 24}, {"redis", 4}},
			note: "ledger complete 0.1 s after the load; "},
	}, failed: []string{"pipelined: why"}}
	got := w.markdown()
	for _, want := range []string{
		"| store-single | store mode, single calls, 64 connections, two limits | 30,000 | 1.50 | 4.25 | " +
			"server 24.00, redis 4.00 | 0.60 | 1.50 | ledger complete 0.1 s after the load |",
		"| store mode, single calls, two limits ÷ (b) | ≥ 2 | 1.50 | **no** |",
		"| … ÷ (a) | ≥ 0.8 | 0.60 | **no** |",
		"| (b) ÷ (a): (b) is written well, 0.9 of 20,000 ÷ 60,000 | ≥ 0.3 | 0.40 | yes |",
		"Failed: pipelined: why",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "sold-out") {
		t.Error("a row that was not measured is in the table")
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 999.4: "999", 1000: "1,000", 1234567.5: "1,234,568"} {
		if got := thousands(n); got != want {
			t.Errorf("%g is %q, want %q", n, got, want)
		}
	}
}

// TestFlatTable: a size may be dearer than the first by as much as the series allows, and one that was not measured shows.
func TestFlatTable(t *testing.T) {
	spots := []spot{
		{series: "budgets", durability: "store", size: 1, total: 10}, {series: "budgets", durability: "store", size: 10, total: 11.4},
		{series: "budgets", durability: "ledger", size: 1, total: 10}, {series: "budgets", durability: "ledger", size: 10, total: 15.1},
	}
	for _, size := range flat[0].sizes {
		spots = append(spots, spot{series: "instances", durability: "store", size: size, total: 10})
	}
	got := flatTable(spots)
	for _, want := range []string{
		"| number of budgets | store | 1: 10.0, 10: 11.4 | 1.14 | 1.15 | yes, 2 of 5 sizes |",
		"| number of budgets | ledger | 1: 10.0, 10: 15.1 | 1.51 | 1.50 | **no**, 2 of 5 sizes |",
		"| number of Redis, a bucket on each | store | 1: 10.0, 2: 10.0, 4: 10.0, 8: 10.0, 16: 10.0 | 1.00 | 1.15 | yes |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
}

// TestProfileText: shares are summed by package or library, and small functions are only in the sums.
func TestProfileText(t *testing.T) {
	got := profileText(`
     3.00%  budgetd            [.] net/http.(*chunkWriter).writeHeader     -      -
     0.40%  budgetd            [.] net/http.(*conn).serve                  -      -
     2.00%  budgetd            [.] github.com/budgetd/budgetd/bucket.(*attempt).states
     1.00%  budgetd            [.] slices.partitionCmpFunc[go.shape.struct { github.com/budgetd/budgetd/bucket.ID }]
     4.00%  budgetd            [.] aeshashbody
     0.60%  budgetd            [.] type:.eq.github.com/budgetd/budgetd/bucket.ID
     9.00%  [kernel.kallsyms]  [k] tcp_ack
     0.10%  libc.so.6          [.] malloc
`)
	want := `  9.0%  kernel.kallsyms
  4.6%  runtime
  3.4%  net/http
  2.0%  github.com/budgetd/budgetd/bucket
  1.0%  slices

  3.0%  budgetd  net/http.(*chunkWriter).writeHeader
  2.0%  budgetd  github.com/budgetd/budgetd/bucket.(*attempt).states
  1.0%  budgetd  slices.partitionCmpFunc[go.shape.struct { github.com/budgetd/budgetd/bucket.ID }]
  4.0%  budgetd  aeshashbody
  0.6%  budgetd  type:.eq.github.com/budgetd/budgetd/bucket.ID
  9.0%  [kernel.kallsyms]  tcp_ack
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
