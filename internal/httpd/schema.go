// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

var apiPackage = reflect.TypeFor[api.ErrorBody]().PkgPath()

// schemas are the JSON schemas of Go types, by name.
type schemas struct {
	named          map[string]any
	types          map[string]reflect.Type
	sent, answered map[reflect.Type]bool // structs in requests, and in answers
	clashes        []string              // types with the same name; a test wants none
}

func newSchemas() *schemas {
	return &schemas{named: object{}, types: map[string]reflect.Type{}, sent: map[reflect.Type]bool{}, answered: map[reflect.Type]bool{reflect.TypeFor[api.ErrorBody](): true}}
}

// seen notes the structs that a value of the type of example may hold.
func (g *schemas) seen(example any, in map[reflect.Type]bool) {
	if example != nil {
		reach(reflect.TypeOf(example), in)
	}
}

func reach(t reflect.Type, in map[reflect.Type]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		reach(t.Elem(), in)
	case reflect.Struct:
		if in[t] {
			return
		}
		in[t] = true
		for i := range t.NumField() {
			reach(t.Field(i).Type, in)
		}
	}
}

// renamed are the names of structs whose own name another struct has, or that say nothing
// outside of this package.
var renamed = map[reflect.Type]string{
	reflect.TypeFor[vm.File]():       "ImageFile",
	reflect.TypeFor[vm.FileChange](): "ChangedFile",
	reflect.TypeFor[okBody]():        "Done",
	reflect.TypeFor[healthBody]():    "Health",
	reflect.TypeFor[idBody]():        "KilledVM",
	reflect.TypeFor[awaited]():       "AwaitedVM",
}

// choices are the values of types that clients look at.
var choices = map[reflect.Type][]string{
	reflect.TypeFor[vm.State]():    texts(vm.States),
	reflect.TypeFor[vm.Kind]():     kinds(),
	reflect.TypeFor[vm.FileKind](): texts([]vm.FileKind{vm.FileRegular, vm.FileDirectory, vm.FileSymlink, vm.FileOther}),
}

func texts[T ~string](values []T) []string {
	var out []string
	for _, v := range values {
		out = append(out, string(v))
	}
	return out
}

func kinds() []string {
	var out []string
	for _, row := range api.Kinds {
		out = append(out, string(row.Kind))
	}
	return out
}

func (g *schemas) ref(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[vm.NetworkSpec]():
		return object{"anyOf": []object{{"type": "string"}, g.ref(reflect.TypeFor[vm.NetworkRequest]())}}
	case reflect.TypeFor[vm.GuestPath](): // an object if it is not text
		return object{"anyOf": []object{{"type": "string"}, {"type": "object", "required": []string{"quoted", "bytes"}, "properties": object{"quoted": object{"type": "string"}, "bytes": object{"type": "string", "contentEncoding": "base64"}}}}}
	case reflect.TypeFor[json.RawMessage]():
		return object{}
	}
	if strings.HasPrefix(t.Name(), "Optional[") { // vm.Optional of some type
		value, _ := t.FieldByName("Value")
		return nullable(g.ref(value.Type))
	}
	if values := choices[t]; values != nil {
		return g.name(t.Name(), t, func() object { return object{"type": "string", "enum": values} })
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

func (g *schemas) structRef(t reflect.Type) object {
	name := cmp.Or(renamed[t], t.Name())
	if name == "" {
		return object{"type": "object"}
	}
	return g.name(name, t, func() object {
		props, always := object{}, map[string]bool{}
		schema := object{"type": "object", "properties": props}
		g.fields(t, g.answered[t] && !g.sent[t], props, always)
		var required []string
		for member, is := range always {
			if is {
				required = append(required, member)
			}
		}
		if slices.Sort(required); len(required) > 0 {
			schema["required"] = required
		}
		return schema
	})
}

// name gives a type's schema a name, once, and refers to it.
func (g *schemas) name(name string, t reflect.Type, schema func() object) object {
	if had := g.types[name]; had == nil {
		g.types[name] = t // before its members, which may lead back to it
		g.named[name] = schema()
	} else if had != t {
		g.clashes = append(g.clashes, fmt.Sprintf("%s and %s", had, t))
	}
	return object{"$ref": "#/components/schemas/" + name}
}

// fields adds the members of a struct and of its embedded structs. Outer members override
// embedded ones. always gets the members that every answer has, if the struct is only in
// answers; a request may leave any member out.
func (g *schemas) fields(t reflect.Type, answer bool, props object, always map[string]bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag == "":
			g.fields(f.Type, answer, props, always)
		case tag == "-" || !f.IsExported():
		default:
			if tag == "" {
				tag = f.Name
			}
			leftOut := strings.Contains(options, "omit")
			typ := f.Type
			if answer && leftOut && typ.Kind() == reflect.Pointer {
				typ = typ.Elem() // then it is never null
			}
			props[tag] = g.ref(typ)
			if (typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map) && t.PkgPath() != apiPackage && !(answer && leftOut) {
				props[tag] = nullable(props[tag].(object)) // only package api promises [] for an empty list
			}
			always[tag] = answer && !leftOut
		}
	}
}
