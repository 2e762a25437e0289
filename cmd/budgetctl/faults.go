package main

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/internal/strictyaml"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// mostFaults bounds the unreadable members that are shown of a file.
const mostFaults = 100

// faults are several errors, each of which is shown.
type faults []error

func (f faults) Error() string { return errors.Join(f...).Error() }

func (f faults) Unwrap() []error { return f }

// unreadable decodes a file of budgets, and returns all of its members that cannot be read: those
// whose form was faulty, unknown ones, and values of another type.
func unreadable(path string, text []byte, form strictyaml.Faults) (*declaration, faults) {
	var file any
	if err := json.Unmarshal(text, &file, asWritten); err != nil {
		return nil, faults{usagef("-f %s: %v", path, err)}
	}
	var list faults
	names := namesIn(file) // before values are taken out
	add := func(line, at, what string) {
		list = append(list, usagef("-f %s: %s%s %s", path, line, inBudget(names, at), what))
	}
	for _, f := range form {
		add(fmt.Sprintf("line %d: ", f.Line), f.At, f.What)
	}
	for {
		out := new(declaration)
		err := json.Unmarshal(text, out, json.RejectUnknownMembers(true))
		var fault *json.SemanticError
		switch {
		case err == nil:
			return out, list
		case !errors.As(err, &fault):
			return nil, append(list, usagef("-f %s: %v", path, err))
		}
		place := slices.Collect(fault.JSONPointer.Tokens())
		unknown := errors.Is(fault.Err, json.ErrUnknownName)
		value, taken := take(file, place, unknown)
		if unknown {
			add("", pathOf(place), "is not known"+likeMember(fault.GoType, place[len(place)-1]))
		} else {
			add("", pathOf(place), mismatch(value, fault.Err))
		}
		if len(list) >= mostFaults || !taken {
			return nil, list
		}
		if text, err = json.Marshal(file); err != nil {
			return nil, append(list, err)
		}
	}
}

// asWritten keeps numbers as they are written: as a float64, 5.0 would become 5.
var asWritten = json.WithUnmarshalers(json.UnmarshalFromFunc(
	func(d *jsontext.Decoder, into *any) error {
		if d.PeekKind() != '0' {
			return errors.ErrUnsupported
		}
		number, err := d.ReadValue()
		*into = number.Clone()
		return err
	}))

// pathOf returns the path of a value, such as budgets[0].limits.
func pathOf(place []string) string {
	at := ""
	for _, part := range place {
		if _, err := strconv.Atoi(part); err == nil {
			at += "[" + part + "]"
		} else {
			at = strings.TrimPrefix(at+"."+part, ".")
		}
	}
	return at
}

// ofBudget is the path of a member of a budget.
var ofBudget = regexp.MustCompile(`^budgets\[(\d+)\]\.?(.*)$`)

// inBudget returns the path of a value in a file with the name of its budget.
func inBudget(names []string, at string) string {
	parts := ofBudget.FindStringSubmatch(at)
	if parts == nil {
		return cmp.Or(at, "the file")
	}
	i, _ := strconv.Atoi(parts[1])
	return strings.TrimSuffix("budget "+names[i]+": "+parts[2], ": ")
}

// namesIn returns the names of the budgets in a file, and the numbers of those without a name.
func namesIn(file any) []string {
	object, _ := file.(map[string]any)
	list, _ := object["budgets"].([]any)
	names := make([]string, len(list))
	for i := range list {
		names[i] = "number " + strconv.Itoa(i+1)
		if b, _ := list[i].(map[string]any); b["name"] != nil {
			names[i] = fmt.Sprint(b["name"])
		}
	}
	return names
}

// mismatch says what is wrong with a value.
func mismatch(value any, why error) string {
	what := "cannot be " + textOf(value)
	switch value.(type) {
	case map[string]any:
		return "cannot be an object"
	case []any:
		return "cannot be a list"
	case string:
		if why != nil {
			return what + ": " + why.Error()
		}
	}
	return what
}

// take takes a value out of a file: an unknown member altogether, and null stands for another. It
// returns false if the value is not found, or is null already.
func take(file any, place []string, unknown bool) (value any, taken bool) {
	if len(place) == 0 {
		return file, false
	}
	for i, part := range place {
		last := i == len(place)-1
		switch of := file.(type) {
		case map[string]any:
			file = of[part]
			switch {
			case last && unknown:
				delete(of, part)
			case last:
				of[part] = nil
			}
		case []any:
			n, err := strconv.Atoi(part)
			if err != nil || n >= len(of) {
				return nil, false
			}
			if file = of[n]; last {
				of[n] = nil
			}
		}
	}
	return file, unknown || file != nil
}

// likeMember returns a question for the members of a type that are named like an unknown one.
func likeMember(of reflect.Type, name string) string {
	known := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, f := range reflect.VisibleFields(of) {
		if member, _, _ := strings.Cut(f.Tag.Get("json"), ","); member != "" && member != "-" {
			known.AddCommand(&cobra.Command{Use: member, Run: func(*cobra.Command, []string) {}})
		}
	}
	return didYouMean(known, name)
}
