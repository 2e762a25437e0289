package main

import (
	"fmt"
	"slices"
	"strings"
)

const javaHead = `// The types of the API, generated from openapi.yaml by internal/sdktypes.
package io.budgetd.api;

import java.util.List;
import java.util.Map;

/**
 * The objects of the API as records. A component is the member of the same name in camel case; it
 * is null if the member is left out or null. Instants are texts.
 */
public final class Api {
  private Api() {}
`

// java returns the class that holds a record per object.
func java(all schemas) string {
	out := new(strings.Builder)
	out.WriteString(javaHead)
	for _, one := range all {
		if !one.isObject() || one.mayBe("string") {
			continue
		}
		members, required := all.members(one.schema)
		fmt.Fprintf(out, "\n  public record %s(", one.name)
		for i, member := range members {
			if i > 0 {
				out.WriteString(",")
			}
			fmt.Fprintf(out, "\n      %s %s", javaType(all, member.schema, required[member.name]),
				camel(member.name))
		}
		if !isMade(one.name) {
			out.WriteString(") {}\n")
			continue
		}
		out.WriteString(") {\n")
		makers(out, all, one.name, members, required)
		out.WriteString("  }\n")
	}
	out.WriteString("}\n")
	return out.String()
}

// isMade reports whether callers make a record, rather than read it.
func isMade(name string) bool {
	return strings.HasSuffix(name, "Request") || strings.HasSuffix(name, "Item")
}

// makers writes what makes a record from its required members, and what adds each of the others.
func makers(out *strings.Builder, all schemas, name string, members schemas,
	required map[string]bool) {
	var params, first, names []string
	for _, member := range members {
		component := camel(member.name)
		names = append(names, component)
		if !required[member.name] {
			first = append(first, "null")
			continue
		}
		first = append(first, component)
		params = append(params, javaType(all, member.schema, true)+" "+component)
	}
	fmt.Fprintf(out, "    /** Makes one with what is required. */\n")
	fmt.Fprintf(out, "    public static %s of(%s) {\n", name, strings.Join(params, ", "))
	made := "      return new " + name + "(\n          %s);\n    }\n"
	fmt.Fprintf(out, made, strings.Join(first, ", "))
	for i, member := range members {
		if required[member.name] {
			continue
		}
		component := names[i]
		fmt.Fprintf(out, "\n    /** Returns a copy with this {@code %s}. */\n", member.name)
		fmt.Fprintf(out, "    public %s with%s(%s %s) {\n", name,
			strings.ToUpper(component[:1])+component[1:], javaType(all, member.schema, false), component)
		fmt.Fprintf(out, made, strings.Join(names, ", "))
	}
}

// javaKinds returns the class that has the kind of each error code.
func javaKinds(errors codes) string {
	out := new(strings.Builder)
	out.WriteString(`// The kinds of the error codes, generated from openapi.yaml by internal/sdktypes.
package io.budgetd.api;

import java.util.Map;

/** The kind of each error code. */
public final class Kinds {
  public static final Map<String, String> OF = Map.ofEntries(
`)
	for i, one := range errors {
		end := ",\n"
		if i == len(errors)-1 {
			end = ");\n"
		}
		fmt.Fprintf(out, "      Map.entry(%q, %q)%s", one.code, one.kind, end)
	}
	out.WriteString("\n  private Kinds() {}\n}\n")
	return out.String()
}

// javaType returns the type of a value; certain means that it is always there.
func javaType(all schemas, s schema, certain bool) string {
	if s.Ref != "" {
		target := all.find(s.Ref)
		if target.isObject() && !target.mayBe("string") {
			return last(s.Ref)
		}
		return javaType(all, target, certain)
	}
	certain = certain && !s.mayBe("null")
	switch {
	case s.isObject():
		return "Object" // a text or an object
	case s.mayBe("array") && s.Items != nil:
		return "List<" + javaType(all, *s.Items, false) + ">"
	case s.mayBe("string") || len(s.Enum) > 0 || s.Const != "":
		return "String"
	case s.mayBe("object"):
		value, _ := s.values()
		return "Map<String, " + javaType(all, value, false) + ">"
	}
	for kind, names := range map[string][2]string{"integer": {"Long", "long"},
		"number": {"Double", "double"}, "boolean": {"Boolean", "boolean"}} {
		if s.mayBe(kind) && certain {
			return names[1]
		}
		if s.mayBe(kind) {
			return names[0]
		}
	}
	return "Object"
}

// reserved are words that no component of a record can be called.
var reserved = []string{"default", "class", "enum", "final", "new", "package", "public", "hashCode"}

// camel returns a name of the API as Java writes it.
func camel(name string) string {
	parts := strings.Split(name, "_")
	for i := 1; i < len(parts); i++ {
		if parts[i] != "" {
			parts[i] = strings.ToUpper(parts[i][:1]) + parts[i][1:]
		}
	}
	name = strings.Join(parts, "")
	if slices.Contains(reserved, name) {
		return name + "_"
	}
	return name
}
