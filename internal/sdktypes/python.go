package main

import (
	"fmt"
	"slices"
	"strings"
)

// keywords are members that no Python class can have.
var keywords = []string{"from", "global", "in", "is", "not", "or", "and", "class", "def", "None"}

const pythonHead = `"""The types of the API, generated from openapi.yaml by internal/sdktypes."""

from typing import Any, Literal, NotRequired, TypedDict, Union

`

// python returns the module of the types: a TypedDict per object, and names for the others.
func python(all schemas) string {
	var names, classes strings.Builder
	for _, one := range all {
		switch {
		case one.isObject() && one.mayBe("string"):
			class(&classes, all, one.name+"Object", one.schema)
			fmt.Fprintf(&names, "%s = Union[str, %q]\n", one.name, one.name+"Object")
		case one.isObject():
			class(&classes, all, one.name, one.schema)
		default:
			fmt.Fprintf(&names, "%s = %s\n", one.name, pythonType(one.schema))
		}
	}
	return pythonHead + names.String() + classes.String()
}

// pythonKinds returns the kinds of the error codes.
func pythonKinds(all codes) string {
	var out strings.Builder
	out.WriteString("\n\nKINDS: dict[str, str] = {\n")
	for _, one := range all {
		fmt.Fprintf(&out, "    %q: %q,\n", one.code, one.kind)
	}
	out.WriteString("}\n")
	return out.String()
}

// typescriptKinds returns the kinds of the error codes.
func typescriptKinds(all codes) string {
	var out strings.Builder
	out.WriteString("// The kinds of the error codes, generated from openapi.yaml by " +
		"internal/sdktypes.\n")
	out.WriteString("export const kinds: Record<string, string> = {\n")
	for _, one := range all {
		fmt.Fprintf(&out, "  %s: '%s',\n", one.code, one.kind)
	}
	out.WriteString("}\n")
	return out.String()
}

// class writes a TypedDict.
func class(out *strings.Builder, all schemas, name string, of schema) {
	members, required := all.members(of)
	plain := true
	for _, member := range members {
		plain = plain && !slices.Contains(keywords, member.name)
	}
	if plain {
		fmt.Fprintf(out, "\n\nclass %s(TypedDict):\n", name)
	} else {
		fmt.Fprintf(out, "\n\n%s = TypedDict(\n    %q,\n    {\n", name, name)
	}
	for _, member := range members {
		text := pythonType(member.schema)
		if !required[member.name] {
			text = "NotRequired[" + text + "]"
		}
		if plain {
			fmt.Fprintf(out, "    %s: %s\n", member.name, text)
		} else {
			fmt.Fprintf(out, "        %q: %s,\n", member.name, text)
		}
	}
	if !plain {
		out.WriteString("    },\n)\n")
	}
}

// pythonType returns the type of a value. References are texts, because they are evaluated before
// all names are known.
func pythonType(s schema) string {
	text := "Any"
	switch {
	case s.Ref != "":
		return fmt.Sprintf("%q", last(s.Ref))
	case len(s.Enum) > 0:
		text = `Literal["` + strings.Join(s.Enum, `", "`) + `"]`
	case s.Const != "":
		text = fmt.Sprintf("Literal[%q]", s.Const)
	case s.mayBe("array") && s.Items != nil:
		text = "list[" + pythonType(*s.Items) + "]"
	case s.mayBe("string"):
		text = "str"
	case s.mayBe("integer"):
		text = "int"
	case s.mayBe("number"):
		text = "float"
	case s.mayBe("boolean"):
		text = "bool"
	case s.mayBe("object"):
		text = "dict[str, Any]"
		if value, is := s.values(); is {
			text = "dict[str, " + pythonType(value) + "]"
		}
	}
	if s.mayBe("null") {
		return "Union[" + text + ", None]"
	}
	return text
}
