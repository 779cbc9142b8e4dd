// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// typescript is the module of types.
func typescript(d *document) string {
	var b strings.Builder
	b.WriteString(notice("//"))
	for _, name := range slices.Sorted(maps.Keys(d.Components.Schemas)) {
		s := d.Components.Schemas[name]
		if len(s.Enum) > 0 {
			fmt.Fprintf(&b, "export type %s = %s;\n\n", name, quoted(s.Enum, " | "))
			continue
		}
		fmt.Fprintf(&b, "export interface %s %s\n\n", name, tsObject(&s, ""))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func quoted(values []string, between string) string {
	var all []string
	for _, v := range values {
		all = append(all, fmt.Sprintf("%q", v))
	}
	return strings.Join(all, between)
}

func tsObject(s *schema, indent string) string {
	if len(s.Properties) == 0 {
		return "{}"
	}
	var b strings.Builder
	b.WriteString("{\n")
	for _, member := range slices.Sorted(maps.Keys(s.Properties)) {
		name, mark := member, "?"
		if !plainName.MatchString(name) {
			name = fmt.Sprintf("%q", name)
		}
		if slices.Contains(s.Required, member) {
			mark = ""
		}
		fmt.Fprintf(&b, "%s  %s%s: %s;\n", indent, name, mark, tsType(s.Properties[member], indent+"  "))
	}
	return b.String() + indent + "}"
}

// tsType is the type of a value.
func tsType(s *schema, indent string) string {
	if s == nil {
		return "unknown"
	}
	if s.Ref != "" {
		return s.name()
	}
	var either []string
	for _, one := range s.AnyOf {
		either = append(either, tsType(&one, indent))
	}
	for _, kind := range s.Type {
		switch kind {
		case "integer":
			kind = "number"
		case "array":
			kind = "Array<" + tsType(s.Items, indent) + ">"
		case "object":
			switch {
			case len(s.Properties) > 0:
				kind = tsObject(s, indent)
			case s.More != nil:
				kind = "Record<string, " + tsType(s.More, indent) + ">"
			default:
				kind = "Record<string, unknown>"
			}
		}
		either = append(either, kind)
	}
	if len(either) == 0 {
		return "unknown"
	}
	return strings.Join(either, " | ")
}

// typescriptOperations is the module of operations: what each takes and answers, and where it is.
func typescriptOperations(d *document) string {
	var b strings.Builder
	b.WriteString(notice("//"))
	b.WriteString("import type * as types from \"./types.js\";\n\n/** What each operation of the API takes and answers. */\nexport interface Operations {\n")
	for _, r := range d.routes() {
		params := map[string]*schema{"path": {}, "query": {}}
		for _, p := range r.Parameters {
			s := params[p.In]
			if s == nil {
				continue // headers are options of the client
			}
			if s.Properties == nil {
				s.Properties = map[string]*schema{}
			}
			s.Properties[p.Name] = &p.Schema
			if p.Required {
				s.Required = append(s.Required, p.Name)
			}
		}
		in, out := "undefined", "unknown"
		if s := r.RequestBody.json(); s != nil {
			in = inTypes(s)
		} else if r.RequestBody != nil {
			in = "Blob | ArrayBuffer | Uint8Array | string"
		}
		ok := r.Responses["200"]
		if s := ok.json(); s != nil {
			out = inTypes(s)
		}
		fmt.Fprintf(&b, "  /** %s */\n  %s: { path: %s; query: %s; body: %s; answer: %s };\n", r.Summary, r.ID,
			oneLine(params["path"]), oneLine(params["query"]), in, out)
	}
	b.WriteString("}\n\n/** The method and the path of each operation. */\nexport const operations: Record<keyof Operations, readonly [string, string]> = {\n")
	for _, r := range d.routes() {
		fmt.Fprintf(&b, "  %s: [%q, %q],\n", r.ID, r.method, r.path)
	}
	return b.String() + "};\n"
}

func oneLine(s *schema) string { return strings.Join(strings.Fields(tsObject(s, "")), " ") }

var typeName = regexp.MustCompile(`\b[A-Z][A-Za-z0-9]*\b`)

// inTypes is a type whose names are those of the module of types.
func inTypes(s *schema) string {
	return typeName.ReplaceAllStringFunc(tsType(s, ""), func(name string) string {
		if name == "Array" || name == "Record" {
			return name
		}
		return "types." + name
	})
}
