// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"fmt"
	"testing"
)

// TestResize: the contract's body in GiB and ours in MiB, its codes with their
// fields, and how each part was changed.
func TestResize(t *testing.T) {
	b := newBench(t)
	v := b.create(`{"name":"box"}`)
	path := "/v1/vms/" + v + "/resize"
	for _, c := range []struct{ body, how, sizing string }{
		{`{"vcpuCount":2,"memSizeGb":1,"rootfsSizeGb":20}`, "map[cpu:live disk:live memory:live]", "map[memSizeMib:1024 rootfsSizeMb:20480 vcpuCount:2]"},
		{`{"vcpuCount":1,"memSizeGb":null}`, "map[cpu:live]", "map[memSizeMib:1024 rootfsSizeMb:20480 vcpuCount:1]"},
		{`{"memSizeMib":512}`, "map[memory:restart]", "map[memSizeMib:512 rootfsSizeMb:20480 vcpuCount:1]"},
		{`{"vcpuCount":1}`, "map[]", "map[memSizeMib:512 rootfsSizeMb:20480 vcpuCount:1]"},
	} {
		a := b.do("POST", path, c.body).answers(t, 200)
		if how := fmt.Sprint(a.json["how"]); how != c.how {
			t.Errorf("%s was done as %s, want %s", c.body, how, c.how)
		}
		if sizing := fmt.Sprint(a.json["sizing"]); sizing != c.sizing {
			t.Errorf("%s gives the size %s, want %s", c.body, sizing, c.sizing)
		}
		if _, lost := a.json["losses"]; lost != (c.how == "map[memory:restart]") {
			t.Errorf("%s: losses in %s", c.body, a.body)
		}
	}
	for _, c := range []struct{ body, code, fields string }{
		{`{}`, "RESIZE_VM_EMPTY_REQUEST", "<nil> <nil> <nil>"},
		{`{"vcpuCount":3}`, "RESIZE_VM_VCPU_NOT_POWER_OF_TWO", "3 <nil> <nil>"},
		{`{"vcpuCount":-2}`, "RESIZE_VM_VCPU_OUT_OF_RANGE", "-2 <nil> 32"},
		{`{"memSizeGb":3}`, "RESIZE_VM_MEM_NOT_POWER_OF_TWO", "3072 <nil> <nil>"},
		{`{"memSizeGb":4294967296}`, "RESIZE_VM_MEM_OUT_OF_RANGE", "1.099511627776e+12 256 1.048576e+06"},
		{`{"rootfsSizeGb":9223372036854775807}`, "INVALID_PARAMETERS", "<nil> <nil> <nil>"},
		{`{"rootfsSizeGb":10}`, "RESIZE_VM_ROOTFS_SHRINK_NOT_SUPPORTED", "<nil> <nil> <nil>"},
	} {
		a := b.do("POST", path, c.body)
		a.wants(t, 400, c.code)
		if got := fmt.Sprint(a.json["got"], a.json["min"], a.json["max"]); got != c.fields {
			t.Errorf("%s: fields %s of %s", c.body, got, a.body)
		}
	}
	if a := b.do("POST", path, `{"rootfsSizeGb":10}`); a.json["currentMb"] != 20480.0 || a.json["requestedMb"] != 10240.0 {
		t.Errorf("a smaller disk: %s", a.body)
	}
	b.do("POST", "/v1/vms/abcdefghij0123456789/resize", `{"vcpuCount":2}`).wants(t, 404, "VM_NOT_FOUND")
}
