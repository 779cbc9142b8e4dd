// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// codeNames are the file names of the methods as docs/internals.md writes them: with
// placeholders for their arguments.
func codeNames(t *testing.T) []string {
	t.Helper()
	placeholders := map[string][]string{
		"Bin": {"<digest>"}, "MonitorBinary": {"<digest>"}, "ReaderBinary": {"<digest>"}, "AgentBinary": {"<digest>"}, "Initramfs": {"<digest>", "<kernel>"},
		"ObjectBodies": {"<account>"}, "ObjectBody": {"<account>", "<body>"}, "Answer": {"<request>"}, "ImageBuilding": {"<recipe>"}, "ImageBuildLock": {"<recipe>"}, "Layer": {"<recipe>", "<key>"}, "Builder": {"<key>"}, "TemplateFile": {"<key>"},
	}
	var out []string
	add := func(root string, v any, args func(method string, n int) []string) {
		rv := reflect.ValueOf(v)
		for i := range rv.NumMethod() {
			m := rv.Type().Method(i)
			if m.Type.NumOut() != 1 || m.Type.Out(0).Kind() != reflect.String {
				continue
			}
			var in []reflect.Value
			for j, a := range args(m.Name, m.Type.NumIn()-1) {
				in = append(in, reflect.ValueOf(a).Convert(m.Type.In(j+1)))
			}
			got := rv.Method(i).Call(in)[0].String()
			out = append(out, strings.TrimPrefix(got, root))
		}
	}
	add("DATA/", Dir("DATA"), func(method string, n int) []string {
		if p, ok := placeholders[method]; ok {
			return p
		}
		switch {
		case n == 2:
			return []string{"<image>", "<key>"}
		case n == 1 && (strings.Contains(method, "Image") || method == "Kernel" || method == "WarmRoot"):
			return []string{"<image>"}
		case method == "Repo":
			return []string{"<repository>"}
		case method == "Volume":
			return []string{"<volume>"}
		case method == "Generation":
			return []string{"<generation>"}
		case n == 1:
			return []string{"<vm>"}
		}
		return nil
	})
	warm := Dir("DATA").Warm("<image>", "<key>")
	module := func(_ string, n int) []string { return []string{"<module>"}[:n] }
	add("DATA/", GenerationDir(warm), module)
	out = slices.DeleteFunc(out, func(name string) bool { // a warm generation is neither kept apart nor ever cold nor resized
		return strings.HasSuffix(name, ".sealed") || strings.HasSuffix(name, "<module>") || strings.HasSuffix(name, "captured.json") || strings.HasSuffix(name, "ran.json")
	})
	add("DATA/", GenerationDir(Dir("DATA").Generation("<generation>")), module)
	add("DATA/", ImageDir(Dir("DATA").Image("<image>")), func(_ string, n int) []string { return []string{"<key>"}[:n] })
	add("DATA/", VMDir(Dir("DATA").VM("<vm>")), func(method string, n int) []string {
		if method == "ColdModule" {
			return []string{"<module>"}
		}
		return []string{"<generation>"}[:n]
	})
	add("DATA/", VolumeDir(Dir("DATA").Volume("<volume>")), func(string, int) []string { return nil })
	add("", RunDir("RUN"), func(_ string, n int) []string { return []string{"<vm>"}[:n] })
	add("", RunVM("RUN/<vm>"), func(string, int) []string { return nil })
	slices.Sort(out)
	return slices.Compact(out)
}

var pageRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.*) \\|$")

// TestPage compares the code's file names with docs/internals.md: each name is
// explained there, and nothing is explained that does not exist.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/internals.md")
	if err != nil {
		t.Fatal(err)
	}
	onPage := map[string]bool{}
	for _, m := range pageRow.FindAllStringSubmatch(string(page), -1) {
		if onPage[m[1]] {
			t.Errorf("page has %s twice", m[1])
		}
		onPage[m[1]] = true
		if len(m[2]) < 10 {
			t.Errorf("page says too little of %s", m[1])
		}
	}
	inCode := codeNames(t)
	if len(inCode) < 30 {
		t.Fatalf("found only %d names in the code", len(inCode))
	}
	for _, name := range inCode {
		if !onPage[name] {
			t.Errorf("docs/internals.md lacks a row for `%s`", name)
		}
		delete(onPage, name)
	}
	for name := range onPage {
		t.Errorf("docs/internals.md has `%s`, which no method names", name)
	}
}
