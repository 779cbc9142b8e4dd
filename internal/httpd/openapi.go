// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"cmp"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"

	"github.com/warren-vm/warren/api"
)

// openapi sends the description of the API, generated from the table of routes and the
// types of package api. api/openapi.json is a copy of it.
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

const aboutAPI = "Self-hosted computers for AI agents. Every failure has the form of ErrorBody: `code` is for programs, `message` and `hint` are for people. " +
	"Members that a request has and a schema does not are ignored."

func (s *server) document() object {
	g := newSchemas()
	for i := range s.table {
		g.seen(s.table[i].in, g.sent)
		g.seen(s.table[i].out, g.answered)
	}
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
		"info": object{
			"title": "Warren", "version": api.Version, "description": aboutAPI,
			"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers": []object{{"url": "http://127.0.0.1:8787", "description": "a server with its defaults, on this computer"}},
		"paths":   paths,
		"components": object{
			"schemas": g.named,
			"securitySchemes": object{
				"key":   object{"type": "http", "scheme": "bearer"},
				"token": object{"type": "apiKey", "in": "header", "name": api.HeaderIdentityToken},
				"git":   object{"type": "http", "scheme": "basic"},
			},
		},
	}
}

func (g *schemas) operation(r route) object {
	op := object{"operationId": operationIDs[r.method+" "+r.pattern], "summary": r.doc, "responses": g.responses(r)}
	switch {
	case r.in != nil:
		op["requestBody"] = object{"content": jsonBody(g.ref(reflect.TypeOf(r.in)))}
	case r.method == http.MethodPut && r.stream:
		op["requestBody"] = object{"content": object{"application/octet-stream": object{}}}
	}
	op["security"] = []object{} // none
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
	if params := parameters(r); len(params) > 0 {
		op["parameters"] = params
	}
	return op
}

// responses are the answers of a route.
func (g *schemas) responses(r route) object {
	name := r.method + " " + r.pattern
	failure := jsonBody(g.ref(reflect.TypeFor[api.ErrorBody]()))
	if plainFailures[name] {
		failure["text/plain"] = object{}
	}
	out := object{"default": object{"description": "failure", "content": failure}}
	if sockets[name] {
		out["101"] = object{"description": "the connection is a WebSocket now"}
		return out
	}
	content := object{}
	for kind := range strings.FieldsSeq(media[name]) {
		content[kind] = object{}
	}
	switch {
	case r.out != nil && r.stream && r.method != http.MethodPut:
		content["application/x-ndjson"] = object{"schema": g.ref(reflect.TypeOf(r.out))} // of each line
	case r.out != nil:
		content["application/json"] = object{"schema": g.ref(reflect.TypeOf(r.out))}
	case len(content) == 0 && r.stream:
		content["application/octet-stream"] = object{}
	case len(content) == 0:
		content["application/json"] = object{}
	}
	ok := object{"description": "success", "content": content}
	out["200"] = ok
	if also := statuses[name]; also != "" {
		out[also] = ok
	}
	return out
}

// parameters are those of a route's path, query and headers.
func parameters(r route) []object {
	var params []object
	for p := range strings.SplitSeq(r.pattern, "/") {
		if name, is := strings.CutPrefix(p, "{"); is {
			name = strings.TrimSuffix(strings.TrimSuffix(name, "}"), "...")
			params = append(params, parameter("path", name, true, "string"))
		}
	}
	for name := range strings.FieldsSeq(r.query) {
		at := r.method + " " + r.pattern
		params = append(params, parameter("query", name, needed[at] && !optional[name], cmp.Or(queryTypes[at+" "+name], queryTypes[name])))
	}
	if strings.Contains(r.pattern, "/{vm}/") {
		params = append(params, parameter("header", api.HeaderLinuxUser, false, "string"))
	}
	return params
}

func parameter(in, name string, required bool, kind string) object {
	schema := object{"type": "string"}
	switch kind {
	case "integer":
		schema = object{"type": "integer", "minimum": 0}
	case "boolean":
		schema = object{"type": "boolean"}
	case "strings":
		schema = object{"type": "array", "items": schema}
	}
	if name == "port" && in == "path" {
		schema = object{"type": "integer", "minimum": 1, "maximum": 65535}
	}
	return object{"name": name, "in": in, "required": required, "schema": schema}
}

func jsonBody(schema object) object { return object{"application/json": object{"schema": schema}} }
