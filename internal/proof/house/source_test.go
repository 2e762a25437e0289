package house_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// modules are the modules whose packages are checked by their types. The others are programs of a
// few files without an interface.
var modules = []string{".", "api", "budget", "client", "bench"}

// unit is a package of this repository as the compiler sees it: the package, the package with its
// tests, its external tests, or a package compiled once more because a test is between the two.
type unit struct {
	*types.Package
	path  string // without the mark of the variant
	test  bool   // it has the tests
	plain bool   // neither a test nor compiled for one
	files []*ast.File
	info  *types.Info
}

// compiled is what go list says about a unit.
type compiled struct {
	Dir, ImportPath, Name, ForTest string
	GoFiles, Imports               []string
	ImportMap                      map[string]string
}

// source is the parsed and checked source of this repository.
type source struct {
	set   *token.FileSet
	units []*unit
	files map[string]*ast.File
}

// loadSource checks all packages of this repository with their tests. It takes what others have
// written from the compiler's output.
var loadSource = sync.OnceValues(func() (*source, error) {
	s := &source{set: token.NewFileSet(), files: map[string]*ast.File{}}
	for _, module := range modules {
		if err := s.load(module); err != nil {
			return nil, fmt.Errorf("module %s: %w", module, err)
		}
	}
	return s, nil
})

func (s *source) load(dir string) error {
	out, err := goList(dir, "-deps", "-test", "-json=Dir,ImportPath,Name,ForTest,GoFiles,Imports,ImportMap",
		"./...")
	if err != nil {
		return err
	}
	var all []compiled
	foreign := map[string]bool{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var c compiled
		err := decoder.Decode(&c)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		path, _, _ := strings.Cut(c.ImportPath, " ")
		if folderOf(path) == "" || strings.HasSuffix(c.ImportPath, ".test") {
			continue
		}
		all = append(all, c)
		for _, imported := range c.Imports {
			if imported, _, _ := strings.Cut(imported, " "); folderOf(imported) == "" {
				foreign[imported] = true
			}
		}
	}
	others, err := s.foreign(dir, foreign)
	if err != nil {
		return err
	}
	checked := map[string]*types.Package{} // of this module
	for i := range all {
		u, err := s.check(&all[i], func(path string) (*types.Package, error) {
			if p := checked[path]; p != nil {
				return p, nil
			}
			return others.Import(path)
		})
		if err != nil {
			return err
		}
		checked[all[i].ImportPath] = u.Package
		s.units = append(s.units, u)
	}
	return nil
}

// foreign returns an importer of packages that are not of this repository.
func (s *source) foreign(dir string, paths map[string]bool) (types.Importer, error) {
	delete(paths, "C")
	delete(paths, "unsafe")
	args := []string{"-export", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for path := range paths {
		args = append(args, path)
	}
	out, err := goList(dir, args...)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[path] = file
	}
	return importer.ForCompiler(s.set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	}), nil
}

// check parses and checks a unit. What is compiled once more for a test is checked without bodies.
func (s *source) check(c *compiled, find func(string) (*types.Package, error)) (*unit, error) {
	path, variant, _ := strings.Cut(c.ImportPath, " ")
	u := &unit{path: strings.TrimSuffix(path, "_test"), plain: variant == "",
		test: c.ForTest != "" && strings.TrimSuffix(path, "_test") == c.ForTest,
		info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{},
			Uses: map[*ast.Ident]types.Object{}}}
	for _, name := range c.GoFiles {
		name = filepath.Join(c.Dir, name)
		if s.files[name] == nil {
			file, err := parser.ParseFile(s.set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			s.files[name] = file
		}
		u.files = append(u.files, s.files[name])
	}
	config := types.Config{IgnoreFuncBodies: variant != "" && !u.test,
		Importer: importing(func(path string) (*types.Package, error) {
			if mapped := c.ImportMap[path]; mapped != "" {
				path = mapped
			}
			return find(path)
		})}
	var err error
	u.Package, err = config.Check(path, s.set, u.files, u.info)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.ImportPath, err)
	}
	return u, nil
}

// importing is an importer made of a function.
type importing func(path string) (*types.Package, error)

func (f importing) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	return f(path)
}

// goList runs go list in the folder of a module.
func goList(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", slices.Concat([]string{"-C", dir, "list"}, args)...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, complaints.String())
	}
	return out, nil
}

// place returns where something is, as FILE:LINE in the repository.
func (s *source) place(at token.Pos) string {
	where := s.set.Position(at)
	return fmt.Sprintf("%s:%d", relative(where.Filename), where.Line)
}

// relative returns a path below the repository's root.
func relative(name string) string {
	root, err := os.Getwd()
	if err == nil {
		name, err = filepath.Rel(root, name)
	}
	if err != nil {
		return name
	}
	return filepath.ToSlash(name)
}
