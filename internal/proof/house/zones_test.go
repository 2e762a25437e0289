package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestZonesComeFromIana checks that no file but package iana loads a time zone: the standard library
// takes what the machine has, and two nodes could disagree when a window begins.
func TestZonesComeFromIana(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git" || path == "iana"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		files++
		for _, name := range zoneLoaders(t, path) {
			made := name == "LoadLocationFromTZData" && path == filepath.Join("allocation", "oracle_test.go")
			if !made { // it makes zones up
				t.Errorf("%s calls time.%s: use iana.Zone", path, name)
			}
		}
		return nil
	})
	if err != nil || files < 500 {
		t.Errorf("%d files, %v", files, err)
	}
}

// zoneLoaders lists the functions of package time that load a zone and that a file uses, and the
// zones that it embeds.
func zoneLoaders(t *testing.T, path string) (out []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, imported := range file.Imports {
		if imported.Path.Value == `"time/tzdata"` {
			out = append(out, "tzdata")
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if call, ok := node.(*ast.SelectorExpr); ok && strings.HasPrefix(call.Sel.Name, "LoadLocation") {
			out = append(out, call.Sel.Name)
		}
		return true
	})
	return out
}
