package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// skips returns the places in a Go source where a test may skip itself. A missing server must fail
// the run instead.
func skips(name string, source []byte) ([]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []string
	ast.Inspect(file, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch selector.Sel.Name {
		case "Skip", "Skipf", "SkipNow":
			if isTester(selector.X) {
				found = append(found, files.Position(selector.Pos()).String())
			}
		case "Short":
			if receiver, ok := selector.X.(*ast.Ident); ok && receiver.Name == "testing" {
				found = append(found, files.Position(selector.Pos()).String())
			}
		}
		return true
	})
	return found, nil
}

// isTester says whether an expression is a *testing.T, B, F or TB, going by its usual names.
func isTester(expression ast.Expr) bool {
	switch x := expression.(type) {
	case *ast.Ident:
		return slices.Contains([]string{"t", "b", "f", "tb", "T"}, x.Name)
	case *ast.SelectorExpr: // a field
		return isTester(x.Sel)
	case *ast.CallExpr: // a method, such as T()
		return isTester(x.Fun)
	}
	return false
}

func TestNothingSkips(t *testing.T) {
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if entry.IsDir() || path.Ext(name) != ".go" {
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		found, err := skips(name, source)
		for _, position := range found {
			t.Errorf("%s: a test that can skip", position)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSkips proves that the check can fail. The sources are put together so that no line of this
// file looks like a skip itself.
func TestSkips(t *testing.T) {
	tests := []struct {
		call string
		want int
	}{
		{"t." + "Skip()", 1},
		{"t." + "Skipf(`no server`)", 1},
		{"b." + "SkipNow()", 1},
		{"s.T()." + "Skip()", 1},
		{"s.tb." + "Skip()", 1},
		{"if testing." + "Short() { return }", 1},
		{"ring.Skip(`node`)", 0},
		{"t.Log(`t." + "Skip()`)", 0},
		{"return // t." + "Skip()", 0},
	}
	for _, tt := range tests {
		t.Run(tt.call, func(t *testing.T) {
			found, err := skips("x_test.go", []byte("package x\nfunc _() {\n"+tt.call+"\n}\n"))
			if err != nil {
				t.Fatal(err)
			}
			if len(found) != tt.want {
				t.Errorf("found %v, want %d", found, tt.want)
			}
		})
	}
}
