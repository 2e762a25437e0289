package house_test

import (
	"fmt"
	"go/ast"
	"go/types"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mostWalkLines bounds one walk of docs/TOUR.md.
const mostWalkLines = 40

// handedOver is how docs/TOUR.md marks a function that nothing on the way calls: it gets its work
// through something else.
const handedOver = `\((?:queue|channel|loop|net/http|table|process|walk)\) `

var (
	// tourFile is a file of a walk with the functions that the walk goes through, in backquotes.
	tourFile = regexp.MustCompile("(" + handedOver + ")?`([a-z_/0-9]+\\.(?:go|lua))`(?:: ((?:(?:" +
		handedOver + ")?`[A-Za-z.]+`,? ?)+))?")
	// tourMethod is a method anywhere in a line: of the file named before it.
	tourMethod = regexp.MustCompile("(" + handedOver + ")?`([A-Za-z]+\\.[A-Za-z]+)`")
	tourName   = regexp.MustCompile("(" + handedOver + ")?`([A-Za-z.]+)`")
)

// step is a function of a walk.
type step struct {
	file, name string
	handed     bool // marked as handed over
}

// TestTour checks that the files and functions that docs/TOUR.md names exist, that no walk is too
// long, and that each function is called by the one before it or by one from which that was called,
// itself or by an interface that it implements. Where a queue or another goroutine is between the two,
// the page says so.
func TestTour(t *testing.T) {
	text, err := os.ReadFile("docs/TOUR.md")
	if err != nil {
		t.Fatal(err)
	}
	s, err := loadSource()
	if err != nil {
		t.Fatal(err)
	}
	calls, names := callsOf(s), 0
	for _, walk := range strings.Split(string(text), "\n## ")[1:] {
		title, _, _ := strings.Cut(walk, "\n")
		if n := strings.Count(strings.TrimSpace(walk), "\n"); n > mostWalkLines {
			t.Errorf("%s: %d lines, at most %d", title, n, mostWalkLines)
		}
		steps, files := stepsOf(walk)
		for _, file := range files {
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %v", title, err)
			}
		}
		names += len(steps)
		for _, wrong := range calls.follow(steps) {
			t.Errorf("%s: %s", title, wrong)
		}
		t.Log(title + ": " + statistics(steps, files))
	}
	if names < 150 {
		t.Errorf("only %d functions were found", names)
	}
}

// stepsOf returns the functions of a walk in their order, and the files.
func stepsOf(walk string) (steps []step, files []string) {
	for _, line := range strings.Split(walk, "\n")[1:] {
		found := tourFile.FindAllStringSubmatchIndex(line, -1)
		for i, at := range found {
			file, end := line[at[4]:at[5]], len(line)
			if i+1 < len(found) {
				end = found[i+1][0]
			}
			files = append(files, file)
			var named [][]string
			if at[6] >= 0 {
				named = tourName.FindAllStringSubmatch(line[at[6]:at[7]], -1)
			}
			named = append(named, tourMethod.FindAllStringSubmatch(line[at[1]:end], -1)...)
			for n, name := range named {
				steps = append(steps, step{file, name[2], name[1] != "" || n == 0 && at[2] >= 0})
			}
		}
	}
	return steps, files
}

// statistics says how far a walk goes.
func statistics(steps []step, files []string) string {
	changes := 0
	var packages []string
	for i, file := range files {
		if i > 0 && path.Dir(file) != path.Dir(files[i-1]) {
			changes++
		}
		packages = append(packages, path.Dir(file))
	}
	different := func(all []string) int { return len(slices.Compact(slices.Sorted(slices.Values(all)))) }
	return fmt.Sprintf("%d functions, %d files, %d packages, %d changes of package", len(steps),
		different(files), different(packages), changes)
}

// called is what a function calls or passes on to be called: functions, and methods of interfaces.
type called struct {
	functions map[*types.Func]bool
	methods   []interfaceMethod
}

// interfaceMethod is a call through an interface.
type interfaceMethod struct {
	name string
	of   types.Type
}

// calling knows the functions outside tests by FILE:NAME, and what they call.
type calling struct {
	functions map[string]*types.Func
	calls     map[*types.Func]*called
	// having are the types that have a method, those among them that embed its receiver.
	having map[*types.Func][]types.Type
}

func callsOf(s *source) *calling {
	c := &calling{functions: map[string]*types.Func{}, calls: map[*types.Func]*called{},
		having: map[*types.Func][]types.Type{}}
	for _, u := range s.units {
		if !u.plain {
			continue
		}
		for _, one := range implementations(u) {
			for method := range types.NewMethodSet(one.typ).Methods() {
				f := method.Obj().(*types.Func).Origin()
				c.having[f] = append(c.having[f], one.typ)
			}
		}
		for _, file := range u.files {
			name := relative(s.set.Position(file.Pos()).Filename)
			for _, d := range file.Decls {
				declared, ok := d.(*ast.FuncDecl)
				if !ok || declared.Body == nil {
					continue
				}
				f := u.info.Defs[declared.Name].(*types.Func)
				if c.functions[name+":"+nameIn(f)] != nil {
					continue // checked in another module before
				}
				c.functions[name+":"+nameIn(f)] = f
				c.calls[f] = calledIn(u, declared.Body)
			}
		}
	}
	return c
}

// nameIn returns a function's name in its package: NAME or TYPE.NAME.
func nameIn(f *types.Func) string {
	if receiver := f.Signature().Recv(); receiver != nil {
		if named := namedOf(receiver.Type()); named != nil {
			return named.Obj().Name() + "." + f.Name()
		}
	}
	return f.Name()
}

func namedOf(t types.Type) *types.Named {
	if pointer, ok := t.(*types.Pointer); ok {
		t = pointer.Elem()
	}
	named, _ := types.Unalias(t).(*types.Named)
	return named
}

func calledIn(u *unit, body *ast.BlockStmt) *called {
	out := &called{functions: map[*types.Func]bool{}}
	ast.Inspect(body, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		f, ok := u.info.Uses[id].(*types.Func)
		if !ok {
			return true
		}
		f = f.Origin()
		if receiver := f.Signature().Recv(); receiver != nil && types.IsInterface(receiver.Type()) {
			out.methods = append(out.methods, interfaceMethod{f.Name(), receiver.Type()})
		} else {
			out.functions[f] = true
		}
		return true
	})
	return out
}

// follow returns what is wrong with a walk.
func (c *calling) follow(steps []step) (wrong []string) {
	var way []*types.Func // those that were called and may not have returned
	for i, one := range steps {
		f := c.functions[one.file+":"+one.name]
		if f == nil {
			wrong = append(wrong, fmt.Sprintf("%s has no function %s", one.file, one.name))
			continue
		}
		at := len(way) - 1
		for at >= 0 && !c.call(way[at], f) {
			at--
		}
		switch {
		case at >= 0 && one.handed:
			wrong = append(wrong, fmt.Sprintf("%s of %s is called by %s: nothing is between the two",
				one.name, one.file, nameIn(way[at])))
			way = way[:at+1]
		case at >= 0:
			way = way[:at+1]
		case i > 0 && !one.handed:
			wrong = append(wrong, fmt.Sprintf("%s of %s is called neither by %s before it nor by what called that",
				one.name, one.file, steps[i-1].name))
		}
		way = append(way, f)
	}
	return wrong
}

// call reports whether a function calls another one, itself or through an interface.
func (c *calling) call(from, to *types.Func) bool {
	calls := c.calls[from]
	if calls.functions[to] {
		return true
	}
	return slices.ContainsFunc(calls.methods, func(m interfaceMethod) bool {
		if m.name != to.Name() {
			return false
		}
		is, _ := m.of.Underlying().(*types.Interface)
		of := namedOf(m.of)
		return slices.ContainsFunc(c.having[to], func(t types.Type) bool {
			generic := namedOf(t).TypeParams() != nil || of != nil && of.TypeParams() != nil
			return generic || types.Implements(t, is)
		})
	})
}
