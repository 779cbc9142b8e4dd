// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"strings"
	"testing"
)

// TestObjectRights: every route of a bucket refuses a stranger, another account, an identity
// without a grant, and one whose grant is not enough.
//
// 001-17, 001-27
func TestObjectRights(t *testing.T) {
	b := newBench(t)
	b.do("POST", "/v1/objects/buckets", `{"name":"reports"}`).answers(t, 200)
	b.do("PUT", "/v1/objects/buckets/reports/raw/a%2Fx", "text").answers(t, 200)
	other, _ := b.do("POST", "/v1/accounts", `{"name":"other"}`).json["secret"].(string)
	_, none := b.identity("none").token(nil)
	reader, writer := b.identity("reader"), b.identity("writer")
	b.do("PUT", "/v1/objects/buckets/reports/grants", `{"identity":"reader","prefix":"a/","access":"read"}`).answers(t, 200)
	b.do("PUT", "/v1/objects/buckets/reports/grants", `{"identity":"writer","prefix":"a/","access":"write"}`).answers(t, 200)
	_, read := reader.token(nil)
	_, write := writer.token(nil)
	for _, r := range (&server{}).objectRoutes() {
		name := r.method + " " + r.pattern
		path := strings.NewReplacer("{bucket}", "reports", "{key...}", "a%2Fx", "{key}", "WARREN0").Replace(r.pattern)
		if strings.HasSuffix(path, "/objects") || strings.HasSuffix(path, "/versions") {
			path += "?prefix=a%2F"
		}
		body := `{"mode":"GOVERNANCE","until":"2000-01-01T00:00:00Z","tags":{}}`
		if r.method == "GET" {
			body = ""
		}
		if got := b.as("", r.method, path, body); got.status != 401 {
			t.Errorf("%s answers a stranger %d, want 401", name, got.status)
		}
		if !strings.Contains(r.pattern, "{bucket}") {
			continue
		}
		if got := b.as(other, r.method, path, body); got.status != 404 && got.status != 400 || got.status == 404 && got.json["code"] != "BUCKET_NOT_FOUND" {
			t.Errorf("%s answers another account %d %v, want 404 BUCKET_NOT_FOUND", name, got.status, got.json["code"])
		}
		if got := b.as(none, r.method, path, body); got.status != 403 && got.status != 400 {
			t.Errorf("%s answers an identity without a grant %d %v, want 403", name, got.status, got.json["code"])
		}
		changes := r.method == "PUT" || r.method == "DELETE"
		if got := b.as(read, r.method, path, body); got.status != 400 && (got.status == 403) != (r.right == key || changes) {
			t.Errorf("%s answers an identity that may read %d %v", name, got.status, got.json["code"])
		}
		if got := b.as(write, r.method, path, body); (got.status == 403) != (r.right == key) {
			t.Errorf("%s answers an identity that may write %d %v", name, got.status, got.json["code"])
		}
		outside := strings.NewReplacer("a%2Fx", "b%2Fx", "a%2F", "b%2F").Replace(path)
		if outside == path {
			continue
		}
		if got := b.as(write, r.method, outside, body); got.status != 403 && got.status != 400 {
			t.Errorf("%s answers an identity outside its prefix %d %v, want 403", name, got.status, got.json["code"])
		}
	}
}
