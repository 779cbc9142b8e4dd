// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTypesAreCurrent: the clients' types are those of api/openapi.json.
func TestTypesAreCurrent(t *testing.T) {
	files, err := generate("../..")
	if err != nil {
		t.Fatalf("no types: %v", err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil || string(got) != want {
			t.Errorf("%s is not what api/openapi.json says (%v): run `make docs`", name, err)
		}
	}
}

// TestSynchronousIsCurrent: the synchronous Python client is made from the asynchronous one.
func TestSynchronousIsCurrent(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if out, err := exec.CommandContext(ctx, "python3", "../../clients/python/unasync.py", "--check").CombinedOutput(); err != nil {
		t.Errorf("clients/python: %v\n%s", err, out)
	}
}

// TestTypes: each form of schema has a type.
func TestTypes(t *testing.T) {
	var d document
	d.Components.Schemas = map[string]schema{
		"Box": {Type: kinds{"object"}, Required: []string{"id"}, Properties: map[string]*schema{
			"id":    {Type: kinds{"string"}},
			"from":  {Type: kinds{"integer", "null"}},
			"lists": {Type: kinds{"array"}, Items: &schema{Ref: "#/components/schemas/State"}},
			"any":   {},
			"map":   {Type: kinds{"object"}, More: &schema{Type: kinds{"number"}}},
		}},
		"State": {Type: kinds{"string"}, Enum: []string{"on", "off"}},
	}
	for _, c := range []struct{ got, want string }{
		{typescript(&d), "  id: string;\n"},
		{typescript(&d), "  from?: number | null;\n"},
		{typescript(&d), "  lists?: Array<State>;\n"},
		{typescript(&d), "  map?: Record<string, number>;\n"},
		{typescript(&d), "export type State = \"on\" | \"off\";\n"},
		{pythonTypes(&d), "        \"id\": \"str\",\n"},
		{pythonTypes(&d), "        \"from\": \"NotRequired[int | None]\",\n"},
		{pythonTypes(&d), "        \"lists\": \"NotRequired[list[State]]\",\n"},
		{pythonTypes(&d), "        \"any\": \"NotRequired[Any]\",\n"},
		{pythonTypes(&d), "State = Literal[\"on\", \"off\"]\n"},
	} {
		if !strings.Contains(c.got, c.want) {
			t.Errorf("the types lack %q:\n%s", c.want, c.got)
		}
	}
}
