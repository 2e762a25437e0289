package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/internal/safeguard"
)

const root = "../../.."

// TestTable: docs/MUTANTS.md and the code name the same safeguards, each once, and the tests that are
// named there exist.
func TestTable(t *testing.T) {
	rows, err := loadTable(root)
	if err != nil {
		t.Fatal(err)
	}
	var listed []safeguard.Name
	for _, m := range rows {
		if slices.Contains(listed, m.name) {
			t.Errorf("%s is in the table twice", m.name)
		}
		listed = append(listed, m.name)
		if !slices.Contains(safeguard.Names(), m.name) {
			t.Errorf("%s is in the table and no safeguard", m.name)
		}
		if !regexp.MustCompile(`^I[1-8](, I[1-8])*$`).MatchString(m.invariants) {
			t.Errorf("%s keeps %q", m.name, m.invariants)
		}
		for _, k := range m.killers {
			if !exists(t, k) {
				t.Errorf("%s: there is no test %s", m.name, k)
			}
		}
	}
	for _, name := range safeguard.Names() {
		if !slices.Contains(listed, name) {
			t.Errorf("%s is not in %s", name, tableFile)
		}
	}
	if len(rows) < 20 {
		t.Errorf("only %d safeguards", len(rows))
	}
}

// exists reports whether a package's tests have a function of a killer's name.
func exists(t *testing.T, k killer) bool {
	t.Helper()
	name, _, _ := strings.Cut(k.test, "/")
	files, err := filepath.Glob(filepath.Join(root, k.folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range syntax.Decls {
			if f, ok := declared.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == name {
				return true
			}
		}
	}
	return false
}

// TestSitesExist: every safeguard is asked for somewhere outside its own package.
func TestSitesExist(t *testing.T) {
	asked := map[string]bool{}
	site := regexp.MustCompile(`safeguard\.([A-Z]\w+)\b`)
	for _, folder := range []string{"ledger", "bucket", "internal/sqlstore", "internal/memstore",
		"internal/redisstore", "limit"} {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range site.FindAllStringSubmatch(string(text), -1) {
				asked[m[1]] = true
			}
		}
	}
	text, err := os.ReadFile("../safeguard.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^\t(\w+) +Name += "`).FindAllStringSubmatch(string(text), -1)
	if len(declared) != len(safeguard.Names()) {
		t.Errorf("%d constants were found, want %d", len(declared), len(safeguard.Names()))
	}
	for _, m := range declared {
		if !asked[m[1]] {
			t.Errorf("nobody asks for %s", m[1])
		}
	}
}

func TestReadTableRefuses(t *testing.T) {
	for _, text := range []string{
		"| `a` | I1 | b |", "| `a` | I1 | b | c |", "| `a` | I1 | b | `TestX` |",
		"| `a` | I1 | b | `ledger TestX`, `ledger TestY` |",
	} {
		if rows, err := readTable(text); err == nil {
			t.Errorf("%s: read as %+v", text, rows)
		}
	}
	rows, err := readTable("x\n| a | b |\n" +
		"| `a-b` | I1, I2 | harm | `ledger TestX`<br>`internal/x TestY/sub one` |\n")
	if err != nil || len(rows) != 1 || len(rows[0].killers) != 2 ||
		rows[0].killers[1] != (killer{"internal/x", "TestY/sub one"}) {
		t.Errorf("%+v, %v", rows, err)
	}
}

// TestJudge: only a complaint of the test itself, or a violation that the model found, kills.
func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name   string
		output string
		clean  bool
		want   result
		why    string
	}{
		{"passes", "--- PASS: TestX (0.1s)\n    --- PASS: TestX/a_b (0.1s)\nPASS\n", true, passed, ""},
		{"fails", "    x_test.go:7: got 1\n--- FAIL: TestX (0s)\n    --- FAIL: TestX/a_b (0s)\n", false, failed,
			"x_test.go:7: got 1"},
		{"another fails", "--- FAIL: TestX (0s)\n    --- FAIL: TestX/a (0s)\n", false, crashed, ""},
		{"not run", "testing: warning: no tests to run\nPASS\n", true, absent, ""},
		{"time-out", "panic: test timed out after 2m0s\n--- FAIL: TestX/a_b (0s)\n", false, hung, ""},
		{"panic", "--- FAIL: TestX/a_b (0s)\npanic: nil map\n", false, crashed, ""},
		{"violation", "panic: memstore: I1 is violated: [x]\n", false, failed,
			"panic: memstore: I1 is violated: [x]"},
		{"passes, then the process fails", "    --- PASS: TestX/a_b (0s)\n", false, crashed, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := judge("TestX/a b", test.output, test.clean)
			if got.result != test.want || got.why != test.why {
				t.Errorf("%s, %q; want %s, %q", got.result, got.why, test.want, test.why)
			}
		})
	}
}

func TestPattern(t *testing.T) {
	if got, want := pattern("TestX/a b, (c)/d"), `^TestX$/^a_b,_\(c\)$/^d$`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
