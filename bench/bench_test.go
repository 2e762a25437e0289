package main

import (
	"io"
	"strings"
	"testing"
)

// TestRows checks that the names of rows are unique, that titles name the measured mode, and that
// targets and halves refer to existing rows in the mode that they name.
func TestRows(t *testing.T) {
	names, modes := map[string]bool{}, map[string]string{}
	for _, r := range rows {
		if names[r.name] || r.what == "" {
			t.Errorf("row %q appears twice, or has no title", r.name)
		}
		names[r.name] = true
		if o, ok := r.measurer.(ours); ok && o.of != "" && !names[o.of] {
			t.Errorf("row %q: there is no row %q before it", r.name, o.of)
		}
		if o, ok := r.measurer.(ours); ok && !o.embedded {
			modes[r.name] = o.durability
			if !strings.Contains(r.what, o.durability+" mode") {
				t.Errorf("row %q is in %s mode, but its title is %q", r.name, o.durability, r.what)
			}
		}
	}
	for _, target := range targets {
		if !names[target.row] || target.by != "" && !names[target.by] {
			t.Errorf("target %q: there is no row %q or %q", target.what, target.row, target.by)
		}
		for _, mode := range []string{"ledger", "store"} {
			if strings.Contains(target.what, mode+" mode") && modes[target.row] != mode {
				t.Errorf("target %q has row %q, which is in %s mode", target.what, target.row, modes[target.row])
			}
		}
	}
}

func TestChosen(t *testing.T) {
	all := []string{"empty", "lua", "memory", "ending", "ending-1", "distance-1", "distance-2", "distances"}
	if got, err := chosen("distance,lua", all); err != nil ||
		strings.Join(got, " ") != "distance-1 distance-2 lua" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := chosen("ending", all); err != nil || strings.Join(got, " ") != "ending" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := chosen("lua,empty", all); err != nil || strings.Join(got, " ") != "lua empty" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := chosen("", all); err != nil || len(got) != len(all) {
		t.Errorf("%d rows, %v", len(got), err)
	}
	if _, err := chosen("luna", all); err == nil {
		t.Error("an unknown row is accepted")
	}
}

func TestMarkdown(t *testing.T) {
	w := &world{log: io.Discard, measured: map[string]measurement{
		"empty":       {perS: 50_000},
		"verbs-0ms":   {named: []figure{{"create", 7.5}, {"recycle", 1_600}}},
		"verbs-2ms":   {named: []figure{{"create", 70.25}, {"recycle", 2_600}}},
		"creates-2ms": {perS: 19, named: []figure{{"SELECT 1, ms", 2.31}}},
		"lua":         {perS: 20_000, cpu: []cost{{"server", 42}, {"redis", 25}}},
		"store-single": {perS: 30_000, p50: 1.5, p99: 4.25, cpu: []cost{{"server", 24}, {"redis", 4}},
			note: "ledger complete 0.1 s after the load; "},
	}, failed: []string{"pipelined: why"}}
	got := w.markdown()
	for _, want := range []string{
		"| store-single | store mode, single calls, 64 connections, two limits | 30,000 | 1.50 | 4.25 | " +
			"server 24.00, redis 4.00 | 0.60 | 1.50 | ledger complete 0.1 s after the load |",
		"| store mode, single calls, two limits ÷ (b) | ≥ 2 | 1.50 | **no** |",
		"| … ÷ (a) | ≥ 0.8 | 0.60 | **no** |",
		"Failed: pipelined: why",
		"SQL 2 ms away | 19 | 0.00 | 0.00 |  | 0.00 | 0.00 | SELECT 1, ms 2.31 |",
		"| median | verbs-0ms | verbs-2ms |\n|---|--:|--:|\n| create | 7.50 | 70.2 |\n" +
			"| recycle | 1,600 | 2,600 |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "sold-out") {
		t.Error("a row that was not measured is in the table")
	}
	if strings.Contains(got, "| administrative verbs") {
		t.Error("a row without calls a second is in the table of rows")
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 999.4: "999", 1000: "1,000", 1234567.5: "1,234,568"} {
		if got := thousands(n); got != want {
			t.Errorf("%g is %q, want %q", n, got, want)
		}
	}
}

// TestFlatTable checks the verdict on a size that costs more than the series allows, and the note on
// sizes that were not measured.
func TestFlatTable(t *testing.T) {
	got := flatTable([]spot{{series: "budgets", durability: "store", size: 1, total: 10},
		{series: "budgets", durability: "store", size: 10_000, total: 25.1},
		{series: "budgets", durability: "ledger", size: 1, total: 10}})
	for _, want := range []string{
		"| number of budgets, store mode, CPU µs per deduction (1: 10.0, 10,000: 25.1) ÷ the first | ≤ 2.5 | 2.51 | **no** |",
		"| number of budgets, ledger mode, CPU µs per deduction (1: 10.0) ÷ the first | ≤ 3 | 1.00 | yes, 1 of 2 sizes |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
}

// TestBeside checks that a row is compared with the mean of the baseline before and after it.
func TestBeside(t *testing.T) {
	w := &world{measured: map[string]measurement{"lua": {perS: 1}, "store-single": {perS: 30_000,
		beside: map[string]measurement{"lua": mean(measurement{perS: 10_000, cpu: []cost{{"server", 40}}},
			measurement{perS: 20_000, cpu: []cost{{"server", 60}}})}, cpu: []cost{{"server", 10}}}}}
	got := w.markdown()
	for _, want := range []string{"| store mode, single calls, two limits ÷ (b) | ≥ 2 | 2.00 | yes |",
		"| … CPU of server, Redis and SQL ÷ (b)'s | ≤ 0.4 | 0.20 | yes |"} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
}
