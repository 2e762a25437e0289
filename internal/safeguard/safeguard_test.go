package safeguard

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// TestNames: Names lists every constant, once, and each says what it is.
func TestNames(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "safeguard.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var declared []Name
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			text, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			declared = append(declared, Name(text))
			if doc := value.Doc.Text(); len(doc) < 40 {
				t.Errorf("%s says too little: %q", text, doc)
			}
		}
	}
	listed := Names()
	slices.Sort(declared)
	slices.Sort(listed)
	if !slices.Equal(declared, listed) || len(slices.Compact(listed)) != len(declared) {
		t.Errorf("declared %q, listed %q", declared, Names())
	}
}
