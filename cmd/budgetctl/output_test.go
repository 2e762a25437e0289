package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/strictyaml"
	"github.com/google/go-cmp/cmp"
)

// golden compares with a file of testdata, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// TestOutput pins the data of every command in every format.
func TestOutput(t *testing.T) {
	const sale = "create spring-sale --total 9007199254740000 --type promo --gl-code 4711"
	const held = "deduct spring-sale 5000 --hold 15m --group order-17 --request-id "
	const hourly = "create hourly --total 100000 --every hour --quantity 500 --unused next --timezone Europe/Berlin"
	tests := []struct {
		name  string
		given []string // earlier command lines
		line  string
	}{
		{"create", nil, "create spring-sale --total 1000000 --type promo --buckets 8 --sharding 500 --adjust-cnt 3" +
			" --start 2026-01-01T00:00:00Z --end 2026-12-31T23:59:59+01:00"},
		{"get", []string{sale}, "get spring-sale"},
		{"create-every", nil, "create year --total 3650000 --every day --start 2027-01-01T00:00:00Z --end 2028-01-01T00:00:00Z"},
		{"create-windows", nil, "create nights --total 1000000 --type daily --window 00:00-06:00=10000" +
			" --window 18:00-24:00=5000 --timezone Europe/Berlin --unused forfeit --late-refund next"},
		{"create-anchor", nil, "create payday --total 1,000,000 --every month --quantity 5,000 --anchor day=31,hour=6" +
			" --unused next --max-rollover 1,000 --partial whole"},
		{"create-free", nil, "create free --total 1000 --rule free"},
		{"get-daily", []string{hourly, "deduct hourly 20"}, "get hourly"},
		{"set-rule", []string{hourly}, "set hourly --window 00:00-24:00=700 --late-refund forfeit"},
		{"set-late-refund", []string{hourly}, "set hourly --late-refund total"},
		{"deduct-daily", []string{hourly}, "deduct hourly 20 --request-id o1"},
		{"audit-daily", []string{hourly}, "audit hourly"},
		{"list", []string{sale, "create autumn --total 5 --type promo", "pause autumn"}, "list"},
		{"list-search", []string{sale, "create autumn --total 5 --type promo"}, "list --search spring"},
		{"list-sort", []string{sale, "create autumn --total 5 --type promo"}, "list --sort=-refusals --limit 1"},
		{"list-none", []string{sale}, "list --status paused"},
		{"set", []string{sale}, "set spring-sale --end 2027-01-01T00:00:00Z --sharding 250 --adjust-cnt 9 --if-version 1"},
		{"set-unbounded", []string{sale, "set spring-sale --end 2027-01-01T00:00:00Z --sharding 250"},
			"set spring-sale --end never --sharding 0"},
		{"pause", []string{sale}, "pause spring-sale"},
		{"resume", []string{sale, "pause spring-sale"}, "resume spring-sale"},
		{"resume-bucket", []string{sale}, "resume spring-sale 0"},
		{"append", []string{sale}, "append spring-sale 500 --request-id a1"},
		{"append-again", []string{sale, "append spring-sale 500 --request-id a1"}, "append spring-sale 500 --request-id a1"},
		{"shrink", []string{sale}, "shrink spring-sale 500 --request-id a2"},
		{"deduct", []string{sale}, "deduct spring-sale 5000 --request-id o1 --key u1 --dimension user=u1 --reference r"},
		{"deduct-again", []string{sale, "deduct spring-sale 5000 --request-id o1"}, "deduct spring-sale 5000 --request-id o1"},
		{"rollback", []string{sale, "deduct spring-sale 5000 --request-id o1"}, "rollback spring-sale o1"},
		{"rollback-part", []string{sale, "deduct spring-sale 5000 --request-id o1"},
			"rollback spring-sale o1 --amount 2000 --rollback-id refund-1"},
		{"deduct-hold", []string{sale}, "deduct spring-sale 5000 --request-id o1 --hold 15m --group order-17"},
		{"confirm", []string{sale, held + "o1"}, "confirm spring-sale o1"},
		{"confirm-part", []string{sale, held + "o1"}, "confirm spring-sale o1 --amount 2000"},
		{"confirm-group", []string{sale, held + "o1", held + "o2"}, "confirm spring-sale --group order-17"},
		{"extend", []string{sale, held + "o1"}, "extend spring-sale o1 --hold 1h"},
		{"extend-group", []string{sale, held + "o1", held + "o2"}, "extend spring-sale --group order-17 --hold 1h"},
		{"renew", []string{sale, held + "o1"}, "renew spring-sale o1 --step 2 --used 40 --keep 50 --hold 1m"},
		{"cancel", []string{sale, "deduct spring-sale 5000 --request-id o1"}, "cancel spring-sale o1"},
		{"cancel-void", []string{sale}, "cancel spring-sale o2"},
		{"buckets", []string{sale}, "buckets spring-sale"},
		{"offline", []string{sale, "pause spring-sale"}, "offline spring-sale spring-sale:bucket-0"},
		{"online", []string{sale, "pause spring-sale", "offline spring-sale spring-sale:bucket-0"},
			"online spring-sale spring-sale:bucket-0"},
		{"apply", []string{sale}, "apply spring-sale spring-sale:bucket-0"},
		{"apply", []string{sale}, "apply spring-sale bucket-0"},
		{"apply", []string{sale}, "apply 1 0"},
		{"recycle", []string{sale}, "recycle spring-sale"},
		{"recycle-history", []string{sale}, "recycle spring-sale --history"},
		{"audit", []string{sale, "deduct spring-sale 5000 --request-id o1"}, "audit spring-sale"},
		{"series", []string{sale, "deduct spring-sale 5000 --request-id o1"}, "series spring-sale"},
		{"series-span", []string{sale}, "series spring-sale --from 2026-04-01T00:00:00Z --to 2026-04-02T00:00:00Z --step 1h"},
		{"quarantine", []string{sale}, "quarantine spring-sale"},
		{"release", []string{sale}, "release spring-sale 40 --request-id q1 --reason unsold --by jane"},
		{"release-all", []string{sale}, "release spring-sale all --request-id q2 --reason unsold"},
		{"instances", nil, "instances"},
		{"drain", nil, "instances drain redis-2"},
		{"drain-begun", nil, "instances drain redis-2 --wait=false"},
		{"undrain", nil, "instances undrain redis-2"},
		{"recover", nil, "instances recover embedded"},
		{"set-buckets", []string{sale}, "set spring-sale --buckets 32"},
	}
	for _, test := range tests {
		for _, format := range formats[:3] { // names have a test of their own
			t.Run(test.name+"/"+format, func(t *testing.T) {
				server := newFake(t)
				for _, line := range test.given {
					must1(t, server.URL, line)
				}
				r := must1(t, server.URL, test.line+" -o "+format)
				if r.stderr != "" {
					t.Errorf("stderr: %s", r.stderr)
				}
				golden(t, test.name+"."+format, r.stdout)
			})
		}
	}
}

// TestTerminalIsSafe checks that text from a server cannot control the terminal.
func TestTerminalIsSafe(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create b --total 100 --type promo")
	server.budgets["1"].GLCode = "\x1b[31mred\r\n"
	if r := must1(t, server.URL, "get b"); strings.ContainsAny(r.stdout, "\x1b\r") {
		t.Errorf("stdout %q", r.stdout)
	}
	server.interfere = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(409)
		fmt.Fprint(w, `{"code":"budget_paused","detail":"\u001b[2J"}`)
		return true
	}
	if r := command(t, server.URL, "get b"); strings.Contains(r.stderr, "\x1b") {
		t.Errorf("stderr %q", r.stderr)
	}
}

// full is a writer that fails, like a full disk or a closed pipe.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestOutputThatCannotBeWritten(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create b --total 100 --type promo")
	var stderr bytes.Buffer
	status := run(t.Context(), []string{"get", "b", "--server", server.URL}, func(string) string { return "" }, full{}, &stderr)
	if status != exitError || !strings.Contains(stderr.String(), "output: file already closed") {
		t.Errorf("status %d: %s", status, &stderr)
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -999: "-999",
		1234567: "1,234,567", budget.MaxAmount: "9,007,199,254,740,991"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) = %q, want %q", n, got, want)
		}
	}
}

// TestTextsInYAML checks that a text written as YAML is read as the same text, also if it looks like
// something else.
func TestTextsInYAML(t *testing.T) {
	for _, text := range []string{"0100", "010", "7", "1_000", "0x10", "0b1", "0o7", "1e3", ".5", "5.", "+5", "-0", "yes", "true", "True", "~",
		"null", "2027-01-01", "2027-01-01T00:00:00Z", "<<", "*a", "&a", "!!int 1", "---", "...", "- a", "a: b", "a #b", "", " a ", "a\nb", "a\n", "\"", "'",
		".inf", ".nan", "1:30", "{}", "[", "|", ">", "%", "@", "`", "\u0085", "\u2028", "á", "\t", "=", "1,000", "0.1.2"} {
		want, err := json.Marshal(map[string][]string{"a": {text}})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := (&app{output: "yaml", stdout: &out}).show(map[string][]string{"a": {text}}, nil); err != nil {
			t.Fatal(err)
		}
		read, err := strictyaml.JSON([]byte(out.String()))
		if err != nil {
			t.Errorf("%q: %v: %q", text, err, out.String())
			continue
		}
		var got, wanted any
		if err := errors.Join(json.Unmarshal(read, &got), json.Unmarshal(want, &wanted)); err != nil || !reflect.DeepEqual(got, wanted) {
			t.Errorf("%q becomes %s in %q", text, read, out.String())
		}
	}
}

// TestLinesAddUp checks that the total of get and of audit is the sum of the lines below it.
func TestLinesAddUp(t *testing.T) {
	f := newFake(t)
	command(t, f.URL, "create evening --total 1000 --type daily --window 18:00-24:00=300 --buckets 1")
	for _, of := range []string{"get", "audit"} {
		r := command(t, f.URL, of+" evening")
		_, below, _ := strings.Cut(r.stdout, "\ntotal ")
		var total, sum int64
		for line := range strings.Lines("total " + below) {
			name, cell, _ := strings.Cut(strings.TrimSpace(line), "  ")
			units, _ := strconv.ParseInt(strings.ReplaceAll(strings.TrimSpace(cell), ",", ""), 10, 64)
			if name == "total" {
				total = units
			} else {
				sum += units
			}
			if name == "forfeited" {
				break
			}
		}
		if total != 1000 || sum != total {
			t.Errorf("%s: total %d, the sum is %d:\n%s", of, total, sum, r.stdout)
		}
	}
}
