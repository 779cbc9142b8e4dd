// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/repo"
)

// schemaBook checks answers against the description.
type schemaBook map[string]any

// fits lists where a value does not fit a schema; members that the schema does
// not name count as misfits, so that nothing is left undescribed.
func (g schemaBook) fits(at string, schema map[string]any, v any) (misfits []string) {
	if ref, ok := schema["$ref"].(string); ok {
		named, ok := g[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
		if !ok {
			return []string{at + ": no schema " + ref}
		}
		return g.fits(at, named, v)
	}
	if choices, ok := schema["anyOf"].([]any); ok {
		for _, one := range choices {
			if misfits = g.fits(at, one.(map[string]any), v); len(misfits) == 0 {
				return nil
			}
		}
		return misfits
	}
	if want := schema["type"]; want != nil && !g.hasType(want, v) {
		return []string{fmt.Sprintf("%s: %v is no %v", at, v, want)}
	}
	switch v := v.(type) {
	case []any:
		items, _ := schema["items"].(map[string]any)
		for i, one := range v {
			misfits = append(misfits, g.fits(fmt.Sprintf("%s[%d]", at, i), items, one)...)
		}
	case map[string]any:
		props, _ := schema["properties"].(map[string]any)
		more, _ := schema["additionalProperties"].(map[string]any)
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				misfits = append(misfits, at+"."+name.(string)+" is missing")
			}
		}
		for name, one := range v {
			member, ok := props[name].(map[string]any)
			switch {
			case ok:
				misfits = append(misfits, g.fits(at+"."+name, member, one)...)
			case more != nil:
				misfits = append(misfits, g.fits(at+"."+name, more, one)...)
			case props != nil:
				misfits = append(misfits, at+"."+name+" is not described")
			}
		}
	}
	return misfits
}

func (g schemaBook) hasType(want, v any) bool {
	if l, ok := want.([]any); ok {
		return slices.ContainsFunc(l, func(one any) bool { return g.hasType(one, v) })
	}
	switch v := v.(type) {
	case nil:
		return want == "null"
	case string:
		return want == "string"
	case bool:
		return want == "boolean"
	case float64:
		return want == "number" || want == "integer" && v == math.Trunc(v)
	case []any:
		return want == "array"
	default:
		return want == "object"
	}
}

// TestOpenAPI: every route is described, references resolve, and answers fit
// their schemas to the last member.
func TestOpenAPI(t *testing.T) {
	b := newBench(t)
	a := b.as("", "GET", "/openapi.json", nil)
	var doc struct {
		OpenAPI    string                               `json:"openapi"`
		Paths      map[string]map[string]map[string]any `json:"paths"`
		Components struct {
			Schemas schemaBook `json:"schemas"`
		} `json:"components"`
	}
	if a.into(t, &doc); doc.OpenAPI != "3.1.0" {
		t.Fatalf("the document says OpenAPI %q, want 3.1.0: %.200s", doc.OpenAPI, a.body)
	}
	s := &server{}
	described := 0
	for _, r := range s.routes() {
		op := doc.Paths[strings.ReplaceAll(r.pattern, "...}", "}")][strings.ToLower(r.method)]
		if op == nil || op["summary"] == "" {
			t.Errorf("%s %s is not described", r.method, r.pattern)
		}
		if rights, _ := op["security"].([]any); (len(rights) == 0) != (r.right == public) {
			t.Errorf("%s %s: security %v", r.method, r.pattern, op["security"])
		}
		described++
	}
	operations := 0
	for _, item := range doc.Paths {
		operations += len(item)
	}
	if operations != described {
		t.Errorf("%d operations for %d routes: one is in the table twice", operations, described)
	}
	for name, schema := range doc.Components.Schemas {
		if misfits := unresolved(doc.Components.Schemas, schema); len(misfits) > 0 {
			t.Errorf("%s refers to %v", name, misfits)
		}
	}

	id := b.create(`{"name":"box","spec":{"systemd":{"services":[{"name":"job","mode":"oneshot","exec":["echo hi"]}]}}}`)
	made, _ := b.do("GET", "/v1/vms/"+id, nil).json["buildId"].(string)
	hosted, err := b.engine.Repo.Create(t.Context(), b.call, repo.CreateRequest{Name: "code"})
	if err != nil {
		t.Fatal(err)
	}
	b.do("POST", "/v1/objects/buckets", `{"name":"reports"}`).answers(t, 200)
	b.do("PUT", "/v1/objects/buckets/reports/raw/june.txt", "June").answers(t, 200)
	ofRepo := b.repoPaths(hosted.ID)
	agent := b.identity("agent")
	agent.must("POST", "/tokens", `{"ttlSeconds":60}`)
	agent.must("POST", "/keys", `{"publicKey":"`+aPublicKey+`"}`)
	agent.must("POST", "/permissions/vm/"+id, `{"allowedUsers":["alice"]}`)
	agent.must("POST", "/permissions/git/"+hosted.ID, `{"permission":"read"}`)
	b.do("POST", "/v1/vms/"+id+"/processes", `{"argv":["sleep","60"]}`)
	b.do("POST", "/v1/volumes", `{"name":"work"}`)
	b.openPty("/v1/vms/" + id + "/pty?sessionId=s")
	b.do("POST", "/domains/v1/mappings/app.warren.localhost", `{"vmId":"`+id+`"}`)
	b.do("POST", "/domains/v1/verifications", `{"domain":"example.com"}`)
	b.do("POST", "/v1/secrets", `{"name":"token","host":"api.example.com","header":"Authorization","value":"0123456789abcdef"}`)
	check := func(method, pattern string, got answer) {
		t.Helper()
		op := doc.Paths[pattern][strings.ToLower(method)]
		which := "200"
		if got.status != 200 {
			which = "default"
		}
		schema, ok := op["responses"].(map[string]any)[which].(map[string]any)["content"].(map[string]any)["application/json"].(map[string]any)["schema"].(map[string]any)
		if !ok {
			t.Fatalf("%s %s has no schema", method, pattern)
		}
		var v any
		if err := json.Unmarshal(got.body, &v); err != nil {
			t.Fatal(err)
		}
		if which == "default" { // fields of the error stand beside its members
			return
		}
		if misfits := doc.Components.Schemas.fits(pattern, schema, v); len(misfits) > 0 {
			t.Errorf("the answer to %s %s does not fit its schema:\n  %s", method, pattern, strings.Join(misfits, "\n  "))
		}
	}
	for _, r := range s.routes() {
		if r.method != "GET" || r.stream || r.out == nil || strings.Contains(r.pattern, "{snapshot}") || strings.Contains(r.pattern, "{path...}") ||
			r.pattern == "/v1/asks/{ask}" || r.pattern == "/v1/receipts/{vm}" { // nothing waits here, and the simulated audit log makes no tree
			continue
		}
		path := strings.NewReplacer("{vm}", id, "{process}", "p1", "{session}", "s", "{build}", made, "{service}", "job", "{volume}", "work",
			"{identity}", agent.id, "{repo}", hosted.ID, "{port}", "3000", "{domain}", "app.warren.localhost", "{account}", "admin", "{bucket}", "reports", "{policy}", "agents", "{secret}", "token", "{key...}", "june.txt").Replace(r.pattern)
		if strings.Contains(r.query, "format") {
			path += "?format=json"
		}
		if strings.Contains(r.query, "path") {
			path += "?path=/etc"
		}
		if r.query == "domain" {
			path += "?domain=app.warren.localhost"
		}
		if p, ok := ofRepo[r.pattern]; ok {
			path = p
		}
		got := b.do("GET", path, nil)
		if got.status != 200 {
			t.Errorf("GET %s: %d %s", path, got.status, got.body)
		}
		check("GET", strings.ReplaceAll(r.pattern, "...}", "}"), got)
	}
	check("POST", "/v1/vms", b.do("POST", "/v1/vms", nil))
	check("POST", "/v1/vms/{vm}/exec-await", b.do("POST", "/v1/vms/"+id+"/exec-await", `{"command":"true"}`))
	check("POST", "/v1/accounts", b.do("POST", "/v1/accounts", `{"name":"other"}`))
	check("PUT", "/v1/vms/{vm}/on-boot", b.do("PUT", "/v1/vms/"+id+"/on-boot", `{"onBoot":"resume"}`))
	check("PUT", "/v1/vms/{vm}/network", b.do("PUT", "/v1/vms/"+id+"/network", `{"mode":"open"}`))
	check("POST", "/identity/v1/identities", b.do("POST", "/identity/v1/identities", `{"name":"x"}`))
	check("POST", "/identity/v1/identities/{identity}/tokens", agent.must("POST", "/tokens", nil))
	check("PUT", "/identity/v1/identities/{identity}/permissions/vm/{vm}", agent.must("PUT", "/permissions/vm/"+id, `{"allowedUsers":null}`))
	check("POST", "/v1/vms/{vm}/stop", b.do("POST", "/v1/vms/"+id+"/stop", nil))
	check("POST", "/v1/vms/{vm}/start", b.do("POST", "/v1/vms/"+id+"/start", nil))
	check("POST", "/v1/vms/{vm}/kill", b.do("POST", "/v1/vms/"+id+"/kill", nil))
	check("POST", "/v1/vms/{vm}/await", b.do("POST", "/v1/vms/"+id+"/await", nil))
	check("DELETE", "/v1/vms/{vm}", b.do("DELETE", "/v1/vms/"+id, nil))
}

var update = flag.Bool("update", false, "write api/openapi.json")

// openapiFile is the copy of the description from which the clients' types are made.
const openapiFile = "../../api/openapi.json"

// TestOpenAPIFile: the copy in the repository is what the handlers say. Each route has an id
// of its own, and no id of the copy has disappeared or leads to another route.
func TestOpenAPIFile(t *testing.T) {
	s := &server{}
	ids, missing := map[string]string{}, maps.Clone(operationIDs)
	for _, r := range s.routes() {
		s.table = append(s.table, tableRow{route: r})
		route := r.method + " " + r.pattern
		id := operationIDs[route]
		if id == "" || ids[id] != "" {
			t.Errorf("%s has no id of its own in operationIDs: %q is the id of %q", route, id, ids[id])
		}
		ids[id] = route
		delete(missing, route)
	}
	if len(missing) > 0 {
		t.Errorf("operationIDs has routes that do not exist: %v", missing)
	}
	g := newSchemas()
	for i := range s.table {
		g.operation(s.table[i].route)
	}
	if len(g.clashes) > 0 {
		t.Errorf("types have the same name; add one to renamed: %v", g.clashes)
	}
	now, err := json.MarshalIndent(s.document(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	now = append(now, '\n')
	was, err := os.ReadFile(openapiFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	for id, route := range idsIn(t, was) {
		if _, path, _ := strings.Cut(ids[id], " "); strings.ReplaceAll(path, "...}", "}") != route {
			t.Errorf("the id %s was released for %s and is now that of %q", id, route, ids[id])
		}
	}
	switch {
	case bytes.Equal(was, now):
	case *update && !t.Failed():
		if err := os.WriteFile(openapiFile, now, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what the handlers say: run `make docs`", openapiFile)
	}
}

// idsIn are the ids in a description, with their paths.
func idsIn(t *testing.T, data []byte) map[string]string {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal(data, &doc); err != nil && len(data) > 0 {
		t.Fatalf("%s is no JSON: %v", openapiFile, err)
	}
	ids := map[string]string{}
	for path, item := range doc.Paths {
		for _, op := range item {
			ids[op.OperationID] = path
		}
	}
	return ids
}

// unresolved lists the references below v that lead nowhere.
func unresolved(g schemaBook, v any) (bad []string) {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok && g[strings.TrimPrefix(ref, "#/components/schemas/")] == nil {
			bad = append(bad, ref)
		}
		for _, one := range v {
			bad = append(bad, unresolved(g, one)...)
		}
	case []any:
		for _, one := range v {
			bad = append(bad, unresolved(g, one)...)
		}
	}
	return bad
}
