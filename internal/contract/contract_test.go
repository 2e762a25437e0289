package contract_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/contract"
	"github.com/budgetd/budgetd/internal/httpapi"
)

// document is what these tests look at of /openapi.json.
type document struct {
	Paths map[string]map[string]struct {
		Role     string                      `json:"x-role"`
		More     struct{ Role, When string } `json:"x-role-more"`
		Codes    []string                    `json:"x-codes"`
		Security *[]any
	}
	Errors map[string]struct {
		Status       int
		Kind, Title  string
		General      bool
		Happened, Do string
	} `json:"x-errors"`
}

func read(t *testing.T) (d document) {
	t.Helper()
	if err := json.Unmarshal(contract.JSON(), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestCalls checks that the document has exactly the calls of package access, with their roles.
func TestCalls(t *testing.T) {
	d, known := read(t), map[string]bool{}
	for _, call := range access.Calls() {
		path := strings.TrimSuffix(call.Pattern, "{$}")
		at := call.Method + " " + path
		known[at] = true
		one, ok := d.Paths[path][strings.ToLower(call.Method)]
		if !ok {
			t.Errorf("openapi.yaml lacks %s", at)
			continue
		}
		least, more := "none", ""
		if call.Least != 0 {
			least = call.Least.String()
		}
		if call.More != 0 {
			more = call.More.String()
		}
		if one.Role != least || one.More.Role != more || one.More.When != call.When {
			t.Errorf("%s: %q, %+v; package access has %q, %q if %q", at, one.Role, one.More, least, more,
				call.When)
		}
		if open := call.Over == access.Nobody; open != (one.Security != nil) {
			t.Errorf("%s: its security does not agree with its reach", at)
		}
	}
	for path, calls := range d.Paths {
		for method, call := range calls {
			if at := strings.ToUpper(method) + " " + path; !known[at] {
				t.Errorf("package access lacks %s", at)
			}
			for _, code := range call.Codes {
				if known, ok := d.Errors[code]; !ok || known.General {
					t.Errorf("%s %s: %s is unknown or a general code", method, path, code)
				}
			}
		}
	}
}

// TestClientsCanDoWithIt checks that the document contains nothing that generators of clients fail
// on.
func TestClientsCanDoWithIt(t *testing.T) {
	var all map[string]any
	if err := json.Unmarshal(contract.JSON(), &all); err != nil {
		t.Fatal(err)
	}
	walk(t, "", all)
}

// walk looks at everything in the document.
func walk(t *testing.T, at string, value any) {
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			walk(t, at, one)
		}
	case map[string]any:
		kind := value["type"]
		several, _ := kind.([]any)
		if kind == "integer" || len(several) > 0 && several[0] == "integer" {
			if value["format"] != "int64" || value["maximum"] == nil || value["minimum"] == nil {
				t.Errorf("%s: an integer without format, minimum or maximum", at)
			}
			if most, ok := value["maximum"].(float64); ok && most > 1<<53-1 {
				t.Errorf("%s: maximum %v", at, most)
			}
		}
		for name, one := range value {
			if name == "oneOf" || name == "anyOf" {
				t.Errorf("%s: %s, which generated clients cannot do with", at, name)
			}
			walk(t, at+"/"+name, one)
		}
	}
}

// codes returns every code of package budget, from its source.
func codes(t *testing.T) (all []budget.Code) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../budget/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Code" {
				text, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				all = append(all, budget.Code(text))
			}
		}
		return true
	})
	return all
}

// TestErrorTable checks that the document has exactly the existing codes, with the status, title
// and kind with which each is sent.
func TestErrorTable(t *testing.T) {
	all, known := read(t).Errors, codes(t)
	if len(known) < 40 {
		t.Fatalf("found only %d codes", len(known))
	}
	for _, code := range known {
		want, ok := all[string(code)]
		p := httpapi.ProblemOf(&budget.Error{Code: code})
		if !ok || want.Status != p.Status || want.Title != p.Title || want.Kind != code.Kind().String() {
			t.Errorf("%s is sent as %d %q, %s; documented as %+v", code, p.Status, p.Title, code.Kind(), want)
		}
		if want.Happened == "" || want.Do == "" {
			t.Errorf("%s: its page does not say what happened or what to do", code)
		}
	}
	if len(all) != len(known) {
		t.Errorf("%d codes are documented, %d exist", len(all), len(known))
	}
}
