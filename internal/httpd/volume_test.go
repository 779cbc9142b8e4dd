// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"fmt"
	"strings"
	"testing"
)

// TestVolumes: a volume's life over HTTP, with the code and status of each
// refusal; no answer holds a key.
func TestVolumes(t *testing.T) {
	b := newBench(t)
	box := b.create(`{"name":"box"}`)
	done := func(method, path string, body any) {
		t.Helper()
		b.do(method, path, body).answers(t, 200)
	}
	mounts := "/v1/vms/" + box + "/mounts"
	b.do("POST", "/v1/volumes", `{"name":"No!"}`).wants(t, 400, "VOLUME_NAME_INVALID")
	b.do("POST", "/v1/volumes", `{"name":"work","sizeMib":1}`).wants(t, 400, "VOLUME_SIZE_INVALID")
	a := b.do("POST", "/v1/volumes", `{"name":"work","passphrase":"open sesame"}`)
	if a.status != 200 || a.json["state"] != "locked" || a.json["sensitive"] != false || a.json["project"] != "default" {
		t.Fatalf("create: %d %s", a.status, a.body)
	}
	b.do("POST", "/v1/volumes", `{"name":"work"}`).wants(t, 409, "VOLUME_EXISTS")
	b.do("POST", mounts, `{"volume":"work","path":"/data","rw":true}`).wants(t, 409, "VOLUME_LOCKED")
	b.do("POST", "/v1/volumes/work/unlock", `{"passphrase":"close sesame"}`).wants(t, 403, "VOLUME_SECRET_REFUSED")
	a = b.do("POST", "/v1/volumes/work/unlock", `{"passphrase":"open sesame","ttlSeconds":600}`)
	if a.status != 200 || a.json["state"] != "unlocked" || a.json["sensitive"] != true || a.json["locksAt"] == nil {
		t.Fatalf("unlock: %d %s", a.status, a.body)
	}
	b.do("POST", mounts, `{"volume":"work","path":"/data"}`).wants(t, 409, "VOLUME_NOT_READY")
	b.do("POST", mounts, `{"volume":"work","path":"/usr","rw":true}`).wants(t, 400, "MOUNT_PATH_INVALID")
	b.do("POST", mounts, `{"volume":"nothing","path":"/data"}`).wants(t, 404, "VOLUME_NOT_FOUND")
	done("POST", mounts, `{"volume":"work","path":"/data","rw":true}`)
	for _, path := range []string{mounts, "/v1/volumes", "/v1/volumes?vm=box", "/v1/volumes/work"} {
		a := b.do("GET", path, nil)
		if a.status != 200 || !strings.Contains(string(a.body), `"path":"/data","rw":true`) || strings.Contains(string(a.body), "key of") {
			t.Errorf("GET %s: %d %s", path, a.status, a.body)
		}
	}
	if a := b.do("GET", "/v1/volumes?project=other", nil); fmt.Sprint(a.json["volumes"]) != "[]" {
		t.Errorf("another project: %s", a.body)
	}
	b.do("POST", "/v1/volumes/work/lock", nil).wants(t, 409, "VOLUME_IN_USE")
	b.do("POST", "/v1/volumes/work/resize", `{"sizeMib":16384}`).wants(t, 409, "VOLUME_IN_USE")
	b.do("POST", "/v1/vms/"+box+"/fork", nil).wants(t, 409, "CONFLICT")
	b.do("DELETE", mounts+"?path=/other", nil).wants(t, 404, "MOUNT_NOT_FOUND")
	done("DELETE", mounts+"?path=/data", nil)
	done("POST", "/v1/volumes/work/resize", `{"sizeMib":16384}`)
	a = b.do("POST", "/v1/volumes/work/keys", `{"name":"second"}`)
	slot, _ := a.json["id"].(string)
	if a.status != 200 || a.json["kind"] != "host" || slot == "" {
		t.Errorf("a second key: %d %s", a.status, a.body)
	}
	done("DELETE", "/v1/volumes/work/keys/"+slot, nil)
	done("POST", "/v1/volumes/work/rotate", nil)
	done("POST", "/v1/volumes/work/lock", nil)
	b.do("POST", "/v1/volumes/work/rotate", nil).wants(t, 409, "VOLUME_LOCKED")
	done("DELETE", "/v1/volumes/work", nil)
	b.do("GET", "/v1/volumes/work", nil).wants(t, 404, "VOLUME_NOT_FOUND")
}
