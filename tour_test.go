package budgetd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// mostWalkLines bounds one walk of docs/TOUR.md.
const mostWalkLines = 40

var (
	// tourFile is a file of a walk with the functions that the walk goes through, in backquotes.
	tourFile = regexp.MustCompile("`([a-z_/0-9]+\\.(?:go|lua))`(?:: ((?:`[A-Za-z.]+`,? ?)+))?")
	// tourMethod is a method anywhere in a line: of the file named before it.
	tourMethod = regexp.MustCompile("`([A-Za-z]+\\.[A-Za-z]+)`")
	tourName   = regexp.MustCompile("`([A-Za-z.]+)`")
)

// TestTour checks that the files and functions that docs/TOUR.md names exist, and that no walk is
// too long.
func TestTour(t *testing.T) {
	text, err := os.ReadFile("docs/TOUR.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]map[string]bool{}
	names := 0
	for _, walk := range strings.Split(string(text), "\n## ")[1:] {
		title, _, _ := strings.Cut(walk, "\n")
		if n := strings.Count(strings.TrimSpace(walk), "\n"); n > mostWalkLines {
			t.Errorf("%s: %d lines, at most %d", title, n, mostWalkLines)
		}
		for _, line := range strings.Split(walk, "\n")[1:] {
			found := tourFile.FindAllStringSubmatchIndex(line, -1)
			for i, at := range found {
				file, end := line[at[2]:at[3]], len(line)
				if i+1 < len(found) {
					end = found[i+1][0]
				}
				if declared[file] == nil {
					declared[file] = functionsOf(t, file)
				}
				wanted := tourMethod.FindAllStringSubmatch(line[at[1]:end], -1)
				if at[4] >= 0 {
					wanted = append(wanted, tourName.FindAllStringSubmatch(line[at[4]:at[5]], -1)...)
				}
				for _, name := range wanted {
					if names++; !declared[file][name[1]] {
						t.Errorf("%s: %s has no function %s", title, file, name[1])
					}
				}
			}
		}
	}
	if names < 150 {
		t.Errorf("only %d functions were found", names)
	}
}

// functionsOf lists what a file declares: functions by name, methods as Type.Name.
func functionsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	if strings.HasSuffix(file, ".lua") {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
		return out
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return out
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil {
			of := f.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			if index, ok := of.(*ast.IndexExpr); ok { // a generic type
				of = index.X
			}
			if id, ok := of.(*ast.Ident); ok {
				name = id.Name + "." + name
			}
		}
		out[name] = true
	}
	return out
}
