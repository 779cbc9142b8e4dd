// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// keywords cannot be members of a class.
var keywords = []string{"and", "as", "class", "from", "import", "in", "is", "not", "or", "pass", "with"}

// pythonTypes is the module of types.
func pythonTypes(d *document) string {
	var b strings.Builder
	b.WriteString(notice("#"))
	b.WriteString("\"\"\"What the API takes and answers.\"\"\"\n\nfrom __future__ import annotations\n\nfrom typing import Any, Literal, NotRequired, TypedDict\n")
	for _, name := range slices.Sorted(maps.Keys(d.Components.Schemas)) {
		s := d.Components.Schemas[name]
		members := slices.Sorted(maps.Keys(s.Properties))
		switch {
		case len(s.Enum) > 0:
			fmt.Fprintf(&b, "\n%s = Literal[%s]\n", name, quoted(s.Enum, ", "))
			continue
		case slices.ContainsFunc(members, func(m string) bool { return !plainName.MatchString(m) || slices.Contains(keywords, m) }):
			fmt.Fprintf(&b, "\n%s = TypedDict(\n    %q,\n    {\n", name, name)
			for _, member := range members {
				fmt.Fprintf(&b, "        %q: %q,\n", member, pyMember(&s, member))
			}
			b.WriteString("    },\n)\n")
			continue
		}
		fmt.Fprintf(&b, "\n\nclass %s(TypedDict):\n", name)
		if len(members) == 0 {
			b.WriteString("    pass\n")
		}
		for _, member := range members {
			fmt.Fprintf(&b, "    %s: %s\n", member, pyMember(&s, member))
		}
		b.WriteString("\n")
	}
	return strings.ReplaceAll(strings.TrimRight(b.String(), "\n")+"\n", "\n\n\n\n", "\n\n\n")
}

func pyMember(s *schema, member string) string {
	t := pyType(s.Properties[member])
	if slices.Contains(s.Required, member) {
		return t
	}
	return "NotRequired[" + t + "]"
}

// pyType is the type of a value.
func pyType(s *schema) string {
	if s == nil {
		return "Any"
	}
	if s.Ref != "" {
		return s.name()
	}
	var either []string
	for _, one := range s.AnyOf {
		either = append(either, pyType(&one))
	}
	for _, kind := range s.Type {
		switch kind {
		case "array":
			kind = "list[" + pyType(s.Items) + "]"
		case "object":
			kind = "dict[str, Any]"
			if s.More != nil {
				kind = "dict[str, " + pyType(s.More) + "]"
			}
		default:
			kind = map[string]string{"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}[kind]
		}
		either = append(either, kind)
	}
	if len(either) == 0 {
		return "Any"
	}
	return strings.Join(either, " | ")
}

// pythonOperations is the table of operations.
func pythonOperations(d *document) string {
	var b strings.Builder
	b.WriteString(notice("#"))
	b.WriteString("\"\"\"The method and the path of each operation.\"\"\"\n\nfrom __future__ import annotations\n\nOPERATIONS: dict[str, tuple[str, str]] = {\n")
	for _, r := range d.routes() {
		fmt.Fprintf(&b, "    %q: (%q, %q),\n", r.ID, r.method, r.path)
	}
	return b.String() + "}\n"
}
