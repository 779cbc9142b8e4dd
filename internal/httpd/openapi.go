// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// openapi sends the description of the API, generated from the table of routes and the
// types of package api.
func (s *server) openapi(q *request) error {
	q.header("application/json")
	data, err := json.MarshalIndent(s.document(), "", " ")
	if err != nil {
		return err
	}
	_, _ = q.w.Write(data)
	return nil
}

type object = map[string]any

func (s *server) document() object {
	g := schemas{}
	paths := object{}
	for i := range s.table {
		r := s.table[i].route
		path := strings.ReplaceAll(r.pattern, "...}", "}")
		item, ok := paths[path].(object)
		if !ok {
			item = object{}
			paths[path] = item
		}
		item[strings.ToLower(r.method)] = g.operation(r)
	}
	return object{
		"openapi": "3.1.0",
		"info":    object{"title": "Warren", "version": api.Version, "license": object{"name": "Apache-2.0"}},
		"paths":   paths,
		"components": object{
			"schemas": g,
			"securitySchemes": object{
				"key":   object{"type": "http", "scheme": "bearer"},
				"token": object{"type": "apiKey", "in": "header", "name": api.HeaderIdentityToken},
				"git":   object{"type": "http", "scheme": "basic"},
			},
		},
	}
}

func (g schemas) operation(r route) object {
	op := object{"summary": r.doc, "responses": object{
		"default": object{"description": "failure", "content": jsonBody(g.ref(reflect.TypeFor[api.ErrorBody]()))},
	}}
	ok := object{"description": "success"}
	switch {
	case r.out != nil:
		ok["content"] = jsonBody(g.ref(reflect.TypeOf(r.out)))
	case r.stream:
		ok["content"] = object{"application/octet-stream": object{}}
	}
	op["responses"].(object)["200"] = ok
	switch {
	case r.in != nil:
		op["requestBody"] = object{"content": jsonBody(g.ref(reflect.TypeOf(r.in)))}
	case r.method == "PUT" && r.stream:
		op["requestBody"] = object{"content": object{"application/octet-stream": object{}}}
	}
	if r.right != public {
		op["security"] = []object{{"key": []string{}}}
		switch {
		case r.right.forTokens():
			op["security"] = []object{{"key": []string{}}, {"token": []string{}}}
		case r.right == forGit:
			op["security"] = []object{{"git": []string{}}, {}} // nothing for a public repository
		}
		op["x-right"] = r.right
	}
	params := []object{}
	for p := range strings.SplitSeq(r.pattern, "/") {
		if name, is := strings.CutPrefix(p, "{"); is {
			name = strings.TrimSuffix(strings.TrimSuffix(name, "}"), "...")
			params = append(params, parameter("path", name, true))
		}
	}
	for name := range strings.FieldsSeq(r.query) {
		params = append(params, parameter("query", name, false))
	}
	if strings.Contains(r.pattern, "/{vm}/") {
		params = append(params, parameter("header", api.HeaderLinuxUser, false))
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	return op
}

func parameter(in, name string, required bool) object {
	return object{"name": name, "in": in, "required": required, "schema": object{"type": "string"}}
}

func jsonBody(schema object) object { return object{"application/json": object{"schema": schema}} }

var apiPackage = reflect.TypeFor[api.ErrorBody]().PkgPath()

// schemas are the JSON schemas of Go types, by name.
type schemas map[string]any

func (g schemas) ref(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[vm.Optional[vm.Seconds]]():
		return object{"type": []string{"integer", "null"}}
	case reflect.TypeFor[vm.Optional[[]string]]():
		return object{"type": []string{"array", "null"}, "items": object{"type": "string"}}
	case reflect.TypeFor[vm.NetworkSpec]():
		return object{"anyOf": []object{{"type": "string"}, g.ref(reflect.TypeFor[vm.NetworkRequest]())}}
	case reflect.TypeFor[json.RawMessage]():
		return object{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nullable(g.ref(t.Elem()))
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": g.ref(t.Elem())}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		return object{"type": "array", "items": g.ref(t.Elem())}
	case reflect.Struct:
		return g.structRef(t)
	case reflect.Interface:
		return object{}
	default:
		return object{"type": "integer"}
	}
}

// nullable lets a schema accept null, too.
func nullable(schema object) object {
	if t, is := schema["type"].(string); is {
		schema["type"] = []string{t, "null"}
		return schema
	}
	return object{"anyOf": []object{schema, {"type": "null"}}}
}

func (g schemas) structRef(t reflect.Type) object {
	name := t.Name()
	if name == "" {
		return object{"type": "object"}
	}
	ref := object{"$ref": "#/components/schemas/" + name}
	if _, known := g[name]; known {
		return ref
	}
	props := object{}
	g[name] = object{"type": "object", "properties": props}
	g.fields(t, props)
	return ref
}

// fields adds the members of a struct and of its embedded structs. Outer members override
// embedded ones.
func (g schemas) fields(t reflect.Type, props object) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag == "":
			g.fields(f.Type, props)
		case tag == "-" || !f.IsExported():
		default:
			if tag == "" {
				tag = f.Name
			}
			props[tag] = g.ref(f.Type)
			if f.Type.Kind() == reflect.Slice && t.PkgPath() != apiPackage {
				props[tag] = nullable(props[tag].(object)) // only package api promises [] for an empty list
			}
		}
	}
}
