package house_test

import (
	"bytes"
	"fmt"
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
	"unicode/utf8"
)

// The largest sizes of code outside tests, as CONTRIBUTING.md has them.
const (
	fileLines        = 400
	functionLines    = 70
	lineColumns      = 100
	packageFiles     = 15
	interfaceMethods = 6
	mostExceptions   = 10
)

// larger lists what may be larger, with the reason: "file F", "function F:NAME", "lines F",
// "package DIR" or "interface F:NAME".
var larger = map[string]string{
	"package cmd/budgetctl":                              "one file per noun, and the tables and flags that they share",
	"package client":                                     "one file per noun of the API, in one package for its users",
	"package internal/httpapi":                           "one file per noun of the API, and the console's calls",
	"package bucket":                                     "the contract: one file per part of it",
	"package ledger/books":                               "one file per movement of units, all on the same rows",
	"interface internal/httpapi/api.go:Service":          "composition of the interfaces of the nouns",
	"interface internal/sql/engine/server.go:driverConn": "the interfaces of database/sql/driver",
}

func TestSizes(t *testing.T) {
	if len(larger) > mostExceptions {
		t.Errorf("%d exceptions, at most %d are allowed", len(larger), mostExceptions)
	}
	used := map[string]bool{}
	complain := func(what string, size, most int) {
		if size <= most {
			return
		}
		if larger[what] != "" {
			used[what] = true
			return
		}
		t.Errorf("%s: %d, at most %d", what, size, most)
	}
	files := map[string]int{}
	for _, file := range productFiles(t) {
		files[path.Dir(file)]++
		measure(t, file, complain)
	}
	for dir, n := range files {
		complain("package "+dir, n, packageFiles)
	}
	for what := range larger {
		if !used[what] {
			t.Errorf("the exception %q is not needed any more", what)
		}
	}
}

// productFiles lists the Go files outside tests of all modules.
func productFiles(t *testing.T) (files []string) {
	t.Helper()
	return slices.DeleteFunc(sourceFiles(t, ".go"), func(name string) bool {
		return strings.HasSuffix(name, "_test.go")
	})
}

// sourceFiles lists the files of all modules with some extensions.
func sourceFiles(t *testing.T, extensions ...string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && name != ".":
			return filepath.SkipDir
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata"):
			return filepath.SkipDir
		case !d.IsDir() && slices.Contains(extensions, filepath.Ext(name)):
			files = append(files, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 100 {
		t.Fatalf("found only %d files", len(files))
	}
	slices.Sort(files)
	return files
}

// measure reports the sizes of a file and of what is in it.
func measure(t *testing.T, name string, report func(what string, size, most int)) {
	t.Helper()
	source, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSuffix(source, []byte("\n")), []byte("\n"))
	report("file "+name, len(lines), fileLines)
	longest := 0
	for _, line := range lines {
		longest = max(longest, utf8.RuneCount(line))
	}
	report("lines "+name, longest, lineColumns)
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, name, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			size := set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1
			report(fmt.Sprintf("function %s:%s", name, n.Name.Name), size, functionLines)
		case *ast.TypeSpec:
			if i, is := n.Type.(*ast.InterfaceType); is {
				report(fmt.Sprintf("interface %s:%s", name, n.Name.Name), len(i.Methods.List),
					interfaceMethods)
			}
		}
		return true
	})
}
