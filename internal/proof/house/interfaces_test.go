package house_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// mostOnlyOnes is how many interfaces may have exactly one implementation. An interface is earned by
// two implementations, or by a fake that a test needs; the number only falls.
const mostOnlyOnes = 5

// contractType is an interface that is written out in the source.
type contractType struct {
	name    string // "" for one without a name
	generic bool
	types   []*types.Interface // one for each unit that has it
	methods []string
	by      map[token.Pos]string // implementations
}

// implementation is a type with methods.
type implementation struct {
	at      token.Pos
	name    string
	generic bool
	typ     types.Type // a pointer, which has the methods of the value as well
	methods map[string]bool
}

// TestOnlyImplementations lists the interfaces with methods that exactly one type of this repository
// implements, types in tests and fakes among them. It fails if there are more than before. Types of
// other modules do not count, and generic ones are compared by the names of their methods.
func TestOnlyImplementations(t *testing.T) {
	s, err := loadSource()
	if err != nil {
		t.Fatal(err)
	}
	interfaces, all := map[token.Pos]*contractType{}, []*implementation{}
	for _, u := range s.units {
		for _, file := range u.files {
			collect(u, file, interfaces)
		}
		all = append(all, implementations(u)...)
	}
	by := map[string][]*implementation{} // name of a method -> types that have it
	for _, one := range all {
		for name := range one.methods {
			by[name] = append(by[name], one)
		}
	}
	var only []string
	for at, one := range interfaces {
		for _, candidate := range by[one.methods[0]] {
			if one.by[candidate.at] == "" && one.has(candidate) {
				one.by[candidate.at] = candidate.name
			}
		}
		if len(one.by) == 1 {
			for _, name := range one.by {
				only = append(only, fmt.Sprintf("%s %s: %s", s.place(at), one.name, name))
			}
		}
	}
	slices.Sort(only)
	t.Logf("%d interfaces with methods, %d of them with exactly one implementation:\n%s", len(interfaces), len(only),
		strings.Join(only, "\n"))
	switch {
	case len(interfaces) < 60:
		t.Errorf("only %d interfaces were found", len(interfaces))
	case len(only) > mostOnlyOnes:
		t.Errorf("%d interfaces have exactly one implementation, at most %d may: call the type itself",
			len(only), mostOnlyOnes)
	case len(only) < mostOnlyOnes:
		t.Logf("%d are fewer than before: lower mostOnlyOnes", len(only))
	}
}

// collect adds the interfaces of a file.
func collect(u *unit, file *ast.File, into map[token.Pos]*contractType) {
	names := map[*ast.InterfaceType]*ast.TypeSpec{}
	skipped := map[ast.Node]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			if literal, ok := n.Type.(*ast.InterfaceType); ok {
				names[literal] = n
			}
			skipConstraints(n.TypeParams, skipped)
		case *ast.FuncType:
			skipConstraints(n.TypeParams, skipped)
		case *ast.InterfaceType:
			is, ok := u.info.TypeOf(n).(*types.Interface)
			if !ok || skipped[n] || is.NumMethods() == 0 || !is.IsMethodSet() {
				break // a constraint, any, or in a body that was not checked
			}
			one := into[n.Pos()]
			if one == nil {
				one = &contractType{name: "interface{…}", by: map[token.Pos]string{}}
				for i := range is.NumMethods() {
					one.methods = append(one.methods, is.Method(i).Name())
				}
				if spec := names[n]; spec != nil {
					one.name, one.generic = spec.Name.Name, spec.TypeParams != nil
				}
				into[n.Pos()] = one
			}
			one.types = append(one.types, is)
		}
		return true
	})
}

// skipConstraints leaves out the constraints of type parameters.
func skipConstraints(parameters *ast.FieldList, skipped map[ast.Node]bool) {
	if parameters == nil {
		return
	}
	for _, field := range parameters.List {
		skipped[field.Type] = true
	}
}

// implementations returns the types of a unit that are declared with a name and have methods.
func implementations(u *unit) (out []*implementation) {
	for id, object := range u.info.Defs {
		name, ok := object.(*types.TypeName)
		if !ok || name.IsAlias() {
			continue
		}
		named, ok := name.Type().(*types.Named)
		if !ok || types.IsInterface(named) {
			continue
		}
		one := &implementation{at: id.Pos(), name: folderOf(u.path) + "." + name.Name(),
			generic: named.TypeParams() != nil, typ: types.NewPointer(named), methods: map[string]bool{}}
		for method := range types.NewMethodSet(one.typ).Methods() {
			one.methods[method.Obj().Name()] = true
		}
		if len(one.methods) > 0 {
			out = append(out, one)
		}
	}
	return out
}

// has reports whether a type implements an interface.
func (c *contractType) has(one *implementation) bool {
	if !c.generic && !one.generic {
		return slices.ContainsFunc(c.types, func(is *types.Interface) bool {
			return types.Implements(one.typ, is)
		})
	}
	return !slices.ContainsFunc(c.methods, func(name string) bool { return !one.methods[name] })
}
