package sim

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// trace notes a call that has no answer but an error, and returns the error.
func (w *world) trace(n *node, v verb, args any, err error) error {
	return w.traceAnswer(n, v, args, nil, err)
}

// traceAnswer notes a call of a store or of the database, and returns its error.
func (w *world) traceAnswer(n *node, v verb, args, answer any, err error) error {
	w.note(n.m.number, v.name, v.key^n.id, args, answer, err)
	return err
}

// note adds a line to the trace, and to its digest. While nothing is compared the digest has no
// arguments: they take longer to print than the whole call.
func (w *world) note(machine int, what string, key uint64, args, answer any, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	w.digest = mix(w.digest ^ key ^ uint64(virtual()) ^ name(string(budget.CodeOf(err))))
	if !w.options.Whole && w.options.Trace == nil {
		return
	}
	var line strings.Builder
	fmt.Fprintf(&line, "%s node %d %s ", time.Now().Format("15:04:05.000000000"), machine, what)
	printed(&line, reflect.ValueOf(args))
	line.WriteString(" -> ")
	if err != nil {
		line.WriteString(err.Error())
	} else {
		printed(&line, reflect.ValueOf(answer))
	}
	w.digest = mix(w.digest ^ name(line.String()))
	if w.options.Trace != nil {
		fmt.Fprintln(w.options.Trace, line.String())
	}
}

// printed writes a value as text that depends on nothing but the value: pointers are followed and
// maps sorted. Fields that other packages cannot see are left out.
func printed(out *strings.Builder, v reflect.Value) {
	if !v.IsValid() {
		out.WriteString("nil")
		return
	}
	if t, ok := reflect.TypeAssert[time.Time](v); ok {
		fmt.Fprint(out, t.UnixNano())
		return
	}
	if e, ok := reflect.TypeAssert[error](v); ok && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		out.WriteString(e.Error())
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		printed(out, v.Elem())
	case reflect.Struct:
		out.WriteByte('{')
		for i := range v.NumField() {
			if f := v.Field(i); f.CanInterface() && !f.IsZero() {
				fmt.Fprintf(out, "%s:", v.Type().Field(i).Name)
				printed(out, f)
				out.WriteByte(' ')
			}
		}
		out.WriteByte('}')
	case reflect.Slice, reflect.Array:
		out.WriteByte('[')
		for i := range v.Len() {
			printed(out, v.Index(i))
			out.WriteByte(' ')
		}
		out.WriteByte(']')
	case reflect.Map:
		lines := make([]string, 0, v.Len())
		for it := v.MapRange(); it.Next(); {
			var line strings.Builder
			printed(&line, it.Key())
			line.WriteByte('=')
			printed(&line, it.Value())
			lines = append(lines, line.String())
		}
		slices.Sort(lines)
		fmt.Fprintf(out, "map%q", lines)
	case reflect.String:
		fmt.Fprintf(out, "%q", v.String())
	default:
		fmt.Fprint(out, v)
	}
}
