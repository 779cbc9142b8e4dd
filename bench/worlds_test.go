// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

func TestDomainIsXML(t *testing.T) {
	gen := vm.Manifest{Size: vm.DefaultSize, Machine: "pc-q35-7.2", CPU: "Nehalem,x=y"}
	boot := vm.BootSource{Kernel: "/k<&>", Initramfs: "/bin/abc/initramfs", Cmdline: `a="b"`}
	text := domainXML(gen, boot, []byte{1, 2}, "/d", "/s")
	var got struct {
		Memory int `xml:"memory"`
		OS     struct {
			Kernel  string `xml:"kernel"`
			Cmdline string `xml:"cmdline"`
		} `xml:"os"`
		Model string `xml:"cpu>model"`
	}
	if err := xml.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if got.Memory != 512 || got.OS.Kernel != "/k<&>" || got.OS.Cmdline != `a="b" warren.agent=abc warren.key=0102` || got.Model != "Nehalem" {
		t.Errorf("the domain's XML is read as %+v, want the memory, kernel, command line and CPU model that were given", got)
	}
}

func TestFillScript(t *testing.T) {
	if s := fillScript(); strings.Contains(s, "%!") || !strings.Contains(s, "size=100% ") || !strings.Contains(s, fmt.Sprint(inUse)) {
		t.Errorf("the fill script has a bad format verb, or lacks the tmpfs or the bytes to fill:\n%s", s)
	}
}

func TestDiskUse(t *testing.T) {
	dir := t.TempDir()
	before, err := diskUse(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(bytes.Repeat([]byte{1}, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(1 << 30); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	after, err := diskUse(dir)
	if grew := after - before; err != nil || grew < 1 || grew > 2 {
		t.Errorf("a file with 1 MiB of data takes %v MB, %v", grew, err)
	}
}

func TestCPUTime(t *testing.T) {
	self, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	ours := func(line []byte) bool { return bytes.Equal(line, self) }
	_, before, err := cpuTime(ours)
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 300*time.Millisecond; { //nolint:revive // busy on purpose
	}
	if _, after, err := cpuTime(ours); err != nil || after <= before {
		t.Errorf("%v s, then %v s of processor time, %v", before, after, err)
	}
	if _, _, err := cpuTime(func([]byte) bool { return false }); err == nil {
		t.Error("no process at all has no processor time, without an error")
	}
}
