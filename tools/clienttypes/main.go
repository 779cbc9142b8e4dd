// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Command clienttypes writes the types of the clients, and their tables of operations, from
// api/openapi.json. It runs in the top directory of the repository.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// document is what the types are made from.
type document struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	ID          string      `json:"operationId"`
	Summary     string      `json:"summary"`
	Parameters  []parameter `json:"parameters"`
	RequestBody *body       `json:"requestBody"`
	Responses   map[string]body
}

type parameter struct {
	Name     string `json:"name"`
	In       string `json:"in"`
	Required bool   `json:"required"`
	Schema   schema `json:"schema"`
}

type body struct {
	Content map[string]struct {
		Schema *schema `json:"schema"`
	} `json:"content"`
}

type schema struct {
	Ref        string             `json:"$ref"`
	Type       kinds              `json:"type"`
	Enum       []string           `json:"enum"`
	AnyOf      []schema           `json:"anyOf"`
	Items      *schema            `json:"items"`
	More       *schema            `json:"additionalProperties"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
}

// kinds are the types that a value may have: a schema names one, or several in a list.
type kinds []string

// UnmarshalJSON implements json.Unmarshaler.
func (k *kinds) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*k = kinds{""}
		return json.Unmarshal(data, &(*k)[0])
	}
	return json.Unmarshal(data, (*[]string)(k))
}

func (s *schema) name() string { return strings.TrimPrefix(s.Ref, "#/components/schemas/") }

// route is an operation with its method and path.
type route struct {
	operation
	method, path string
}

// routes are the operations by id.
func (d *document) routes() []route {
	var all []route
	for path, item := range d.Paths {
		for method, op := range item {
			all = append(all, route{op, strings.ToUpper(method), path})
		}
	}
	slices.SortFunc(all, func(a, b route) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// json is the schema of a body that is JSON; nil = it is not, or says nothing.
func (b *body) json() *schema {
	if b == nil {
		return nil
	}
	return b.Content["application/json"].Schema
}

func main() {
	files, err := generate(".")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err == nil {
			err = os.WriteFile(name, []byte(files[name]), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// generate returns the files, by their paths below the top directory.
func generate(top string) (map[string]string, error) {
	data, err := os.ReadFile(filepath.Join(top, "api/openapi.json"))
	if err != nil {
		return nil, err
	}
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, err
	}
	return map[string]string{
		"clients/typescript/src/types.ts":          typescript(&d),
		"clients/python/src/warren/types.py":       pythonTypes(&d),
		"clients/python/src/warren/_operations.py": pythonOperations(&d),
		"clients/typescript/src/operations.ts":     typescriptOperations(&d),
	}, nil
}

// notice is the head of each file; line begins a comment.
func notice(line string) string {
	return line + " Copyright 2026 The Warren Authors\n" + line + " SPDX-License-Identifier: Apache-2.0\n" +
		line + "\n" + line + " Made by tools/clienttypes from api/openapi.json: `make docs` writes it again.\n\n"
}
